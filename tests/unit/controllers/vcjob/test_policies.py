"""Every event and every action of the policies, and which of several goes before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from arranger.controllers.vcjob.controlled_resources import ControlledResources
from arranger.controllers.vcjob.policies import Decision, decide, delayed_actions
from tests.unit.controllers.vcjob.snapshots import NOW, a_pod_of, a_task, job_snapshot, on

Object = dict[str, Any]

RUN = "Running"


@dataclass(frozen=True)
class Case:
    """Policies, pods, and the action and reason that follow; "" for none."""

    policies: tuple[Object, ...]
    pods: dict[str, str]
    action: str = ""
    reason: str = ""
    view: Object | None = None


CASES = {
    # --- each event
    "PodFailed": Case(
        (on("PodFailed", "AbortJob"),), {"w/0": "Failed", "w/1": RUN}, "AbortJob", "PodFailed"
    ),
    "PodFailed is not a pod that runs": Case(
        (on("PodFailed", "AbortJob"),), {"w/0": RUN, "w/1": RUN}
    ),
    "PodEvicted is a pod that somebody deletes": Case(
        (on("PodEvicted", "AbortJob"),), {"w/0": "Leaving", "w/1": RUN}, "AbortJob", "PodEvicted"
    ),
    "PodEvicted is a pod that failed for others' sake": Case(
        (on("PodEvicted", "AbortJob"),), {"w/0": "Evicted", "w/1": RUN}, "AbortJob", "PodEvicted"
    ),
    "PodEvicted is a pod that is gone": Case(
        (on("PodEvicted", "AbortJob"),),
        {"w/1": RUN},
        "AbortJob",
        "PodEvicted",
        {"lost": ["w/0"]},
    ),
    "PodEvicted is not a pod that failed by itself": Case(
        (on("PodEvicted", "AbortJob"),), {"w/0": "Failed 1", "w/1": RUN}
    ),
    "PodEvicted is not a pod that was never made": Case(
        (on("PodEvicted", "AbortJob"),), {"w/1": RUN}
    ),
    "a pod that failed for others' sake is PodFailed too": Case(
        (on("PodFailed", "AbortJob"),), {"w/0": "Evicted", "w/1": RUN}, "AbortJob", "PodEvicted"
    ),
    "PodPending after its time": Case(
        (on("PodPending", "AbortJob", timeout="1m"),),
        {"w/0": "Pending", "w/1": RUN},
        "AbortJob",
        "PodPending",
    ),
    "PodPending before its time": Case(
        (on("PodPending", "AbortJob", timeout="2m"),), {"w/0": "Pending", "w/1": RUN}
    ),
    "PodRunning": Case(
        (on("PodRunning", "CompleteJob"),),
        {"w/0": "Pending", "w/1": RUN},
        "CompleteJob",
        "PodRunning",
    ),
    "Unknown": Case(
        (on("Unknown", "RestartJob"),),
        {"w/0": RUN, "w/1": "Pending"},
        "RestartJob",
        "Unknown",
        {"group": "Unknown"},
    ),
    "Unknown is not a gang that waits": Case(
        (on("Unknown", "RestartJob"),), {"w/0": "Pending"}, view={"group": "Pending"}
    ),
    "Unknown is not a gang that lacks the pod that we restart": Case(
        (on("Unknown", "RestartJob"),),
        {"w/0": RUN},
        view={"group": "Unknown", "memory": ControlledResources().with_pod_restarts(1, [("w", 1)])},
    ),
    "Unknown is one that lacks another pod as well": Case(
        (on("Unknown", "RestartJob"),),
        {"w/0": RUN},
        "RestartJob",
        "Unknown",
        {
            "group": "Unknown",
            "tasks": [a_task(replicas=3)],
            "memory": ControlledResources().with_pod_restarts(1, [("w", 1)]),
        },
    ),
    "TaskCompleted": Case(
        (on("TaskCompleted", "CompleteJob"),),
        {"w/0": "Succeeded", "w/1": "Succeeded"},
        "CompleteJob",
        "TaskCompleted",
    ),
    "TaskCompleted is not one of two pods": Case(
        (on("TaskCompleted", "CompleteJob"),), {"w/0": "Succeeded", "w/1": RUN}
    ),
    "TaskCompleted is not a task of no pods": Case(
        (on("TaskCompleted", "CompleteJob"),),
        {"w/0": RUN, "w/1": RUN},
        view={"tasks": [a_task(), a_task("none", 0)]},
    ),
    "TaskCompleted counts pods that were tidied up": Case(
        (on("TaskCompleted", "CompleteJob"),),
        {"w/1": "Succeeded"},
        "CompleteJob",
        "TaskCompleted",
        {"memory": ControlledResources().with_observed([], [("w", 0)])},
    ),
    # --- any
    **{
        f"any event is {what}": Case((on("*", "AbortJob"),), pods, "AbortJob", what)
        for what, pods in {
            "PodFailed": {"w/0": "Failed", "w/1": RUN},
            "PodEvicted": {"w/0": "Leaving", "w/1": RUN},
            "TaskCompleted": {"w/0": "Succeeded", "w/1": "Succeeded"},
        }.items()
    },
    "any event is not that a pod runs": Case((on("*", "AbortJob"),), {"w/0": RUN, "w/1": RUN}),
    "any event is not that a pod waits": Case((on("*", "AbortJob"),), {"w/0": "Pending"}),
    # --- exit codes
    "an exit code": Case(
        ({"exitCode": 137, "action": "AbortJob"},),
        {"w/0": "Failed 137", "w/1": RUN},
        "AbortJob",
        "PodFailed",
    ),
    "another exit code": Case(
        ({"exitCode": 137, "action": "AbortJob"},), {"w/0": "Failed 1", "w/1": RUN}
    ),
    "exit codes before the rest": Case(
        ({"exitCode": 3, "action": "TerminateJob"}, on("PodFailed", "RestartJob")),
        {"w/0": "Failed 3", "w/1": RUN},
        "TerminateJob",
        "PodFailed",
    ),
    # --- several policies
    "several events of one policy": Case(
        ({"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"},),
        {"w/0": "Failed", "w/1": RUN},
        "RestartJob",
        "PodFailed",
    ),
    "the first policy that fits": Case(
        (on("PodEvicted", "AbortJob"), on("PodFailed", "RestartJob"), on("*", "TerminateJob")),
        {"w/0": "Failed", "w/1": RUN},
        "RestartJob",
        "PodFailed",
    ),
    "a task's policy before the job's": Case(
        (on("PodFailed", "AbortJob"),),
        {"w/0": "Failed", "w/1": RUN},
        "RestartTask",
        "PodFailed",
        {"tasks": [a_task(policies=[on("PodFailed", "RestartTask")])]},
    ),
    "the job's policy where the task has none for it": Case(
        (on("PodFailed", "AbortJob"),),
        {"w/0": "Failed", "w/1": RUN},
        "AbortJob",
        "PodFailed",
        {"tasks": [a_task(policies=[on("PodEvicted", "RestartTask")])]},
    ),
    "a policy that asks for nothing hides those after it": Case(
        (on("PodFailed", "ResumeJob"), on("*", "AbortJob")), {"w/0": "Failed", "w/1": RUN}
    ),
    # --- several causes
    "an eviction before the failures that came of it": Case(
        (on("PodFailed", "AbortJob"), on("PodEvicted", "RestartJob")),
        {"w/0": "Failed", "w/1": "Leaving"},
        "RestartJob",
        "PodEvicted",
    ),
    "the whole before a part": Case(
        (on("PodEvicted", "RestartPod"), on("PodFailed", "AbortJob")),
        {"w/0": "Failed", "w/1": "Leaving"},
        "AbortJob",
        "PodFailed",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_decision(case: Case) -> None:
    decision, _ = decide(job_snapshot(*case.policies, pods=case.pods, **(case.view or {})))
    found = ("", "") if decision is None else (decision.action.value, decision.reason)
    assert found == (case.action, case.reason)


def test_pods_of_before_a_restart_are_no_cause() -> None:
    old = [a_pod_of("w/0", "Failed", version=0), a_pod_of("w/1", "Leaving", version=0)]
    assert decide(job_snapshot(on("*", "AbortJob"), pods=old, version=1)) == (None, None)


def test_pods_that_we_have_no_place_for_are_no_cause() -> None:
    pods = {"w/0": RUN, "w/1": RUN, "w/2": "Leaving"}
    assert decide(job_snapshot(on("*", "AbortJob"), pods=pods)) == (None, None)


def test_a_pod_that_is_only_not_to_be_seen_yet_is_no_cause() -> None:
    memory = ControlledResources().with_observed([("w", 0)], [])
    view = job_snapshot(on("*", "AbortJob"), pods={"w/1": RUN}, memory=memory)
    assert decide(view) == (None, None)


def test_a_policy_with_a_timeout_says_when_to_look_again() -> None:
    policy = on("PodPending", "RestartJob", timeout="1m30s")
    decision, again = decide(job_snapshot(policy, pods={"w/0": "Pending", "w/1": RUN}))
    assert (decision, again) == (None, NOW + timedelta(seconds=30))


def test_a_failure_may_last_for_a_while_too() -> None:
    policy = on("PodFailed", "RestartJob", timeout="15s")
    decision, again = decide(job_snapshot(policy, pods={"w/0": "Failed 1", "w/1": RUN}))
    assert (decision, again) == (None, NOW + timedelta(seconds=5))


def _decision(*policies: Object, **view: Any) -> Decision:
    decision, _ = decide(job_snapshot(*policies, **view))
    assert decision is not None
    return decision


def test_parts_are_restarted_together() -> None:
    decision = _decision(
        tasks=[
            a_task("a", 2, policies=[on("PodFailed", "RestartTask")]),
            a_task("b", 3, policies=[on("PodFailed", "RestartPod")]),
        ],
        pods={"a/0": "Failed", "a/1": "Failed", "b/0": "Failed", "b/1": RUN, "b/2": "Failed"},
    )
    assert decision.tasks == ("a",)
    assert decision.indices == (("b", 0), ("b", 2))


@pytest.mark.parametrize(
    ("pods", "free"),
    [
        ({"w/0": "Leaving", "w/1": RUN}, True),
        ({"w/0": "Failed", "w/1": RUN}, False),
        ({"w/0": "Leaving", "w/1": "Failed"}, False),
    ],
    ids=["evicted", "failed", "both"],
)
def test_what_parts_cost(pods: dict[str, str], free: bool) -> None:
    policy = {"events": ["PodEvicted", "PodFailed"], "action": "RestartPod"}
    assert _decision(policy, pods=pods).costs_no_retry is free


@pytest.mark.parametrize("told", [False, True])
def test_a_pod_that_was_restarted_leaves_the_gang_in_pieces_once_it_finds_no_place(
    told: bool,
) -> None:
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    again = a_pod_of("w/1", "Pending", version=1, conditions=[waits] if told else [])
    decision, _ = decide(
        job_snapshot(
            on("Unknown", "RestartJob"),
            pods=[a_pod_of("w/0"), again],
            group="Unknown",
            memory=ControlledResources().with_pod_restarts(1, [("w", 1)]),
        )
    )
    assert (decision is not None) is told


@pytest.mark.parametrize(
    ("timeout", "pods", "told"),
    [
        ("2m", {"w/0": "Pending"}, {"Execute action AbortJob after 2m0s"}),
        ("1h30m", {"w/0": "Pending", "w/1": "Pending"}, {"Execute action AbortJob after 1h30m0s"}),
        ("1s", {"w/0": "Pending"}, set()),
        ("2m", {"w/0": RUN, "w/1": RUN}, set()),
    ],
    ids=["it waits", "all wait", "it is time", "nobody waits"],
)
def test_what_is_going_to_happen(timeout: str, pods: dict[str, str], told: set[str]) -> None:
    policy = on("PodPending", "AbortJob", timeout=timeout)
    assert delayed_actions(job_snapshot(policy, pods=pods)) == told


def test_a_pod_cannot_be_restarted_for_what_its_task_has_done() -> None:
    decision = _decision(
        on("TaskCompleted", "RestartPod"), pods={"w/0": "Succeeded", "w/1": "Succeeded"}
    )
    assert (decision.action.value, decision.tasks) == ("RestartTask", ("w",))


def test_a_gang_in_pieces_is_restarted_whole_whatever_part_was_asked_for() -> None:
    decision = _decision(on("Unknown", "RestartPod"), pods={"w/0": RUN}, group="Unknown")
    assert decision.action.value == "RestartJob"


@pytest.mark.parametrize(("most", "fails"), [(3, False), (2, True), (0, False)])
def test_a_task_fails_by_the_restarts_of_its_containers(most: int, fails: bool) -> None:
    status = {"containerStatuses": [{"restartCount": 1}]}
    decision, _ = decide(
        job_snapshot(
            on("TaskFailed", "AbortJob"),
            tasks=[a_task(maxRetry=most)],
            pods=[a_pod_of("w/0", **status), a_pod_of("w/1", **status)],
        )
    )
    assert (decision is not None) == fails


def test_the_message_names_the_pod_and_its_exit_code() -> None:
    decision = _decision(on("PodFailed", "AbortJob"), pods={"w/0": "Failed 137", "w/1": RUN})
    assert decision.message == "pod j-w-0 failed (exit code 137): AbortJob"
