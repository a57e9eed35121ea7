"""The state machine of TYJobs: every edge, and what is written in every situation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from arranger.api.annotations import BUNDLE_TIMEOUT, GANG_TIMEOUT, RESTARTS
from arranger.api.types.tyjob import TYJob, TYJobPod
from arranger.controllers.tyjob.observed_state import Attempt, ObservedState
from arranger.controllers.tyjob.state_machine import (
    Create,
    DeleteReplicaPod,
    PatchLeaderConfigMap,
    TYJobPlan,
    Write,
    next_stage,
    plan,
)
from tests.unit.controllers.tyjob.observed import (
    FIRST,
    LEADER,
    LEADER_UID,
    SECOND,
    a_job,
    observed_pod,
    observed_state,
)

Object = dict[str, Any]

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
LONG_AGO = "2026-01-01T11:00:00Z"
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
    "the first failure to pull may pass": (
        "Starting",
        {**PLACED, LEADER: {"node": "n1", "containers": waiting("ErrImagePull")}},
        {},
        "Starting",
        "NotReady",
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
    assert next_stage(before, Attempt(job, there))[:2] == (stage, reason)


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


# --- writes ------------------------------------------------------------------------------------


def short(write: Write) -> str:
    """A write in words."""
    match write:
        case Create(plural, manifest):
            return f"create {plural} {manifest['metadata']['name']}"
        case DeleteReplicaPod(name, _, force):
            return f"{'remove' if force else 'delete'} {name}"
        case PatchLeaderConfigMap(name, data):
            return f"tell {name} {data}"


TOLD = {LEADER_UID: "10.0.0.1"}
#: Sentence → status before, pods, what else there is, what is written.
WRITES: dict[str, tuple[Object, Pods, Object, list[str]]] = {
    "a new job: Service and leader": (
        {},
        {},
        {"service": False},
        ["create services job", f"create pods {LEADER}"],
    ),
    "with its leader there: the workers": (
        {"stage": "Pending"},
        {LEADER: {}},
        {},
        [f"create pods {FIRST}", f"create pods {SECOND}"],
    ),
    "all there: nothing": ({"stage": "Pending"}, WAIT, {}, []),
    "the leader has its address": (
        {"stage": "Starting"},
        {**PLACED, LEADER: {"ready": True}},
        {},
        ["create configmaps job-leader"],
    ),
    "another address": (
        {"stage": "Starting"},
        {**PLACED, LEADER: {"ready": True}},
        {"addresses": {"old": "10.0.0.9"}},
        [f"tell job-leader {{'old': None, '{LEADER_UID}': '10.0.0.1'}}"],
    ),
    "the same address": ({"stage": "Running"}, ALL_READY, {"addresses": TOLD}, []),
    "the Service was deleted": (
        {"stage": "Running"},
        ALL_READY,
        {"service": False, "addresses": TOLD},
        ["create services job"],
    ),
    "a worker is gone": (
        {"stage": "Running"},
        {LEADER: {"ready": True}, SECOND: {"ready": True}},
        {"addresses": TOLD},
        [f"create pods {FIRST}"],
    ),
    "a worker is leaving": (
        {"stage": "Running"},
        {**ALL_READY, FIRST: {"ready": True, "leaving": JUST_NOW}},
        {"addresses": TOLD},
        [],
    ),
    "a worker has failed": (
        {"stage": "Running"},
        {**ALL_READY, FIRST: {"phase": "Failed"}},
        {"addresses": TOLD},
        [f"delete {FIRST}"],
    ),
    "a worker was evicted": (
        {"stage": "Running"},
        {**ALL_READY, FIRST: {"phase": "Failed", "reason": "Evicted"}},
        {"addresses": TOLD},
        [f"delete {FIRST}"],
    ),
    "a worker has failed for the last time: it stays for its logs": (
        {"stage": "Running"},
        {**ALL_READY, FIRST: {"phase": "Failed", "restarts": 3}},
        {"addresses": TOLD},
        [],
    ),
    "a worker that is given up is gone": (
        {"stage": "Running", "workerRestarts": {FIRST: 4}},
        {LEADER: {"ready": True}, SECOND: {"ready": True}},
        {"addresses": TOLD},
        [],
    ),
    "a worker is through": (
        {"stage": "Running"},
        {**ALL_READY, FIRST: {"phase": "Succeeded"}},
        {"addresses": TOLD},
        [],
    ),
    "a worker of an earlier leader": (
        {"stage": "Running"},
        {**ALL_READY, FIRST: {"ready": True, "leader": "another"}},
        {"addresses": TOLD},
        [f"delete {FIRST}"],
    ),
    "the leader has failed: the round is over": (
        {"stage": "Running"},
        {**ALL_READY, LEADER: {"phase": "Failed"}},
        {},
        [f"delete {LEADER}", f"delete {FIRST}", f"delete {SECOND}"],
    ),
    "the leader is leaving: so do the workers": (
        {"stage": "Running"},
        {**ALL_READY, LEADER: {"ready": True, "leaving": JUST_NOW}},
        {},
        [f"delete {FIRST}", f"delete {SECOND}"],
    ),
    "the leader is gone and workers are still there: no leader before they are gone": (
        {"stage": "Rescheduling"},
        {FIRST: {"ready": True}, SECOND: {"ready": True, "leaving": JUST_NOW}},
        {},
        [f"delete {FIRST}"],
    ),
    "all are gone": ({"stage": "Rescheduling"}, {}, {}, [f"create pods {LEADER}"]),
    "a pod does not go": (
        {"stage": "Running"},
        {**ALL_READY, FIRST: {"ready": True, "leaving": LONG_AGO}},
        {"addresses": TOLD},
        [f"remove {FIRST}"],
    ),
    "the leader ends: the status first": (
        {"stage": "Running"},
        {**ALL_READY, LEADER: {"phase": "Succeeded"}},
        {},
        [],
    ),
    "an ended job is cleaned": (
        {"stage": "Succeeded"},
        {**ALL_READY, LEADER: {"phase": "Succeeded"}},
        {},
        [f"delete {LEADER}", f"delete {FIRST}", f"delete {SECOND}"],
    ),
    "an ended job makes nothing": ({"stage": "Failed"}, {}, {"service": False}, []),
}


@pytest.mark.parametrize("case", WRITES.values(), ids=WRITES.keys())
def test_writes(case: tuple[Object, Pods, Object, list[str]]) -> None:
    before, pods, more, expected = case
    job = a_job(before)
    there = observed_state(*(observed_pod(job, name, **how) for name, how in _led(pods)), **more)
    assert [short(write) for write in plan(job, there, NOW).writes] == expected


def test_sets_that_shrink_lose_their_last_workers() -> None:
    large = a_job({"stage": "Running"}, workers=3)
    pods = [observed_pod(large, place.pod, ready=True) for place in large.replicas]
    small = a_job({"stage": "Running"}, workers=1)
    writes = plan(small, observed_state(*pods, addresses=TOLD), NOW).writes
    assert [short(write) for write in writes] == [f"delete {SECOND}", "delete job-actor-2"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("All", [LEADER, FIRST, SECOND]), ("Running", [SECOND]), ("None", [])],
)
def test_what_is_cleaned_by_policy(policy: str, expected: list[str]) -> None:
    pods = {**ALL_READY, LEADER: {"phase": "Succeeded"}, FIRST: {"phase": "Failed"}}
    job, there = of({"stage": "Succeeded"}, pods, {"cleanPodPolicy": policy})
    assert [short(w) for w in plan(job, there, NOW).writes] == [f"delete {n}" for n in expected]


def test_a_pod_that_leaves_is_looked_at_again_when_it_should_have_gone() -> None:
    pods = {**ALL_READY, FIRST: {"ready": True, "leaving": "2026-01-01T12:00:30Z"}}
    assert plan(*of({"stage": "Running"}, pods, {}), NOW).requeue_after == 90.0


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    job, there = of({"stage": "Running"}, {}, {})
    job.metadata.deletion_timestamp = NOW
    assert plan(job, there, NOW) == TYJobPlan()


# --- counting ----------------------------------------------------------------------------------

#: Sentence → the leader as it is seen, restarts known before, restarts then.
COUNTS: dict[str, tuple[Object, int, int]] = {
    "it runs": ({"ready": True}, 0, 0),
    "it has failed": ({"phase": "Failed"}, 0, 1),
    "that it has failed is known": ({"phase": "Failed"}, 1, 1),
    "the next one has failed": ({"phase": "Failed", "restarts": 1}, 1, 2),
    "its containers were restarted": ({"ready": True, "containers": [{"restartCount": 2}]}, 0, 2),
    "restarted, and then it failed": (
        {"phase": "Failed", "containers": [{"restartCount": 2}], "restarts": 1},
        1,
        4,
    ),
    "it has failed and is deleted": ({"phase": "Failed", "leaving": JUST_NOW}, 1, 1),
    "it was killed as it was deleted": ({"phase": "Failed", "leaving": JUST_NOW}, 0, 0),
    "it was evicted": ({"phase": "Failed", "reason": "Evicted"}, 0, 0),
    "its node went down": ({"phase": "Failed", "reason": "NodeShutdown"}, 0, 0),
    "it was preempted": ({"phase": "Failed", "conditions": [DISRUPTED]}, 0, 0),
}


@pytest.mark.parametrize("case", COUNTS.values(), ids=COUNTS.keys())
def test_restarts_of_the_leader(case: tuple[Object, int, int]) -> None:
    how, before, after = case
    job, there = of({"restarts": before}, {LEADER: how}, {"restartLimit": 9})
    assert Attempt(job, there).restarts == after


def test_restarts_of_workers_count_only_while_their_leader_lives() -> None:
    failed = {"phase": "Failed"}
    for leader, expected in (({"ready": True}, {FIRST: 1}), (failed, {})):
        job, there = of({}, {LEADER: leader, FIRST: failed}, {})
        assert Attempt(job, there).worker_restarts == expected


def test_the_next_pod_knows_how_often_its_place_has_failed() -> None:
    job = a_job({"stage": "Running", "restarts": 2, "workerRestarts": {FIRST: 3}})
    (leader,) = (w for w in plan(job, observed_state(), NOW).writes if isinstance(w, Create))
    assert leader.manifest["metadata"]["annotations"][RESTARTS] == "2"
    there = observed_state(
        observed_pod(job, LEADER, ready=True), observed_pod(job, SECOND, ready=True), addresses=TOLD
    )
    (worker,) = (w for w in plan(job, there, NOW).writes if isinstance(w, Create))
    assert worker.manifest["metadata"]["annotations"][RESTARTS] == "3"


# --- status ------------------------------------------------------------------------------------


def settled(job: Callable[[Object], TYJob], there: ObservedState) -> TYJob:
    """The job when its status has been written until nothing changes; it must come to that."""
    status: Object = {}
    for _ in range(5):
        patch = plan(job(status), there, NOW).status
        if not patch:
            return job(status)
        merged = {**status, **patch}
        status = {name: value for name, value in merged.items() if value is not None}
    raise AssertionError("it never settles")


def test_the_whole_status_of_a_running_job() -> None:
    job = a_job()
    pods: list[TYJobPod] = [observed_pod(job, name, **how) for name, how in ONE_READY.items()]
    assert settled(a_job, observed_state(*pods)).status == {
        "stage": "Running",
        "scheduleState": "ScheduledPartly",
        "restarts": 0,
        "leaderAddress": "10.0.0.1",
        "totalWorkers": 2,
        "readyWorkers": 1,
        "allocations": [{"pod": LEADER, "node": "n1"}, {"pod": FIRST, "node": "n1"}],
        "startTime": "2026-01-01T12:00:00Z",
        "conditions": [
            {
                "type": "Scheduled",
                "status": "True",
                "reason": "Scheduled",
                "message": "",
                "lastTransitionTime": "2026-01-01T12:00:00Z",
            }
        ],
    }


def test_the_status_of_the_end() -> None:
    job = a_job()
    status = settled(a_job, observed_state(observed_pod(job, LEADER, phase="Succeeded"))).status
    assert (status["stage"], status["completionTime"]) == ("Succeeded", "2026-01-01T12:00:00Z")
    (ended,) = (c for c in status["conditions"] if c["type"] == "Succeeded")
    assert (ended["status"], ended["reason"]) == ("True", "LeaderSucceeded")


def test_a_job_that_cannot_be_run_keeps_its_pods_and_says_why() -> None:
    job, there = of({"stage": "Running"}, ALL_READY, {"least": 3})
    planned = plan(job, there, NOW)
    assert not planned.writes
    assert "stage" not in planned.status
    assert planned.status["message"] == "minWorkersNum is 3 of 2 workers"
    (valid,) = planned.status["conditions"]
    assert (valid["type"], valid["status"], valid["reason"]) == ("Valid", "False", "Invalid")
    (note,) = planned.events
    assert (note.reason, note.warning) == ("InvalidTYJob", True)


def test_what_the_server_refuses_is_said_once_and_taken_back() -> None:
    refused = observed_state(refusal="pods job-learner-0: exceeded quota")
    first = plan(a_job(), refused, NOW)
    assert [note.reason for note in first.events] == ["RefusedTYJob", "Pending"]
    said = (first.status["reason"], first.status["message"])
    assert said == ("Refused", "pods job-learner-0: exceeded quota")
    job = settled(a_job, refused)
    assert plan(job, observed_state(), NOW).status["message"] is None
    assert not plan(job, refused, NOW).events
    (valid,) = (
        c for c in plan(job, observed_state(), NOW).status["conditions"] if c["type"] == "Valid"
    )
    assert (valid["status"], valid["reason"]) == ("True", "Accepted")
