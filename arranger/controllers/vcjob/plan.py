"""What is to be written next for a Job: its status first, and then what follows from it.

Nothing is made or deleted but on the strength of a status that the server has. So a kill between
two writes loses no decision: whoever comes next draws the same conclusions from the same status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from arranger.api import event_reasons
from arranger.api.types.volcano_job import JobPhase, JobPod
from arranger.controllers.runtime.merge_patch import merge_patch
from arranger.controllers.vcjob.controlled_resources import TaskIndex
from arranger.controllers.vcjob.manifests import OwnedManifest, objects_of, pod_group_of
from arranger.controllers.vcjob.snapshot import JobSnapshot, ObservedPodGroup
from arranger.controllers.vcjob.state_machine import (
    FINISHED,
    JobState,
    build_status,
    invalid_action,
    next_state,
)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Writes, in the order of the fields; a status is always alone.

    Attributes:
        status: a merge patch.
        events: (reason, message) for Events once the status is written.
        delete_pods: pods to delete.
        create_objects: objects to make or to change.
        create_pods: places to make a pod for.
        pod_group: the PodGroup to create, or the change of the one that is there.
        delete_pod_groups: PodGroups to delete.
        delete_job: whether the job itself is to be deleted.
        requeue_at: when to look again if nothing changes.
    """

    status: Object = field(default_factory=dict)
    events: tuple[tuple[str, str], ...] = ()
    delete_pods: tuple[JobPod, ...] = ()
    create_objects: tuple[OwnedManifest, ...] = ()
    create_pods: tuple[TaskIndex, ...] = ()
    pod_group: Object | None = None
    delete_pod_groups: tuple[ObservedPodGroup, ...] = ()
    delete_job: bool = False
    requeue_at: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        wants = (
            self.status,
            self.delete_pods,
            self.create_objects,
            self.create_pods,
            self.pod_group,
            self.delete_pod_groups,
        )
        return not (any(wants) or self.delete_job)


def plan(view: JobSnapshot) -> JobPlan:
    """What to write next; once all of it is written, ask again."""
    if view.job.metadata.deletion_timestamp is not None:
        return JobPlan()  # what belongs to the job goes with it
    standing = next_state(view)
    if not _is_over(view):
        status = merge_patch(view.written, build_status(view, standing))
        if status:
            return JobPlan(status=status, events=tuple(_events(view, standing)))
    if standing.reason == "Invalid":
        return JobPlan()
    again = standing.again
    match standing.phase:
        case JobPhase.PENDING | JobPhase.RUNNING:
            return _plan_working(view, again)
        case JobPhase.RESTARTING:
            return JobPlan(
                delete_pods=_not_yet_deleted(view.outdated),
                delete_pod_groups=_stale_pod_groups(view),
            )
    drop = tuple(view.pod_groups.values())
    expired = again is not None and standing.phase in FINISHED and again <= view.now
    return JobPlan(
        delete_pods=_not_yet_deleted(view.active),
        delete_pod_groups=drop,
        delete_job=expired,
        requeue_at=again,
    )


def _plan_working(view: JobSnapshot, again: datetime | None) -> JobPlan:
    make = [
        m for m in objects_of(view.job) if view.controlled_resources.made.get(m.name) != m.digest
    ]
    delete = _not_yet_deleted(view.surplus)
    drop = _stale_pod_groups(view)
    if make:
        return JobPlan(
            delete_pods=delete, delete_pod_groups=drop, create_objects=tuple(make), requeue_at=again
        )
    memory, open_tasks = (
        view.controlled_resources,
        {t.name for t in view.spec.tasks if view.dependencies_met(t)},
    )
    create = tuple(
        place
        for place in view.indices()
        if place not in view.pods
        and place[0] in open_tasks
        # One that has been seen was lost, or is not seen yet: the status will say which.
        and not memory.has_seen(place)
    )
    return JobPlan(
        delete_pods=delete,
        create_pods=create,
        pod_group=_pod_group_change(view),
        delete_pod_groups=drop,
        requeue_at=again,
    )


def _pod_group_change(view: JobSnapshot) -> Object | None:
    """The PodGroup goes last: no pod starts before it is known which pods there are."""
    wanted = pod_group_of(view)
    seen = view.pod_group
    if seen is None:
        have = {task: len(indices) for task, indices in view.controlled_resources.seen.items()}
        minima = wanted["spec"].get("minTaskMember", {})
        enough = all(have.get(task, 0) >= least for task, least in minima.items())
        ready = enough and sum(have.values()) >= wanted["spec"]["minMember"]
        return wanted if ready and view.spec.replicas else None
    change: Object = {}
    fields = {*wanted["spec"], "minTaskMember", "priorityClassName", "minResources"}
    spec = {name: wanted["spec"].get(name) for name in fields}
    if differing := merge_patch(seen.spec, spec):
        change["spec"] = differing
    if notes := merge_patch(seen.annotations, wanted["metadata"]["annotations"]):
        change["metadata"] = {"annotations": notes}
    return change or None


def _stale_pod_groups(view: JobSnapshot) -> tuple[ObservedPodGroup, ...]:
    return tuple(group for group in view.pod_groups.values() if group is not view.pod_group)


def _not_yet_deleted(pods: Mapping[TaskIndex, JobPod]) -> tuple[JobPod, ...]:
    return tuple(pod for pod in pods.values() if not pod.deleting)


def _is_over(view: JobSnapshot) -> bool:
    """Whether the job is finished and what was counted in the end stays."""
    counted = ("pending", "running", "terminating", "unknown")
    finished = view.job.status.state.phase in FINISHED
    return finished and not view.active and not any(map(view.written.get, counted))


def _events(view: JobSnapshot, standing: JobState) -> Iterator[tuple[str, str]]:
    """What is worth an Event: a new phase, that the job is invalid now, an order that is none."""
    if standing.memory.asked != view.controlled_resources.asked and (
        wrong := invalid_action(standing.memory.asked)
    ):
        yield event_reasons.INVALID_ACTION, wrong
    state, invalid = view.job.status.state, standing.reason == "Invalid"
    if invalid and (state.reason, state.message) != (standing.reason, standing.message):
        yield standing.reason, standing.message
    if standing.phase != state.phase and not invalid:
        running = f"{view.count('Running')} of {view.spec.replicas} pods run"
        yield str(standing.phase), standing.message or running
