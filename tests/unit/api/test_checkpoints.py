"""What a pod says of saving its state."""

from __future__ import annotations

import pytest

from arranger.api.settings.checkpoints import checkpoint_time, checkpointed_at
from tests.builders import a_pod

ASKED: dict[str, tuple[str, float]] = {
    "a minute": ("60s", 60.0),
    "parts": ("1m30s", 90.0),
    "nothing": ("", 0.0),
    "the least": ("1s", 1.0),
    "less than that": ("999ms", 0.0),
    "a negative one": ("-60s", 0.0),
    "no duration": ("a while", 0.0),
    "longer than clocks count": ("9999999999h", 0.0),
    "a text without end": ("1s" * 100_000, 0.0),
}


@pytest.mark.parametrize(("text", "seconds"), ASKED.values(), ids=ASKED.keys())
def test_the_time_that_a_pod_asks_for(text: str, seconds: float) -> None:
    pod = a_pod("p").annotated({"arranger.io/checkpoint-before-eviction": text})
    assert checkpoint_time(pod.build()) == seconds
    assert checkpoint_time(a_pod("p").build()) == 0.0


SAVED: dict[str, tuple[str, float]] = {
    "a moment": ("1970-01-01T00:01:00Z", 60.0),
    "elsewhere": ("1970-01-01T01:01:00+01:00", 60.0),
    "before there were clocks": ("1900-01-01T00:00:00Z", 0.0),
    "no moment": ("just now", 0.0),
    "beyond the calendar": ("9999-12-31T23:59:59-23:59", 0.0),
    "a text without end": ("1" * 100_000, 0.0),
}


@pytest.mark.parametrize(("text", "moment"), SAVED.values(), ids=SAVED.keys())
def test_when_a_pod_has_saved_its_state(text: str, moment: float) -> None:
    pod = a_pod("p").annotated({"arranger.io/checkpointed-at": text})
    assert checkpointed_at(pod.build()) == moment
