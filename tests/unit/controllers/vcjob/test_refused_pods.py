"""Pods of Volcano Jobs that a kubelet refuses at admission: no failure of the job."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arranger.controllers.vcjob.plan import plan
from arranger.controllers.vcjob.policies import decide
from arranger.controllers.vcjob.state_machine import next_status
from tests.unit.controllers.vcjob.snapshots import NOW, Object, a_pod_of, job_snapshot, on
from tests.unit.controllers.vcjob.test_manifests import _settled

GPU: Object = {"reason": "OutOfnvidia.com/gpu", "message": "Pod was rejected: no card"}

#: Sentence → fate and status of a pod, event of the policy, whether that costs a retry; None where
#: the policy is not about it.
PODS: dict[str, tuple[str, Object, str, bool | None]] = {
    "it has failed": ("Failed 1", {}, "PodFailed", True),
    "it has failed, and evictions are asked for": ("Failed 1", {}, "PodEvicted", None),
    "its node has no card for it": ("Failed", GPU, "PodFailed", False),
    "the same, and evictions are asked for": (
        "Failed",
        GPU,
        "PodEvicted",
        False,
    ),
    "its port is taken": ("Failed", {"reason": "NodePorts"}, "PodFailed", False),
    "refused by its words, but it ran": ("Failed 1", GPU, "PodFailed", True),
}


@pytest.mark.parametrize("case", PODS.values(), ids=PODS.keys())
def test_a_pod_that_its_node_refuses_costs_no_retry(
    case: tuple[str, Object, str, bool | None],
) -> None:
    fate, status, event, costs = case
    view = job_snapshot(on(event, "RestartJob"), pods=[a_pod_of("w/0", fate, **status)])
    decided, _ = decide(view)
    assert (None if decided is None else not decided.costs_no_retry) is costs


def test_its_job_says_why_it_is_restarted() -> None:
    view = job_snapshot(on("PodEvicted", "RestartJob"), pods=[a_pod_of("w/0", "Failed", **GPU)])
    state = next_status(view)
    assert (state.phase, state.retries) == ("Restarting", 0)
    assert state.message == ("pod j-w-0 was refused by its node (OutOfnvidia.com/gpu): RestartJob")


#: Seconds after a pod was made → which pods of a restart are deleted, and in how many the rest.
AGES: dict[float, tuple[list[str], float | None]] = {
    4: (["j-w-1"], 6.0),
    10: (["j-w-0", "j-w-1"], None),
    60: (["j-w-0", "j-w-1"], None),
}


@pytest.mark.parametrize(("age", "expected"), AGES.items(), ids=map(str, AGES))
def test_it_is_not_made_and_refused_as_fast_as_both_can(
    age: float, expected: tuple[list[str], float | None]
) -> None:
    now = NOW + timedelta(seconds=age - 60)  # they were made a minute before NOW
    pods = [a_pod_of("w/0", "Failed", **GPU), a_pod_of("w/1", "Running")]
    planned = plan(_settled(job_snapshot(pods=pods, phase="Restarting", version=1, now=now)))
    wait = None if planned.requeue_at is None else (planned.requeue_at - now).total_seconds()
    assert ([pod.metadata.name for pod in planned.delete_pods], wait) == expected
