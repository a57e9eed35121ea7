"""Pods of TYJobs that a kubelet refuses at admission: no failure of theirs, and tried again."""

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
    a_job,
    observed_pod,
    observed_state,
)
from tests.unit.controllers.tyjob.test_planned_writes import short

Object = dict[str, Any]


def ended(code: int) -> Object:
    return {"containers": [{"state": {"terminated": {"exitCode": code}}}]}


#: Sentence → the pod, whether it has failed by itself.
FAILED_PODS: dict[str, tuple[Object, bool]] = {
    "it has failed": ({}, True),
    "with an exit code": (ended(1), True),
    "it ran for longer than it may": ({"reason": "DeadlineExceeded", **ended(137)}, True),
    "the node has no memory left for it": ({"reason": "OutOfmemory"}, False),
    "the node has no card for it": ({"reason": "OutOfnvidia.com/gpu"}, False),
    "the node has no disk for it": ({"reason": "OutOfephemeral-storage"}, False),
    "its cards would not be near to each other": ({"reason": "TopologyAffinityError"}, False),
    "it would get parts of cores": ({"reason": "SMTAlignmentError"}, False),
    "its port is taken": ({"reason": "NodePorts"}, False),
    "it is for another node": ({"reason": "NodeName"}, False),
    "the node's labels have changed": ({"reason": "NodeAffinity"}, False),
    "it does not tolerate the node's taints": ({"reason": "TaintToleration"}, False),
    "it is for another system": ({"reason": "PodOSNotSupported"}, False),
    "its label is that of another system": (
        {"reason": "PodOSSelectorNodeLabelDoesNotMatch"},
        False,
    ),
    "the node does not have its profile": ({"reason": "AppArmor"}, False),
    "the node does not allow its settings": ({"reason": "SysctlForbidden"}, False),
    "a plugin of the kubelet does not work": ({"reason": "UnexpectedAdmissionError"}, False),
    "for a reason of tomorrow": (
        {"reason": "NewReason", "message": "Pod was rejected: the node is new"},
        False,
    ),
    "refused by its words, but it ran": ({"reason": "OutOfnvidia.com/gpu", **ended(1)}, True),
    "refused by its words, but it was started again": (
        {"reason": "NodePorts", "containers": [{"restartCount": 1}]},
        True,
    ),
    "a container still waits to be made": (
        {"reason": "NodePorts", "containers": [{"state": {"waiting": {}}}]},
        False,
    ),
    "evicted after it ran": ({"reason": "Evicted", **ended(137)}, False),
}


@pytest.mark.parametrize(("how", "failed"), FAILED_PODS.values(), ids=FAILED_PODS.keys())
def test_what_counts_as_a_failure_of_a_pod(how: Object, failed: bool) -> None:
    job = a_job({"stage": "Starting"}, restartLimit=5)
    pod = observed_pod(job, LEADER, phase="Failed", **how)
    again = max((each.restart_count for each in pod.status.container_statuses), default=0)
    assert pod.failed is failed
    assert Attempt(job, observed_state(pod), NOW).restarts == failed + again


REFUSED: Object = {"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "no card"}


def test_a_job_that_ran_tells_that_its_leader_was_refused() -> None:
    job = a_job({"stage": "Running"}, restartLimit=0)
    there = observed_state(observed_pod(job, LEADER, **REFUSED))
    assert next_stage("Running", Attempt(job, there, NOW)) == (
        "Rescheduling",
        "LeaderLost",
        f"{LEADER} was refused by its node: OutOfnvidia.com/gpu: no card",
    )


#: Sentence → the pods, what is deleted, seconds until the job is looked at again.
WAITS: dict[str, tuple[dict[str, Object], list[str], float | None]] = {
    "a leader that was made just now stays, its workers go": (
        {LEADER: {**REFUSED, "made": 3}, FIRST: {"ready": True, "made": 3}},
        [f"delete {FIRST}"],
        7.0,
    ),
    "a worker that was made just now": (
        {LEADER: {"ready": True, "made": 99}, FIRST: {**REFUSED, "made": 4}, SECOND: {}},
        [],
        6.0,
    ),
    "two of them, and the first is due first": (
        {
            LEADER: {"ready": True, "made": 99},
            FIRST: {**REFUSED, "made": 4},
            SECOND: {**REFUSED, "made": 5},
        },
        [],
        5.0,
    ),
    "a worker that has waited for its node": (
        {LEADER: {"ready": True, "made": 99}, FIRST: {**REFUSED, "made": 10}, SECOND: {}},
        [f"delete {FIRST}"],
        None,
    ),
    "a worker that has failed at once": (
        {LEADER: {"ready": True, "made": 99}, FIRST: {"phase": "Failed", "made": 1}, SECOND: {}},
        [f"delete {FIRST}"],
        None,
    ),
}


@pytest.mark.parametrize(("pods", "gone", "again"), WAITS.values(), ids=WAITS.keys())
def test_pods_are_not_made_and_refused_as_fast_as_both_can(
    pods: dict[str, Object], gone: list[str], again: float | None
) -> None:
    job = a_job({"stage": "Running"})
    seen = []
    for name, how in pods.items():
        made = second_time(NOW - timedelta(seconds=how.get("made", 99)))
        seen.append(observed_pod(job, name, **{**how, "made": made}))
    planned = plan(job, observed_state(*seen), NOW)
    words = [short(write) for write in planned.writes]
    assert [each for each in words if each.startswith("delete")] == gone
    assert f"create pods {LEADER}" not in words
    # The soonest of them counts.
    assert planned.requeue_after == again
