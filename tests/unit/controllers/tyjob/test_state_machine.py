"""The state machine of TYJobs: every edge, and what is written in every situation."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.annotations import BUNDLE_TIMEOUT, GANG_TIMEOUT
from arranger.api.types.tyjob import TYJob
from arranger.controllers.tyjob.observed_state import Attempt, ObservedState
from arranger.controllers.tyjob.state_machine import (
    next_stage,
    plan,
)
from tests.unit.controllers.tyjob.observed import (
    FIRST,
    LEADER,
    NOW,
    SECOND,
    a_job,
    observed_pod,
    observed_state,
)

Object = dict[str, Any]

JUST_NOW = "2026-01-01T12:00:00Z"
REFUSED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available",
}
DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


def waiting(reason: str) -> list[Object]:
    return [{"state": {"waiting": {"reason": reason, "message": "no such tag"}}}]


# --- stages ------------------------------------------------------------------------------------

#: What the pods are like: name → how they are seen.
Pods = dict[str, Object]
WAIT: Pods = {LEADER: {}, FIRST: {}, SECOND: {}}
PLACED: Pods = {LEADER: {"node": "n1"}, FIRST: {"node": "n1"}, SECOND: {}}
ALL_READY: Pods = {name: {"ready": True} for name in (LEADER, FIRST, SECOND)}
ONE_READY: Pods = {LEADER: {"ready": True}, FIRST: {"ready": True}, SECOND: {}}

Words = dict[str, Any]
#: Sentence → stage before, pods, what else the job says, stage, reason.
STAGES: dict[str, tuple[str, Pods, Words, str, str]] = {
    "a new job waits": ("", {}, {}, "Pending", ""),
    "nobody has looked yet": ("Pending", WAIT, {}, "Pending", ""),
    "the scheduler has no room": (
        "Pending",
        {**WAIT, LEADER: {"conditions": [REFUSED]}},
        {},
        "Pending",
        "Unschedulable",
    ),
    "leader and minimum have nodes": ("Pending", PLACED, {}, "Starting", "NotReady"),
    "the leader has a node, the minimum has not": (
        "Pending",
        {**WAIT, LEADER: {"node": "n1"}},
        {},
        "Pending",
        "",
    ),
    "the minimum has nodes, the leader has not": (
        "Pending",
        {**WAIT, FIRST: {"node": "n1"}},
        {},
        "Pending",
        "",
    ),
    "one edge at a time, though all are ready": ("Pending", ALL_READY, {}, "Starting", "NotReady"),
    "no worker must run": (
        "Pending",
        {LEADER: {"node": "n1"}},
        {"least": 0},
        "Starting",
        "NotReady",
    ),
    "starting, and enough are ready": ("Starting", ONE_READY, {}, "Running", ""),
    "starting, and all are ready": ("Starting", ALL_READY, {}, "Running", ""),
    "starting, and only the leader is": (
        "Starting",
        {**PLACED, LEADER: {"ready": True}},
        {},
        "Starting",
        "NotReady",
    ),
    "starting, the leader runs and has no address yet": (
        "Starting",
        {**ONE_READY, LEADER: {"phase": "Running"}},
        {},
        "Starting",
        "NotReady",
    ),
    "a worker that is through counts as ready": (
        "Starting",
        {**PLACED, LEADER: {"ready": True}, FIRST: {"phase": "Succeeded"}},
        {},
        "Running",
        "",
    ),
    "starting, and the leader is lost": ("Starting", {}, {}, "Starting", ""),
    "running on": ("Running", ALL_READY, {}, "Running", ""),
    "running without the surplus": ("Running", ONE_READY, {}, "Running", ""),
    "running while a worker is not ready for a moment": (
        "Running",
        {**ALL_READY, FIRST: {"phase": "Running"}, SECOND: {"phase": "Running"}},
        {},
        "Running",
        "",
    ),
    "the minimum is lost": (
        "Running",
        {LEADER: {"ready": True}, FIRST: {"ready": True, "leaving": JUST_NOW}},
        {},
        "Rescheduling",
        "WorkersLost",
    ),
    "the leader is deleted": (
        "Running",
        {**ALL_READY, LEADER: {"ready": True, "leaving": JUST_NOW}},
        {},
        "Rescheduling",
        "LeaderLost",
    ),
    "the leader is gone": ("Running", {}, {}, "Rescheduling", "LeaderLost"),
    "the leader is evicted by its kubelet": (
        "Running",
        {**ALL_READY, LEADER: {"phase": "Failed", "reason": "Evicted"}},
        {"restartLimit": 0},
        "Rescheduling",
        "LeaderLost",
    ),
    "the leader is preempted": (
        "Running",
        {**ALL_READY, LEADER: {"phase": "Failed", "conditions": [DISRUPTED]}},
        {"restartLimit": 0},
        "Rescheduling",
        "LeaderLost",
    ),
    "the leader fails and may be restarted": (
        "Running",
        {**ALL_READY, LEADER: {"phase": "Failed"}},
        {},
        "Rescheduling",
        "LeaderFailed",
    ),
    "the leader fails for the last time": (
        "Running",
        {**ALL_READY, LEADER: {"phase": "Failed", "restarts": 3}},
        {},
        "Failed",
        "LeaderFailed",
    ),
    "the kubelet has restarted the leader too often": (
        "Running",
        {**ALL_READY, LEADER: {"ready": True, "containers": [{"restartCount": 4}]}},
        {},
        "Failed",
        "LeaderFailed",
    ),
    "rescheduled, and nothing there yet": ("Rescheduling", {}, {}, "Rescheduling", "WorkersLost"),
    "rescheduled, with nodes": ("Rescheduling", PLACED, {}, "Rescheduling", "WorkersLost"),
    "rescheduled, and enough are ready": ("Rescheduling", ONE_READY, {}, "Running", ""),
    "the leader's image cannot be had": (
        "Starting",
        {**PLACED, LEADER: {"node": "n1", "containers": waiting("ImagePullBackOff")}},
        {},
        "Failed",
        "LeaderImage",
    ),
    "its name is none": (
        "Starting",
        {**PLACED, LEADER: {"node": "n1", "containers": waiting("InvalidImageName")}},
        {},
        "Failed",
        "LeaderImage",
    ),
    "a pull that has just failed is tried again": (
        "Starting",
        {**PLACED, LEADER: {"node": "n1", "made": JUST_NOW, "containers": waiting("ErrImagePull")}},
        {},
        "Starting",
        "LeaderImage",
    ),
    "a worker's image does not fail the job": (
        "Starting",
        {**PLACED, FIRST: {"node": "n1", "containers": waiting("ImagePullBackOff")}},
        {},
        "Starting",
        "NotReady",
    ),
    "a surplus worker fails for the last time": (
        "Running",
        {**ALL_READY, SECOND: {"phase": "Failed", "restarts": 3}},
        {},
        "Running",
        "",
    ),
    "a worker of the minimum fails for the last time": (
        "Running",
        {**ALL_READY, SECOND: {"phase": "Failed", "restarts": 3}},
        {"least": 2},
        "Failed",
        "WorkersFailed",
    ),
    "the gang ran out of time": (
        "Pending",
        {**WAIT, LEADER: {"notes": {GANG_TIMEOUT: "true"}}},
        {},
        "Failed",
        "SchedulingFailed",
    ),
    "the leader ends well": (
        "Running",
        {**ALL_READY, LEADER: {"phase": "Succeeded"}},
        {},
        "Succeeded",
        "LeaderSucceeded",
    ),
    "the leader ends well though workers have failed": (
        "Running",
        {LEADER: {"phase": "Succeeded"}, FIRST: {"phase": "Failed", "restarts": 9}},
        {"least": 2},
        "Succeeded",
        "LeaderSucceeded",
    ),
    "the leader ended before its workers were ready": (
        "Pending",
        {**PLACED, LEADER: {"phase": "Succeeded"}},
        {},
        "Succeeded",
        "LeaderSucceeded",
    ),
    "told to end while waiting": (
        "Pending",
        WAIT,
        {"terminating": True},
        "Succeeded",
        "Terminated",
    ),
    "told to end while running": (
        "Running",
        ALL_READY,
        {"terminating": True},
        "Succeeded",
        "Terminated",
    ),
    "told to end as the leader fails for the last time": (
        "Running",
        {**ALL_READY, LEADER: {"phase": "Failed", "restarts": 3}},
        {"terminating": True},
        "Succeeded",
        "Terminated",
    ),
}


def of(before: Object, pods: Pods, words: Words) -> tuple[TYJob, ObservedState]:
    job = a_job(before, **words)
    return job, observed_state(*(observed_pod(job, name, **how) for name, how in _led(pods)))


def _led(pods: Pods) -> list[tuple[str, Object]]:
    """Workers follow the leader that is there, whatever its number."""
    number = pods.get(LEADER, {}).get("restarts", 0)
    return [(name, {"leader": f"uid-{LEADER}-{number}", **how}) for name, how in pods.items()]


@pytest.mark.parametrize("case", STAGES.values(), ids=STAGES.keys())
def test_stages(case: tuple[str, Pods, Words, str, str]) -> None:
    before, pods, words, stage, reason = case
    status = {"stage": before, "reason": "WorkersLost"} if before else {}
    job, there = of(status, pods, words)
    assert next_stage(before, Attempt(job, there, NOW))[:2] == (stage, reason)


# --- which pods have nodes ---------------------------------------------------------------------

SCHEDULED: dict[str, tuple[Pods, str, list[str]]] = {
    "none": (WAIT, "Unscheduled", []),
    "some": (PLACED, "ScheduledPartly", [LEADER, FIRST]),
    "all": (ALL_READY, "ScheduledSucceed", [LEADER, FIRST, SECOND]),
    "those that leave have none any more": (
        {**ALL_READY, SECOND: {"ready": True, "leaving": JUST_NOW}},
        "ScheduledPartly",
        [LEADER, FIRST],
    ),
    "nor has an earlier round": (
        {LEADER: {}, FIRST: {"ready": True, "leader": "another"}},
        "Unscheduled",
        [],
    ),
    "out of time": (
        {**WAIT, FIRST: {"notes": {BUNDLE_TIMEOUT: "true"}}},
        "ScheduledFailed",
        [],
    ),
}


@pytest.mark.parametrize("case", SCHEDULED.values(), ids=SCHEDULED.keys())
def test_schedule_state_and_allocations(case: tuple[Pods, str, list[str]]) -> None:
    pods, state, placed = case
    status = plan(*of({"stage": "Starting"}, pods, {}), NOW).status
    assert status["scheduleState"] == state
    expected = [{"pod": name, "node": "n1"} for name in placed]
    assert status.get("allocations", []) == expected
