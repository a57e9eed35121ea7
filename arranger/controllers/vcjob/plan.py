"""What is to be written next for a Job: its status first, and then what follows from it. Pure.

Nothing is made or deleted but on the strength of a status that the server has. So a kill between
two writes loses no decision: whoever comes next draws the same conclusions from the same status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from arranger.api import event_reasons
from arranger.api.annotations import JOB_ACTION
from arranger.api.types.command import Command
from arranger.api.types.volcano_job import JobPhase, JobPod
from arranger.controllers.runtime.objects import Object, merge_patch
from arranger.controllers.vcjob.controlled_resources import TaskIndex
from arranger.controllers.vcjob.manifests import objects_of, pod_group_of
from arranger.controllers.vcjob.owned_objects import OwnedManifest
from arranger.controllers.vcjob.snapshot import JobSnapshot, ObservedPodGroup
from arranger.controllers.vcjob.state_machine import (
    FINISHED,
    NextStatus,
    build_status,
    invalid_action,
    next_status,
)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Writes, in the order of the fields; a status is always alone.

    Attributes:
        status: a merge patch.
        events: (reason, message) for Events once the status is written.
        delete_pods: pods to delete.
        create_objects: objects to create or to change.
        create_pods: indices to create a pod for.
        pod_group: the PodGroup to create, or the change of the one that is there.
        delete_pod_groups: PodGroups to delete.
        delete_job: whether the job itself is to be deleted, because it has expired.
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
        return replace(self, requeue_at=None) == JobPlan()


def plan(snapshot: JobSnapshot) -> JobPlan:
    """What to write next; once all of it is written, ask again."""
    if snapshot.job.metadata.deletion_timestamp is not None:
        return JobPlan()  # the garbage collector deletes what the job owns
    state = next_status(snapshot)
    if not _is_over(snapshot):
        status = merge_patch(snapshot.raw_status, build_status(snapshot, state))
        if status:
            return JobPlan(status=status, events=tuple(_events(snapshot, state)))
    if state.reason == "Invalid":
        return JobPlan()
    expiry = state.requeue_at
    match state.phase:
        case JobPhase.PENDING | JobPhase.RUNNING:
            return _plan_working(snapshot, state.requeue_at)
        case JobPhase.RESTARTING:
            return _plan_restart(snapshot)
    expired = expiry is not None and state.phase in FINISHED and expiry <= snapshot.now
    ended = _deletions(snapshot.active, snapshot.pod_groups.values())
    return replace(ended, delete_job=expired, requeue_at=expiry)


def _plan_restart(snapshot: JobSnapshot) -> JobPlan:
    """Old pods are deleted; those that their nodes have refused stay for a while."""
    outdated = snapshot.outdated.items()
    kept = {i: at for i, pod in outdated if (at := pod.kept_until) and at > snapshot.now}
    going = {index: pod for index, pod in outdated if index not in kept}
    planned = _deletions(going, _stale_pod_groups(snapshot))
    return replace(planned, requeue_at=min(kept.values(), default=None))


def _plan_working(snapshot: JobSnapshot, requeue_at: datetime | None) -> JobPlan:
    known = snapshot.controlled_resources
    planned = _deletions(snapshot.surplus, _stale_pod_groups(snapshot))
    planned = replace(planned, requeue_at=requeue_at)
    manifests = [m for m in objects_of(snapshot.job) if known.created.get(m.name) != m.digest]
    if manifests:
        return replace(planned, create_objects=tuple(manifests))
    if snapshot.pod_group_is_taken:  # whose pods would be members of somebody else's gang
        return replace(planned, pod_group=_pod_group_change(snapshot))
    open_tasks = {task.name for task in snapshot.spec.tasks if snapshot.dependencies_met(task)}
    create = tuple(
        index
        for index in snapshot.indices()
        if index not in snapshot.pods
        and index not in known.dropped
        and index[0] in open_tasks
        # One that was seen before is lost, or the watch lags: the status will say which.
        and index not in known.seen
    )
    return replace(planned, create_pods=create, pod_group=_pod_group_change(snapshot))


def _pod_group_change(snapshot: JobSnapshot) -> Object | None:
    """The PodGroup is created when its pods are seen: before, none of them can start."""
    wanted = pod_group_of(snapshot)
    observed = snapshot.pod_group
    if observed is None:
        have = Counter(task for task, _ in snapshot.controlled_resources.seen)
        minima = wanted["spec"].get("minTaskMember", {})
        enough = all(have[task] >= least for task, least in minima.items())
        ready = enough and have.total() >= wanted["spec"]["minMember"]
        ready |= snapshot.pod_group_is_taken  # so that its owner hears of it
        return wanted if ready and snapshot.spec.replicas else None
    change: Object = {}
    fields = {*wanted["spec"], "minTaskMember", "priorityClassName", "minResources"}
    spec = {name: wanted["spec"].get(name) for name in fields}
    if differing := merge_patch(observed.spec, spec):
        change["spec"] = differing
    # Of a PodGroup that has more than is kept it is not known whether it has what is passed on.
    notes = wanted["metadata"]["annotations"] if observed.whole else {}
    if differing := merge_patch(observed.metadata.annotations, notes):
        change["metadata"] = {"annotations": differing}
    return change or None


def _stale_pod_groups(snapshot: JobSnapshot) -> tuple[ObservedPodGroup, ...]:
    return tuple(group for group in snapshot.pod_groups.values() if group is not snapshot.pod_group)


def _deletions(pods: Mapping[TaskIndex, JobPod], groups: Iterable[ObservedPodGroup]) -> JobPlan:
    going = tuple(pod for pod in pods.values() if not pod.deleting)
    return JobPlan(delete_pods=going, delete_pod_groups=tuple(groups))


def _is_over(snapshot: JobSnapshot) -> bool:
    """Whether the job is finished and its last counts are written."""
    counted = ("pending", "running", "terminating", "unknown")
    finished = snapshot.job.status.state.phase in FINISHED
    return finished and not snapshot.active and not any(map(snapshot.raw_status.get, counted))


def _events(snapshot: JobSnapshot, state: NextStatus) -> Iterator[tuple[str, str]]:
    """What is worth an Event: wishes that are taken up, actions that there are not or that begin,
    that the job is invalid, a new phase."""
    before_resources, resources = snapshot.controlled_resources, state.controlled_resources
    command = snapshot.command
    if command is not None and before_resources.last_command != resources.last_command:
        yield from command_events(command)
    asked = before_resources.last_action != resources.last_action and resources.last_action
    if asked and (wrong := invalid_action(f"annotation {JOB_ACTION}", asked)):
        yield event_reasons.INVALID_ACTION, wrong
    if state.action is not None:
        yield event_reasons.EXECUTE_ACTION, f"Start to execute action {state.action}"
    before, invalid = snapshot.job.status.state, state.reason == "Invalid"
    if invalid and (before.reason, before.message) != (state.reason, state.message):
        yield state.reason, state.message
    if state.phase != before.phase and not invalid:
        running = f"{snapshot.count('Running')} of {snapshot.spec.replicas} pods run"
        yield str(state.phase), state.message or running


def command_events(command: Command) -> Iterator[tuple[str, str]]:
    """(reason, message) of the Events that tell that a Command was taken up."""
    wrong = invalid_action(f"Command {command.metadata.name}", command.action)
    if wrong:
        yield event_reasons.INVALID_ACTION, wrong
    else:
        yield event_reasons.COMMAND_ISSUED, f"Start to execute command {command.action}"
