"""How long the controller of TYJobs hopes for the image of a leader."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from arranger.api.timestamps import second_time
from arranger.controllers.tyjob.image_errors import IMAGE_PATIENCE
from arranger.controllers.tyjob.state_machine import plan
from tests.unit.controllers.tyjob.observed import LEADER, NOW, a_job, observed_pod, observed_state

Object = dict[str, Any]


def ago(seconds: float) -> str:
    return second_time(NOW - timedelta(seconds=seconds))


def waiting(reason: str, **more: Any) -> list[Object]:
    return [{"state": {"waiting": {"reason": reason}}, **more}]


def step(kind: str, seconds: float, status: str = "True") -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": ago(seconds)}


def ran_until(seconds: float) -> Object:
    return {"lastState": {"terminated": {"exitCode": 1, "finishedAt": ago(seconds)}}}


DAY, PATIENCE = 86400.0, IMAGE_PATIENCE
OLD: Object = {"made": ago(DAY)}
#: Sentence → the leader, seconds until it is given up (0 for now; None for: nobody waits).
LEADERS: dict[str, tuple[Object, float | None]] = {
    "one pull has failed": (
        {"made": ago(20), "containers": waiting("ErrImagePull")},
        PATIENCE - 20,
    ),
    "the next waits for its turn": (
        {"made": ago(20), "containers": waiting("ImagePullBackOff")},
        PATIENCE - 20,
    ),
    "the registry is out of reach": (
        {"made": ago(20), "containers": waiting("RegistryUnavailable")},
        PATIENCE - 20,
    ),
    "it has been tried for long": ({**OLD, "containers": waiting("ImagePullBackOff")}, 0),
    "the last try of many has just failed": ({**OLD, "containers": waiting("ErrImagePull")}, 0),
    "just that long": ({"made": ago(PATIENCE), "containers": waiting("ImagePullBackOff")}, 0),
    "it waited a day for its node": (
        {**OLD, "conditions": [step("PodScheduled", 5)], "containers": waiting("ImagePullBackOff")},
        PATIENCE - 5,
    ),
    "its init containers took a day": (
        {
            **OLD,
            "conditions": [step("PodScheduled", DAY), step("Initialized", 7)],
            "containers": waiting("ImagePullBackOff"),
        },
        PATIENCE - 7,
    ),
    "it ran for a day, and is pulled again": (
        {
            **OLD,
            "conditions": [step("PodScheduled", DAY), step("Ready", 9, "False")],
            "containers": waiting("ImagePullBackOff", restartCount=1, **ran_until(11)),
        },
        PATIENCE - 9,
    ),
    "it was never ready, and is pulled again": (
        {
            **OLD,
            "conditions": [step("Ready", DAY, "False")],
            "containers": waiting("ImagePullBackOff", restartCount=1, **ran_until(11)),
        },
        PATIENCE - 11,
    ),
    "somebody else's condition has changed": (
        {
            **OLD,
            "conditions": [step("example.com/checked", 5)],
            "containers": waiting("ImagePullBackOff"),
        },
        0,
    ),
    "the name of the image is none": (
        {"made": ago(1), "containers": waiting("InvalidImageName")},
        0,
    ),
    "it may not be pulled": ({"made": ago(1), "containers": waiting("ErrImageNeverPull")}, 0),
    "one may be had, and another never": (
        {
            "made": ago(1),
            "containers": [*waiting("ImagePullBackOff"), *waiting("ErrImageNeverPull")],
        },
        0,
    ),
    "it waits for something else": (
        {**OLD, "containers": waiting("CreateContainerConfigError")},
        None,
    ),
}


@pytest.mark.parametrize(("leader", "left"), LEADERS.values(), ids=LEADERS.keys())
def test_how_long_an_image_is_hoped_for(leader: Object, left: float | None) -> None:
    job = a_job({"stage": "Starting"})
    there = observed_state(observed_pod(job, LEADER, node="n1", **leader))
    planned = plan(job, there, NOW)
    failed = planned.status.get("stage"), planned.status.get("reason")
    assert (failed == ("Failed", "LeaderImage")) is (left == 0)
    assert planned.requeue_after == (left or None)


def test_meanwhile_the_job_says_what_it_waits_for() -> None:
    job = a_job({"stage": "Starting"}, least=0)
    leader = observed_pod(job, LEADER, node="n1", made=ago(0), containers=waiting("ErrImagePull"))
    status = plan(job, observed_state(leader), NOW).status
    assert status["reason"] == "LeaderImage"
    until = "which is tried for until 2026-01-01T12:10:00Z"
    assert status["message"] == f"{LEADER} cannot get its image, {until}: ErrImagePull"
