"""What has happened to a job's pods, and what its policies say to that.

Level-triggered: causes are read off what is there, not off what has just changed, so that none is
lost with an event. A cause stops being one when it has been acted on, because the pods it was read
off belong to an earlier version from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from arranger.api.gang_membership import duration
from arranger.api.types.volcano_job import Action, JobPod, Policy, Task, Trigger
from arranger.controllers.vcjob.controlled_resources import Place
from arranger.controllers.vcjob.snapshot import JobView

#: What ``*`` stands for. A pod that runs is no reason to act unless somebody asks for just that.
_ANYTHING: Final = frozenset(Trigger) - {Trigger.ANY, Trigger.POD_RUNNING}
_OF_ONE: Final = (Action.RESTART_TASK, Action.RESTART_POD)
#: Answers that mean to go on as if nothing had happened.
_NOTHING: Final = (Action.SYNC_JOB, Action.RESUME_JOB)


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that policies may be about.

    Attributes:
        triggers: the events it is; the first one names it.
        place: the pod concerned.
        task: the task concerned; "" for the job as a whole.
        since: since when; None where nobody knows, and then no policy waits for its time-out.
        evicted: whether it was done to the job rather than by it.
    """

    triggers: tuple[Trigger, ...]
    text: str
    task: str = ""
    place: Place | None = None
    exit_codes: frozenset[int] = frozenset()
    since: datetime | None = None
    evicted: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done.

    Attributes:
        places, tasks: what is to be restarted, by RestartPod and RestartTask.
        reason, message: why.
        free: whether it costs none of the job's retries.
    """

    action: Action
    reason: str
    message: str
    free: bool = False
    places: tuple[Place, ...] = ()
    tasks: tuple[str, ...] = ()


def decide(view: JobView) -> tuple[Decision | None, datetime | None]:
    """What the policies say now, and when they will have more to say if nothing changes.

    Of several causes the one that is listed first in :func:`causes` goes before, but what is done
    to the whole job before what is done to parts of it.
    """
    found: list[tuple[Cause, Action]] = []
    again: datetime | None = None
    for cause in causes(view):
        policy = _policy(view, cause)
        if policy is None or policy.action in _NOTHING:
            continue
        due = _due(policy, cause)
        if due is not None and due > view.now:
            again = due if again is None else min(again, due)
            continue
        found.append((cause, policy.action))
    whole = next(((c, a) for c, a in found if a not in _OF_ONE or not c.task), None)
    if whole is not None:
        return _decision(*whole), again
    if not found:
        return None, again
    parts = [_decision(cause, action) for cause, action in found]
    tasks = dict.fromkeys(task for part in parts for task in part.tasks)
    places = dict.fromkeys(p for part in parts for p in part.places if p[0] not in tasks)
    first = parts[0]
    return (
        Decision(
            action=first.action,
            reason=first.reason,
            message=first.message,
            free=all(part.free for part in parts),
            places=tuple(places),
            tasks=tuple(tasks),
        ),
        again,
    )


def causes(view: JobView) -> Iterator[Cause]:
    """All there are, evictions first: whatever else fails may have failed for their sake."""
    pods = view.current
    evicted = [place for place, pod in pods.items() if _is_evicted(pod)]
    for place in evicted:
        pod = pods[place]
        failed = (Trigger.POD_FAILED,) if pod.status.phase == "Failed" else ()
        yield Cause(
            (Trigger.POD_EVICTED, *failed),
            f"pod {_name(view, place)} was evicted",
            *_where(place),
            exit_codes=pod.exit_codes if failed else frozenset(),
            since=pod.metadata.deletion_timestamp or pod.ended_at,
            evicted=True,
        )
    for place in view.lost():
        text = f"pod {_name(view, place)} was removed"
        yield Cause((Trigger.POD_EVICTED,), text, *_where(place), evicted=True)
    yield from _failures(view, set(evicted))
    if view.group is not None and view.group.phase == "Unknown":
        why = view.group.message or "some of its pods run and the others cannot be placed"
        yield Cause((Trigger.UNKNOWN,), why)
    for task in view.spec.tasks:
        yield from _about_task(view, task)
    for place, pod in pods.items():
        yield from _lasting(view, place, pod)


def _failures(view: JobView, evicted: set[Place]) -> Iterator[Cause]:
    for place, pod in view.current.items():
        if pod.status.phase == "Failed" and place not in evicted:
            codes = ", ".join(str(code) for code in sorted(pod.exit_codes - {0}))
            text = f"pod {_name(view, place)} failed" + (f" (exit code {codes})" if codes else "")
            yield Cause(
                (Trigger.POD_FAILED,),
                text,
                *_where(place),
                exit_codes=pod.exit_codes,
                since=pod.ended_at,
            )


def _about_task(view: JobView, task: Task) -> Iterator[Cause]:
    pods = [view.current[p] for p in _places(task) if p in view.current]
    restarts = sum(pod.restarts for pod in pods if not pod.terminal)
    if 0 < task.max_retry <= restarts:
        text = f"the containers of task {task.name} were restarted {restarts} times"
        yield Cause((Trigger.TASK_FAILED,), text, task.name)
    if task.replicas and view.task_count(task, "Succeeded") >= task.replicas:
        since = max((pod.ended_at for pod in pods if pod.ended_at), default=None)
        yield Cause(
            (Trigger.TASK_COMPLETED,), f"task {task.name} has completed", task.name, since=since
        )


def _lasting(view: JobView, place: Place, pod: JobPod) -> Iterator[Cause]:
    """What a pod does for a while, which policies may find too long."""
    if pod.leaving:
        return
    if pod.status.phase in ("", "Pending"):
        since = pod.metadata.creation_timestamp
        text = f"pod {_name(view, place)} is pending"
        yield Cause((Trigger.POD_PENDING,), text, *_where(place), since=since)
    elif pod.status.phase == "Running":
        text = f"pod {_name(view, place)} is running"
        yield Cause((Trigger.POD_RUNNING,), text, *_where(place))


def _is_evicted(pod: JobPod) -> bool:
    """Whether a pod of now is going, or has failed for others' sake: we do neither to it."""
    if pod.status.phase == "Succeeded":
        return False
    return pod.leaving or (pod.status.phase == "Failed" and pod.disrupted)


def _policy(view: JobView, cause: Cause) -> Policy | None:
    """The first that fits, a task's own before the job's."""
    task = view.spec.task(cause.task)
    policies: Iterable[Policy] = (*(task.policies if task else ()), *view.spec.policies)
    return next((policy for policy in policies if _fits(policy, cause)), None)


def _fits(policy: Policy, cause: Cause) -> bool:
    if policy.exit_code is not None:
        return policy.exit_code in cause.exit_codes
    # Every pod is pending at first.
    if cause.triggers == (Trigger.POD_PENDING,) and not policy.timeout:
        return False
    triggers = policy.triggers
    if Trigger.ANY in triggers:
        triggers |= _ANYTHING
    return not triggers.isdisjoint(cause.triggers)


def _due(policy: Policy, cause: Cause) -> datetime | None:
    if not policy.timeout or cause.since is None:
        return None
    return cause.since + timedelta(seconds=duration(policy.timeout))


def _decision(cause: Cause, action: Action) -> Decision:
    if action in _OF_ONE and not cause.task:
        action = Action.RESTART_JOB  # all its tasks, that is
    if action is Action.RESTART_POD and cause.place is None:
        action = Action.RESTART_TASK
    return Decision(
        action=action,
        reason=cause.triggers[0].value,
        message=f"{cause.text}: {action.value}",
        free=cause.evicted,
        places=(cause.place,) if action is Action.RESTART_POD and cause.place else (),
        tasks=(cause.task,) if action is Action.RESTART_TASK else (),
    )


def _where(place: Place) -> tuple[str, Place]:
    return place[0], place


def _places(task: Task) -> Iterator[Place]:
    return ((task.name, index) for index in range(task.replicas))


def _name(view: JobView, place: Place) -> str:
    return pod_name(view.job.metadata.name, place)


def pod_name(job: str, place: Place) -> str:
    """``job-task-index``."""
    return f"{job}-{place[0]}-{place[1]}"
