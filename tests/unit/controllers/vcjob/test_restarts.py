"""Jobs that are restarted again and again wait, each time longer, and say so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from arranger.controllers.vcjob.policies import restart_not_before
from arranger.controllers.vcjob.state_machine import next_status
from tests.unit.controllers.vcjob.snapshots import NOW, ago, job_snapshot, on


def restarted(*seconds: float) -> list[Any]:
    """The conditions of a job that was restarted so many seconds ago."""
    kinds = [("Restarting", s) for s in seconds] + [("Pending", s - 1) for s in seconds]
    return [{"status": kind, "lastTransitionTime": ago(s)} for kind, s in kinds]


#: Sentence → what the status says of earlier restarts, and in how many seconds the next may come.
BACK_OFF: dict[str, tuple[list[Any], float | None]] = {
    "the first": ([], None),
    "the third": (restarted(2, 1), None),
    "the fourth comes ten seconds after the third": (restarted(9, 6, 4), 6.0),
    "or at once, if that is over": (restarted(30, 20, 10), -0.0),
    "the fifth twenty": (restarted(40, 30, 20, 5), 15.0),
    "none is later than five minutes": (restarted(*range(100, 0, -10)), 290.0),
    "those of long ago do not count": (restarted(700, 650, 601, 2, 1), None),
    "what is to come has not been": (restarted(-5, -10, -60), None),
    "what somebody else has written": (
        [5, {"status": "Restarting"}, {"status": "Restarting", "lastTransitionTime": "soon"}] * 3,
        None,
    ),
}


@pytest.mark.parametrize(("conditions", "seconds"), BACK_OFF.values(), ids=BACK_OFF)
def test_when_a_job_is_restarted_again(conditions: list[Any], seconds: float | None) -> None:
    found = restart_not_before(conditions, NOW)
    assert (None if found is None else (found - NOW).total_seconds()) == seconds


def test_a_job_that_is_restarted_again_and_again_waits_and_says_so() -> None:
    seen = {"w/0": "Failed 1", "w/1": "Running"}
    policy, lately = on("PodFailed", "RestartJob"), restarted(9, 6, 4)
    state = next_status(job_snapshot(policy, pods=seen, conditions=lately, maxRetry=2**31 - 1))
    assert (state.phase, state.reason, state.version) == ("Running", "BackOff", 0)
    assert state.message.endswith("at 2026-01-01T12:00:06Z: it was restarted often lately")
    assert state.requeue_at == NOW + timedelta(seconds=6)
    later = job_snapshot(
        policy, pods=seen, conditions=lately, maxRetry=9, now=NOW + timedelta(seconds=6)
    )
    assert next_status(later).phase == "Restarting"


def test_evictions_other_actions_and_wishes_do_not_wait() -> None:
    seen, lately = {"w/0": "Failed 1", "w/1": "Running"}, restarted(9, 6, 4)
    aborted = job_snapshot(on("PodFailed", "AbortJob"), pods=seen, conditions=lately)
    assert next_status(aborted).phase == "Aborting"
    evicted = {"w/0": "Evicted", "w/1": "Running"}
    moved = job_snapshot(on("PodEvicted", "RestartJob"), pods=evicted, conditions=lately)
    assert next_status(moved).phase == "Restarting"
    asked = job_snapshot(
        pods=seen, conditions=lately, annotations={"arranger.io/action": "RestartJob"}
    )
    assert next_status(asked).phase == "Restarting"
