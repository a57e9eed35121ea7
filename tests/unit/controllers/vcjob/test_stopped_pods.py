"""Pods that end well: because they were done, or because they were told to end."""

from __future__ import annotations

from arranger.api.types.volcano_job import JobPod
from arranger.controllers.vcjob.controlled_resources import ControlledResources
from arranger.controllers.vcjob.policies import decide
from arranger.controllers.vcjob.snapshot import JobSnapshot
from arranger.controllers.vcjob.state_machine import next_status
from tests.unit.controllers.vcjob.snapshots import a_pod_of, a_task, job_snapshot, on

MARKED = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}


def _ended(deleted: float | None, *, marked: bool = False) -> JobPod:
    """A pod that ended well ten seconds ago, and was deleted so many seconds ago."""
    return a_pod_of("w/0", "Succeeded 0", deleted=deleted, **(MARKED if marked else {}))


#: What is seen of the pod → whether it has succeeded.
PODS = {
    "it is not deleted": (_ended(None), True),
    "it is not deleted, and marked for it": (_ended(None, marked=True), True),
    "it was done before it was deleted": (_ended(9), True),
    "it ended in the second in which it was deleted": (_ended(10), False),
    "it ended after it was deleted": (_ended(25), False),
    "it was marked, whatever its node's clock says": (_ended(9, marked=True), False),
    "nobody says when it ended": (a_pod_of("w/0", "Succeeded", deleted=5), True),
    "nobody says when it ended, and it was marked": (
        a_pod_of("w/0", "Succeeded", deleted=5, **MARKED),
        False,
    ),
}


def test_a_pod_that_was_told_to_end_has_not_succeeded() -> None:
    found = {
        what: next_status(job_snapshot(pods=[pod], tasks=[a_task(replicas=2)]))
        for what, (pod, _) in PODS.items()
    }
    succeeded = {what: bool(s.controlled_resources.succeeded) for what, s in found.items()}
    assert succeeded == {what: done for what, (_, done) in PODS.items()}


def _view(memory: ControlledResources) -> JobSnapshot:
    """A job whose one pod ended after it was deleted, and a task that depends on it."""
    tasks = [a_task(replicas=1), a_task("x", 1, dependsOn={"name": ["w"]})]
    return job_snapshot(on("PodEvicted", "AbortJob"), pods=[_ended(25)], tasks=tasks, memory=memory)


def test_it_is_evicted_unless_it_is_known_to_be_done() -> None:
    """And so it is terminating, its dependents do not begin, and its task is not complete."""
    done = ControlledResources().with_observed([], [("w", 0)])
    found = [
        (
            decide(view)[0] is None,
            view.phase_of(("w", 0)),
            view.dependencies_met(view.spec.tasks[1]),
            view.task_count(view.spec.tasks[0], "Succeeded"),
            next_status(view).controlled_resources.succeeded,
        )
        for view in map(_view, (ControlledResources(), done))
    ]
    assert found == [
        (False, "Terminating", False, 0, frozenset()),
        (True, "Succeeded", True, 1, {("w", 0)}),
    ]
