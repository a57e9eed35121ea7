"""What the controller of TYJobs writes, counts and reports."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.annotations import BUNDLE_MIN, GANG_MIN, RESTARTS
from arranger.api.types.tyjob import Replica, TYJob, TYJobPod
from arranger.controllers.tyjob import manifests
from arranger.controllers.tyjob.observed_state import Attempt, ObservedState
from arranger.controllers.tyjob.state_machine import TYJobPlan, plan
from arranger.controllers.tyjob.writes import Create, DeleteReplicaPod, Patch, Write
from tests.tyjobs import a_template
from tests.unit.controllers.tyjob.observed import (
    FIRST,
    LEADER,
    LEADER_UID,
    NOW,
    SECOND,
    a_job,
    observed_pod,
    observed_state,
    refused,
)
from tests.unit.controllers.tyjob.test_state_machine import (
    ALL_READY,
    DISRUPTED,
    JUST_NOW,
    ONE_READY,
    PLACED,
    WAIT,
    Object,
    Pods,
    _led,
    of,
)

LONG_AGO = "2026-01-01T11:00:00Z"


# --- writes ------------------------------------------------------------------------------------


def short(write: Write) -> str:
    """A write in words."""
    match write:
        case Create(plural):
            manifest = write.manifest
            return f"create {plural} {manifest['metadata']['name']}"
        case DeleteReplicaPod(name, _, force, version):
            return f"{'remove' if force else 'replace' if version else 'delete'} {name}"
        case Patch("configmaps", name, change):
            return f"tell {name} {change['data']}"
        case Patch(plural, name, change):
            return f"patch {plural} {name} {sorted(change['metadata']['annotations'])}"


TOLD = {LEADER_UID: "10.0.0.1"}
#: Sentence → status before, pods, what else there is, what is written.
WRITES: dict[str, tuple[Object, Pods, Object, list[str]]] = {
    "a new job: Service and leader": (
        {},
        {},
        {"service": None},
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
        {"service": None, "addresses": TOLD},
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
    "a worker that is through is gone: its gang does not wait for it": (
        {"stage": "Running", "succeededWorkers": {"actor": "0"}},
        {LEADER: {"ready": True}, SECOND: {"ready": True}},
        {"addresses": TOLD},
        [
            f"patch pods {LEADER} ['{GANG_MIN}']",
            f"patch pods {SECOND} ['{BUNDLE_MIN}', '{GANG_MIN}']",
        ],
    ),
    "a worker that is through is leaving": (
        {"stage": "Running", "succeededWorkers": {"actor": "0"}},
        {**ALL_READY, FIRST: {"phase": "Succeeded", "leaving": JUST_NOW}},
        {"addresses": TOLD},
        [],
    ),
    "a worker was through for an earlier leader": (
        {"stage": "Rescheduling", "succeededWorkers": {"actor": "0"}},
        {},
        {},
        [f"create pods {LEADER}"],
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
    "a pod does not go because of a finalizer": (
        {"stage": "Running"},
        {**ALL_READY, FIRST: {"ready": True, "leaving": LONG_AGO, "finalizers": ["x.com/y"]}},
        {"addresses": TOLD},
        [],
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
    "an ended job makes nothing": ({"stage": "Failed"}, {}, {"service": None}, []),
}


@pytest.mark.parametrize("case", WRITES.values(), ids=WRITES.keys())
def test_writes(case: tuple[Object, Pods, Object, list[str]]) -> None:
    before, pods, more, expected = case
    job = a_job(before)
    there = observed_state(*(observed_pod(job, name, **how) for name, how in _led(pods)), **more)
    assert [short(write) for write in plan(job, there, NOW).writes] == expected


def test_what_pods_have_to_say_is_worked_out_once_for_each_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A template may have thousands of annotations, and a job thousands of pods."""
    asked: list[str] = []

    def counted(job: TYJob, replica: Replica, *, gone: int) -> dict[str, str | None]:
        asked.append(replica.set_name)
        return following(job, replica, gone=gone)

    following = manifests.following_annotations
    monkeypatch.setattr(manifests, "following_annotations", counted)
    job = a_job({"stage": "Running"}, workers=50)
    pods = [observed_pod(job, place.pod, ready=True) for place in job.replicas]
    assert plan(job, observed_state(*pods, addresses=TOLD), NOW).writes == ()
    assert asked == ["learner", "actor"]


def test_a_spec_is_as_heavy_as_what_is_gone_through_for_all_its_parts() -> None:
    volumes = [{"name": "v", "csi": {"driver": "x" * 10_000}}]
    parts = [{"name": f"s{n}", "template": a_template()} for n in range(9)]
    job = a_job(volumes=volumes, workerSets=parts)
    assert 100_000 < job.weight < 105_000
    assert a_job(volumes=volumes).weight < 25_000


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
    assert Attempt(job, there, NOW).restarts == after


def test_restarts_of_workers_count_only_while_their_leader_lives() -> None:
    failed = {"phase": "Failed"}
    for leader, expected in (({"ready": True}, {FIRST: 1}), (failed, {})):
        job, there = of({}, {LEADER: leader, FIRST: failed}, {})
        assert Attempt(job, there, NOW).worker_restarts == expected


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
    failing = observed_state(refusal=refused("pods job-learner-0: exceeded quota"))
    first = plan(a_job(), failing, NOW)
    assert [note.reason for note in first.events] == ["RefusedTYJob", "Pending"]
    said = (first.status["reason"], first.status["message"])
    assert said == ("Refused", "pods job-learner-0: exceeded quota")
    job = settled(a_job, failing)
    assert not plan(job, failing, NOW).events
    assert not plan(job, observed_state(), NOW).status, "after a restart, nothing has been tried"
    placed = observed_state(*(observed_pod(job, name, **how) for name, how in _led(WAIT)))
    accepted = plan(job, placed, NOW).status
    assert accepted["message"] is None
    (valid,) = (c for c in accepted["conditions"] if c["type"] == "Valid")
    assert (valid["status"], valid["reason"]) == ("True", "Accepted")


def test_a_refusal_is_told_again_only_after_an_edit() -> None:
    first, again = (observed_state(refusal=refused("no", generation=n)) for n in (1, 2))
    job = settled(lambda status: a_job(status, generation=1), first)
    edited = a_job(job.status, generation=2)
    assert not plan(edited, first, NOW).events, "it has not been tried since"
    assert [note.reason for note in plan(edited, again, NOW).events] == ["RefusedTYJob"]
