"""Whether a pod of a TYJob that ended with 0 has done its work, or had to go."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from arranger.api.timestamps import second_time
from arranger.controllers.tyjob.observed_state import Attempt
from arranger.controllers.tyjob.state_machine import next_stage, plan
from tests.unit.controllers.tyjob.observed import (
    FIRST,
    LEADER,
    NOW,
    SECOND,
    Object,
    a_job,
    observed_pod,
    observed_state,
)
from tests.unit.controllers.tyjob.test_planned_writes import short


def at(seconds: float) -> str:
    """So long after the moment of the test."""
    return second_time(NOW + timedelta(seconds=seconds))


def ended(*seconds: float | None) -> list[Object]:
    """Containers that ended then; None for one that nobody says it of."""
    times = [{} if after is None else {"finishedAt": at(after)} for after in seconds]
    return [{"state": {"terminated": {"exitCode": 0, **time}}} for time in times]


def evicted(seconds: float | None = 0, status: str = "True") -> Object:
    """It was marked for eviction then."""
    time = {} if seconds is None else {"lastTransitionTime": at(seconds)}
    return {"type": "DisruptionTarget", "status": status, **time}


DELETED: Object = {"leaving": at(30), "grace": 30}
#: Sentence → the pod, whether it has done its work.
ENDS: dict[str, tuple[Object, bool]] = {
    "nobody had it go": ({}, True),
    "deleted, and ended within its grace": ({**DELETED, "containers": ended(5)}, False),
    "ended, and then deleted": ({**DELETED, "containers": ended(-5)}, True),
    "ended in the second of its deletion": ({**DELETED, "containers": ended(0)}, False),
    "its last container ended within its grace": (
        {**DELETED, "containers": ended(-5, 5, -7)},
        False,
    ),
    "deleted, and nobody says when it ended": ({**DELETED}, False),
    "deleted, and nobody says when one container ended": (
        {**DELETED, "containers": ended(-5, None)},
        False,
    ),
    "deleted, and a container is said to run": (
        {**DELETED, "containers": [*ended(-5), {"state": {}}]},
        False,
    ),
    "deleted at once, after its end": ({"leaving": at(0), "containers": ended(-1)}, True),
    "marked for eviction, and ended": (
        {"conditions": [evicted()], "containers": ended(5)},
        False,
    ),
    "ended, and marked for eviction then": (
        {"conditions": [evicted()], "containers": ended(-5)},
        True,
    ),
    "marked for eviction, nobody knows when": (
        {"conditions": [evicted(None)], "containers": ended(-5)},
        False,
    ),
    "the mark was taken back": (
        {"conditions": [evicted(status="False")], "containers": ended(5)},
        True,
    ),
    "marked for eviction, ended, and deleted": (
        {**DELETED, "conditions": [evicted(-9)], "containers": ended(-5)},
        False,
    ),
    "ended, deleted, and marked for eviction then": (
        {**DELETED, "conditions": [evicted()], "containers": ended(-5)},
        True,
    ),
    "a grace longer than any time": (
        {"leaving": at(30), "grace": 2**62, "containers": ended(5)},
        False,
    ),
}


@pytest.mark.parametrize(("how", "done"), ENDS.values(), ids=ENDS.keys())
def test_a_leader_that_ends_because_it_has_to_go_is_lost(how: Object, done: bool) -> None:
    job = a_job({"stage": "Running"}, restartLimit=0)
    there = observed_state(observed_pod(job, LEADER, phase="Succeeded", **how))
    decided = next_stage("Running", Attempt(job, there, NOW))[:2]
    assert decided == (("Succeeded", "LeaderSucceeded") if done else ("Rescheduling", "LeaderLost"))
    assert plan(job, there, NOW).status.get("restarts", 0) == 0


#: Those of which nobody has begun the deletion.
THERE = {name: case for name, case in ENDS.items() if "leaving" not in case[0]}


@pytest.mark.parametrize(("how", "done"), THERE.values(), ids=THERE.keys())
def test_a_worker_that_ends_because_it_has_to_go_is_made_again(how: Object, done: bool) -> None:
    job = a_job({"stage": "Running"})
    pods: dict[str, Any] = {LEADER: {"ready": True}, SECOND: {"ready": True}}
    pods[FIRST] = {"phase": "Succeeded", **how}
    there = observed_state(*(observed_pod(job, name, **pod) for name, pod in pods.items()))
    gone = [short(write) for write in plan(job, there, NOW).writes if FIRST in short(write)]
    assert gone == ([] if done else [f"delete {FIRST}"])
