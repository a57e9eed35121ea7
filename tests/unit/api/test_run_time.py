"""How long a pod may run."""

from __future__ import annotations

import pytest

from arranger.api.settings.run_time import run_time_limit
from tests.builders import a_pod

LIMITS: dict[str, tuple[int | None, str | None, float | None]] = {
    "nothing is said": (None, None, None),
    "a deadline": (90, None, 90.0),
    "an annotation": (None, "1h30m", 5400.0),
    "seconds without a unit": (None, "90", 90.0),
    "the annotation is the smaller": (90, "1m", 60.0),
    "the deadline is the smaller": (90, "2m", 90.0),
    "the least that can be said": (None, "1s", 1.0),
    "less than that is ignored": (90, "999ms", 90.0),
    "so is nothing at all": (None, "0", None),
    "an empty text": (90, "", 90.0),
    "no duration": (None, "a day", None),
    "a negative one": (None, "-5m", None),
    "longer than clocks count": (90, "9999999999h", 90.0),
    "a text without end": (None, "1s" * 100_000, None),
}


@pytest.mark.parametrize(("deadline", "note", "expected"), LIMITS.values(), ids=LIMITS.keys())
def test_the_smaller_of_deadline_and_annotation_counts(
    deadline: int | None, note: str | None, expected: float | None
) -> None:
    pod = a_pod("p")
    if deadline is not None:
        pod = pod.with_spec(activeDeadlineSeconds=deadline)
    if note is not None:
        pod = pod.annotated({"arranger.io/max-run-time": note})
    assert run_time_limit(pod.build()) == expected
