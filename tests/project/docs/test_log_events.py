"""The events of the log are those that the operations page lists."""

from __future__ import annotations

import re

from arranger.kube.client.problems import ProblemKind
from tests.paths import REPO

PAGE = (REPO / "docs/guide/operations.md").read_text()
LISTED = set(re.findall(r"`([a-z]+\.[a-z_]+)`", PAGE.partition("## The log")[2]))
#: Events that are put together where they are written.
COMPOSED = {
    "api.": {f"api.{kind}" for kind in ProblemKind},
    "pod.": {f"pod.{event}" for event in ("bound", "bound_unknown", "not_bound", "evicted")},
    ".write_failed": {f"{name}.write_failed" for name in ("gang", "queue", "job", "tyjob")},
}


def written_events() -> set[str]:
    """What the code of the two processes writes with ``log.info`` and above."""
    found: set[str] = set()
    for file in (REPO / "arranger").rglob("*.py"):
        if "embedded" not in file.parts:
            text = file.read_text()
            calls = r'log\.(?:info|warning|error)\(\s*"([a-z]+\.[a-z_]+)"'
            found |= set(re.findall(calls, text))
    return found.union(*COMPOSED.values())


def test_every_event_of_the_log_is_on_the_operations_page() -> None:
    assert len(written_events()) > 30
    assert written_events() - LISTED == set()


def test_the_operations_page_lists_no_event_that_is_not_written() -> None:
    source = "".join(file.read_text() for file in (REPO / "arranger").rglob("*.py"))
    unknown = {
        event
        for event in LISTED - written_events()
        if f'"{event}"' not in source and not event.startswith("pod.")
    }
    assert unknown == set()
