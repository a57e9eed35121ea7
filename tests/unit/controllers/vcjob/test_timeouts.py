"""Since when policies with a timeout count, whatever their cause is found in."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from arranger.controllers.vcjob.controlled_resources import ControlledResources
from arranger.controllers.vcjob.policies import decide
from arranger.controllers.vcjob.snapshot import JobSnapshot
from arranger.controllers.vcjob.state_machine import next_status
from tests.unit.controllers.vcjob.snapshots import NOW, a_pod_of, a_task, ago, job_snapshot, on

RESTARTED = {"containerStatuses": [{"restartCount": 3}]}
READY = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ago(15)}]}
TIDIED_UP = ControlledResources().with_observed([], [("w", 0), ("w", 1)])

#: Event → what is seen, and for how long its cause is there.
CAUSES: dict[str, tuple[str, dict[str, Any], int]] = {
    "a pod that is deleted since": ("PodEvicted", {"pods": [a_pod_of("w/0", deleted=20)]}, 20),
    "a pod that is gone": ("PodEvicted", {"pods": {"w/1": "Running"}, "lost": ["w/0"]}, 0),
    "a pod that failed for others' sake": ("PodEvicted", {"pods": {"w/0": "Evicted"}}, 0),
    "a pod that failed and has no time": ("PodFailed", {"pods": {"w/0": "Failed"}}, 0),
    "a pod that is ready since": ("PodRunning", {"pods": [a_pod_of("w/0", **READY)]}, 15),
    "a pod that runs and is not ready": ("PodRunning", {"pods": {"w/0": "Running"}}, 0),
    "a gang in pieces": ("Unknown", {"pods": {"w/0": "Running"}, "group": "Unknown"}, 0),
    "a task that fails": ("TaskFailed", {"pods": [a_pod_of("w/0", **RESTARTED)]}, 0),
    "a task whose pods were tidied up": ("TaskCompleted", {"memory": TIDIED_UP}, 0),
}


def _later(view: JobSnapshot, seconds: float) -> JobSnapshot:
    """The same, so much later, with what the status has come to remember."""
    memory = next_status(view).controlled_resources
    status = view.job.status
    status.controlled_resources = ControlledResources.parse(memory.to_dict()).to_dict()
    return replace(view, now=view.now + timedelta(seconds=seconds))


@pytest.mark.parametrize(("event", "seen", "age"), CAUSES.values(), ids=CAUSES)
def test_an_action_waits_for_its_timeout_from_when_its_cause_was_there(
    event: str, seen: dict[str, Any], age: int
) -> None:
    view = job_snapshot(on(event, "AbortJob", timeout="1m"), **seen)
    due = timedelta(seconds=60 - age)
    assert decide(view) == (None, NOW + due)
    view = _later(view, 35)
    assert decide(view) == (None, NOW + due)
    decision, _ = decide(_later(view, 25))
    assert decision is not None
    assert decision.reason == event


def test_a_cause_that_passes_is_forgotten_and_counts_anew() -> None:
    policy = on("Unknown", "AbortJob", timeout="1m")
    pods = {"w/0": "Running"}
    memory = next_status(job_snapshot(policy, pods=pods, group="Unknown")).controlled_resources
    assert memory.first_seen
    whole = job_snapshot(policy, pods=pods, group="Running", memory=memory)
    assert not next_status(whole).controlled_resources.first_seen


def test_a_pod_that_goes_while_a_policy_waits_counts_from_when_it_was_deleted() -> None:
    policy = on("PodEvicted", "AbortJob", timeout="1m")
    going = job_snapshot(policy, pods=[a_pod_of("w/0", deleted=20), a_pod_of("w/1")])
    memory = next_status(going).controlled_resources
    gone = job_snapshot(policy, pods={"w/1": "Running"}, lost=["w/0"], memory=memory)
    assert decide(gone) == (None, NOW + timedelta(seconds=40))
    assert ("w", 0) in next_status(gone).controlled_resources.seen


def test_what_no_policy_waits_for_is_not_remembered() -> None:
    policies = (on("PodPending", "AbortJob", timeout="1m"), on("PodFailed", "RestartPod"))
    view = job_snapshot(*policies, pods={"w/0": "Pending", "w/1": "Failed"})
    assert not next_status(view).controlled_resources.first_seen


def test_what_is_restarted_begins_anew_and_the_rest_does_not() -> None:
    tasks = [a_task(name, 1) for name in "ab"]
    policy = on("PodFailed", "RestartPod", timeout="1m")
    view = job_snapshot(policy, tasks=tasks, pods={"a/0": "Failed", "b/0": "Failed"})
    memory = next_status(view).controlled_resources
    left = {("PodFailed", "b", 0)}
    assert set(memory.with_pod_restarts(1, [("a", 0)]).first_seen) == left
    assert set(memory.with_task_restart(1, "a").first_seen) == left
    assert not memory.with_job_restart(1).first_seen


@pytest.mark.parametrize("written", ["soon", "", "9999-99-99T00:00:00Z", "2999-01-01T00:00:00Z"])
def test_a_time_that_somebody_has_written_is_at_most_now(written: str) -> None:
    key = "arranger.io/state"
    view = job_snapshot(on("PodFailed", "AbortJob", timeout="1m"), pods={"w/0": "Failed"})
    state = f'{{"since/PodFailed/w/0": "{written}"}}'
    view.job.status.controlled_resources = {key: state}
    assert decide(replace(view)) == (None, NOW + timedelta(minutes=1))
