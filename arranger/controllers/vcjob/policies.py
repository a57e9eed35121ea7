"""What has happened to a job's pods, and what its lifecycle policies ask for then. Pure.

Level-triggered: causes are found in what is observed, not in what has just changed, so that none is
lost with a missed event. A cause is acted on once: from then on the pods that it was found in
belong to an earlier version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from arranger.api.parsing.duration import parse_duration
from arranger.api.timestamps import after
from arranger.api.types.volcano_job import JobAction, JobPod, LifecycleEvent, LifecyclePolicy, Task
from arranger.controllers.vcjob.controlled_resources import CauseKey, TaskIndex
from arranger.controllers.vcjob.snapshot import JobSnapshot

#: What ``*`` stands for. That a pod runs counts only where a policy names it.
_ANY_EVENTS: Final = frozenset(LifecycleEvent) - {LifecycleEvent.ANY, LifecycleEvent.POD_RUNNING}
_PARTIAL_ACTIONS: Final = (JobAction.RESTART_TASK, JobAction.RESTART_POD)
#: Actions of a policy that change nothing.
_NO_ACTION: Final = (JobAction.SYNC_JOB, JobAction.RESUME_JOB)


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that has happened and that a policy may be about.

    Attributes:
        events: the lifecycle events that it counts as; the first one names it.
        index: the pod concerned.
        task: the task concerned; "" for the job as a whole.
        since: since when, where what it was found in says so; for the others the job's status
            remembers when they were seen first.
        evicted: whether the cluster took the pod away, and the job is not to blame.
    """

    events: tuple[LifecycleEvent, ...]
    text: str
    task: str = ""
    index: TaskIndex | None = None
    exit_codes: frozenset[int] = frozenset()
    since: datetime | None = None
    evicted: bool = False

    @property
    def key(self) -> CauseKey:
        """What the job's status remembers it as."""
        return self.events[0].value, self.task, self.index[1] if self.index else -1

    @property
    def may_lose_time(self) -> bool:
        """Whether the time goes with a pod, and the cause stays."""
        return self.evicted or self.events[0] is LifecycleEvent.TASK_COMPLETED


@dataclass(frozen=True, slots=True)
class Decision:
    """What policies or an owner want to be done.

    Attributes:
        indices, tasks: what is to be restarted, by RestartPod and RestartTask.
        reason, message: why.
        costs_no_retry: whether it costs none of the job's retries.
    """

    action: JobAction
    reason: str
    message: str
    costs_no_retry: bool = False
    indices: tuple[TaskIndex, ...] = ()
    tasks: tuple[str, ...] = ()


def decide(snapshot: JobSnapshot) -> tuple[Decision | None, datetime | None]:
    """What the policies ask for now, and when the next timeout of one runs out.

    Of several causes the first in the order of :func:`causes` counts, but an action on the whole
    job goes before actions on parts of it.
    """
    found: list[tuple[Cause, JobAction]] = []
    requeue_at: datetime | None = None
    for cause, policy in _triggered(snapshot):
        due = _due_at(snapshot, policy, cause)
        if due is not None and due > snapshot.now:
            requeue_at = due if requeue_at is None else min(requeue_at, due)
            continue
        found.append((cause, policy.action))
    whole = next(((c, a) for c, a in found if a not in _PARTIAL_ACTIONS or not c.task), None)
    if whole is not None:
        return _decision(*whole), requeue_at
    if not found:
        return None, requeue_at
    parts = [_decision(cause, action) for cause, action in found]
    tasks = dict.fromkeys(task for part in parts for task in part.tasks)
    indices = dict.fromkeys(p for part in parts for p in part.indices if p[0] not in tasks)
    free = all(part.costs_no_retry for part in parts)
    together = replace(parts[0], costs_no_retry=free, indices=tuple(indices), tasks=tuple(tasks))
    return together, requeue_at


def delayed_actions(snapshot: JobSnapshot) -> frozenset[str]:
    """What policies with a timeout are going to do unless their causes pass, as notes of Events."""
    found: set[str] = set()
    if not _has_timeouts(snapshot):
        return frozenset()
    for cause, policy in _triggered(snapshot):
        due = _due_at(snapshot, policy, cause)
        if due is not None and due > snapshot.now:
            after = _format_duration(parse_duration(policy.timeout))
            found.add(f"Execute action {policy.action} after {after}")
    return frozenset(found)


def first_seen(snapshot: JobSnapshot) -> dict[CauseKey, datetime]:
    """What policies with a timeout wait for, and since when, where the job has to remember it."""
    if not _has_timeouts(snapshot):
        return {}
    known = snapshot.controlled_resources.first_seen
    return {
        cause.key: _since(snapshot, cause)
        for cause, policy in _triggered(snapshot)
        if policy.timeout and (cause.since is None or cause.may_lose_time or cause.key in known)
    }


def _has_timeouts(snapshot: JobSnapshot) -> bool:
    lists = (snapshot.spec.policies, *(task.policies for task in snapshot.spec.tasks))
    return any(policy.timeout for policies in lists for policy in policies)


def _triggered(snapshot: JobSnapshot) -> Iterator[tuple[Cause, LifecyclePolicy]]:
    """The causes for which a policy asks for anything, at once or after its timeout."""
    known: dict[tuple[object, ...], LifecyclePolicy | None] = {}
    for cause in causes(snapshot):
        what = (cause.task, cause.events, cause.exit_codes)
        if what not in known:
            known[what] = _policy(snapshot, cause)
        policy = known[what]
        if policy is not None and policy.action not in _NO_ACTION:
            yield cause, policy


def _format_duration(seconds: float) -> str:
    """As Go prints it: ``1h30m0s``, ``1.5s``."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{text}{rest:g}s"


def causes(snapshot: JobSnapshot) -> Iterator[Cause]:
    """All causes, evictions first, because other pods may have failed in consequence."""
    pods = snapshot.current
    evicted = dict.fromkeys(index for index in pods if _is_evicted(snapshot, index))
    for index in evicted:
        pod = pods[index]
        failed = (LifecycleEvent.POD_FAILED,) if pod.status.phase == "Failed" else ()
        text = f"was refused by its node ({pod.status.reason})" if pod.refused else "was evicted"
        yield replace(
            _pod_cause(snapshot, index, text, LifecycleEvent.POD_EVICTED, *failed),
            exit_codes=pod.exit_codes if failed else frozenset(),
            since=pod.deletion_began or pod.ended_at,
            evicted=True,
        )
    for index in snapshot.lost():
        cause = _pod_cause(snapshot, index, "was removed", LifecycleEvent.POD_EVICTED)
        yield replace(cause, evicted=True)
    for index, pod in pods.items():
        if pod.status.phase == "Failed" and index not in evicted:
            codes = ", ".join(str(code) for code in sorted(pod.exit_codes - {0}))
            text = f"failed (exit code {codes})" if codes else "failed"
            cause = _pod_cause(snapshot, index, text, LifecycleEvent.POD_FAILED)
            yield replace(cause, exit_codes=pod.exit_codes, since=pod.ended_at)
    unknown = snapshot.pod_group is not None and snapshot.pod_group.phase == "Unknown"
    if snapshot.pod_group is not None and unknown and not _lacks_restarted_pods(snapshot):
        why = snapshot.pod_group.message or "some of its pods run and the others cannot be placed"
        yield Cause((LifecycleEvent.UNKNOWN,), why)
    for task in snapshot.spec.tasks:
        yield from _task_causes(snapshot, task)
    # What a policy may give a timeout.
    for index, pod in pods.items():
        if pod.deleting:
            continue
        if pod.status.phase in ("", "Pending"):
            cause = _pod_cause(snapshot, index, "is pending", LifecycleEvent.POD_PENDING)
            yield replace(cause, since=pod.metadata.creation_timestamp)
        elif pod.status.phase == "Running":
            cause = _pod_cause(snapshot, index, "is running", LifecycleEvent.POD_RUNNING)
            yield replace(cause, since=_ready_since(pod))


def _lacks_restarted_pods(snapshot: JobSnapshot) -> bool:
    """Whether nobody is without a node but pods that a policy has restarted, and that have not
    found out yet whether there is one."""
    known = snapshot.controlled_resources
    waiting = [
        index
        for index in snapshot.indices()
        if index not in known.succeeded
        and not ((pod := snapshot.current.get(index)) and (pod.has_node or pod.terminal))
    ]
    restarted = (known.version_of(index) > known.restart_version for index in waiting)
    told = any(pod.unschedulable for i in waiting if (pod := snapshot.current.get(i)))
    return bool(waiting) and not told and all(restarted)


def _pod_cause(
    snapshot: JobSnapshot, index: TaskIndex, text: str, *events: LifecycleEvent
) -> Cause:
    pod = pod_name(snapshot.job.metadata.name, index)
    return Cause(events, f"pod {pod} {text}", index[0], index)


def _task_causes(snapshot: JobSnapshot, task: Task) -> Iterator[Cause]:
    indices = ((task.name, index) for index in range(task.replicas))
    pods = [snapshot.current[index] for index in indices if index in snapshot.current]
    restarts = sum(pod.restart_count for pod in pods if not pod.terminal)
    if 0 < task.max_retry <= restarts:
        text = f"the containers of task {task.name} were restarted {restarts} times"
        yield Cause((LifecycleEvent.TASK_FAILED,), text, task.name)
    if task.replicas and snapshot.task_count(task, "Succeeded") >= task.replicas:
        since = max((pod.ended_at for pod in pods if pod.ended_at), default=None)
        text = f"task {task.name} has completed"
        yield Cause((LifecycleEvent.TASK_COMPLETED,), text, task.name, since=since)


def _is_evicted(snapshot: JobSnapshot, index: TaskIndex) -> bool:
    pod = snapshot.current[index]
    if pod.status.phase == "Succeeded":
        return snapshot.was_stopped(index)
    return pod.deleting or (pod.status.phase == "Failed" and pod.disrupted)


def _ready_since(pod: JobPod) -> datetime | None:
    ready = (c for c in pod.status.conditions if c.type == "Ready" and c.status == "True")
    return next((condition.last_transition_time for condition in ready), None)


def _policy(snapshot: JobSnapshot, cause: Cause) -> LifecyclePolicy | None:
    """The first policy that matches, the task's before the job's."""
    task = snapshot.spec.task(cause.task)
    policies = (*(task.policies if task else ()), *snapshot.spec.policies)
    return next((policy for policy in policies if _matches(policy, cause)), None)


def _matches(policy: LifecyclePolicy, cause: Cause) -> bool:
    if policy.exit_code is not None:
        return policy.exit_code in cause.exit_codes
    # Every pod is pending at first, so this needs a timeout.
    if cause.events == (LifecycleEvent.POD_PENDING,) and not policy.timeout:
        return False
    triggers = policy.lifecycle_events
    if LifecycleEvent.ANY in triggers:
        triggers |= _ANY_EVENTS
    return not triggers.isdisjoint(cause.events)


def _due_at(snapshot: JobSnapshot, policy: LifecyclePolicy, cause: Cause) -> datetime | None:
    if not policy.timeout:
        return None
    return after(_since(snapshot, cause), parse_duration(policy.timeout))


def _since(snapshot: JobSnapshot, cause: Cause) -> datetime:
    """Since when a cause is there: now, if nobody knows of it."""
    known = snapshot.controlled_resources.first_seen.get(cause.key)
    return min(moment for moment in (known, cause.since, snapshot.now) if moment is not None)


def _decision(cause: Cause, action: JobAction) -> Decision:
    if action in _PARTIAL_ACTIONS and not cause.task:
        action = JobAction.RESTART_JOB  # the cause concerns all tasks
    if action is JobAction.RESTART_POD and cause.index is None:
        action = JobAction.RESTART_TASK
    return Decision(
        action=action,
        reason=cause.events[0].value,
        message=f"{cause.text}: {action.value}",
        costs_no_retry=cause.evicted,
        indices=(cause.index,) if action is JobAction.RESTART_POD and cause.index else (),
        tasks=(cause.task,) if action is JobAction.RESTART_TASK else (),
    )


def pod_name(job: str, index: TaskIndex) -> str:
    """``job-task-index``."""
    return f"{job}-{index[0]}-{index[1]}"
