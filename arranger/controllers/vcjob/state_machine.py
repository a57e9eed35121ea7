"""The state machine of a Job: what it has become, given what is seen of it.

Pure. The phases and their transitions are Volcano's (``pkg/controllers/job/state``); we differ in
three things, each on purpose: a restart after an eviction costs no retry, all of a job's pods are
gone before the first new one is made, and phases are worked out from what is there rather than
from events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from arranger.api.annotations import JOB_ACTION
from arranger.api.types.volcano_job import JobAction, JobPhase
from arranger.controllers.vcjob.controlled_resources import ControlledResources
from arranger.controllers.vcjob.policies import Decision, decide
from arranger.controllers.vcjob.snapshot import JobSnapshot
from arranger.controllers.vcjob.validation import first_problem
from arranger.kube.client.timestamps import second_time

Object = dict[str, Any]

#: Phases in which pods are made.
WORKING_PHASES: Final = frozenset({JobPhase.PENDING, JobPhase.RUNNING})
#: Phase on the way → where it leads once no pod lives any more.
ENDING_PHASES: Final[Mapping[JobPhase, JobPhase]] = {
    JobPhase.ABORTING: JobPhase.ABORTED,
    JobPhase.TERMINATING: JobPhase.TERMINATED,
    JobPhase.COMPLETING: JobPhase.COMPLETED,
}
#: The ends that a job does not come back from.
FINISHED: Final = frozenset({JobPhase.COMPLETED, JobPhase.TERMINATED, JobPhase.FAILED})
#: Reason of a job for which the server does not make what it needs.
REFUSED: Final = "Refused"
#: Action on the whole job → the phase it begins.
_ACTION_PHASES: Final[Mapping[JobAction, JobPhase]] = {
    JobAction.ABORT_JOB: JobPhase.ABORTING,
    JobAction.TERMINATE_JOB: JobPhase.TERMINATING,
    JobAction.COMPLETE_JOB: JobPhase.COMPLETING,
}
#: What policies do to parts of a job, of which an owner's word for all of it would not say which.
_PARTIAL_ACTIONS: Final = (
    JobAction.RESTART_TASK,
    JobAction.RESTART_POD,
    JobAction.RESTART_PARTITION,
)
#: What an owner may ask for.
_REQUESTABLE_ACTIONS: Final = frozenset(
    action.value for action in JobAction if action not in _PARTIAL_ACTIONS
)
#: Transitions that ``status.conditions`` remembers.
_HISTORY: Final = 20
_COUNT_FIELDS: Final = {
    "pending": "Pending",
    "running": "Running",
    "succeeded": "Succeeded",
    "failed": "Failed",
    "terminating": "Terminating",
    "unknown": "Unknown",
}


@dataclass(frozen=True, slots=True)
class JobState:
    """Where a job stands.

    Attributes:
        again: when to look again if nothing changes; None for never.
    """

    phase: JobPhase | None
    version: int = 0
    retries: int = 0
    memory: ControlledResources = field(default_factory=ControlledResources)
    reason: str = ""
    message: str = ""
    again: datetime | None = None


def next_state(view: JobSnapshot) -> JobState:
    """Where the job stands now.

    An invalid job stays as it is: nothing is made for it, and nothing is taken from it.
    """
    status = view.job.status
    standing = JobState(
        phase=status.state.phase,
        version=status.version,
        retries=status.retry_count,
        memory=view.controlled_resources,
        reason=status.state.reason,
        message=status.state.message,
    )
    if standing.phase in FINISHED:
        return replace(standing, again=_expiry(view))
    if problem := first_problem(view.job):
        phase = standing.phase or JobPhase.PENDING
        return replace(standing, phase=phase, reason="Invalid", message=problem)
    if standing.phase is None:
        return replace(standing, phase=JobPhase.PENDING, reason="", message="")
    if standing.reason == "Invalid":
        standing = replace(standing, reason="", message="")
    standing = replace(standing, memory=_with_observations(view))
    asked = view.job.metadata.annotations.get(JOB_ACTION, "")
    if asked != standing.memory.asked:
        standing = replace(standing, memory=replace(standing.memory, asked=asked))
        if asked in _REQUESTABLE_ACTIONS:
            because = f"its owner asked for it: {asked}"
            decision = Decision(JobAction(asked), "Asked", because, costs_no_retry=True)
            return _request(view, standing, decision)
    match standing.phase:
        case JobPhase.PENDING | JobPhase.RUNNING:
            return _with_refusal(view, _next_working_state(view, standing))
        case JobPhase.RESTARTING if not view.outdated:
            return replace(standing, phase=JobPhase.PENDING)
        case JobPhase.ABORTING | JobPhase.TERMINATING | JobPhase.COMPLETING if not view.active:
            return replace(standing, phase=ENDING_PHASES[standing.phase])
    return standing


def _with_observations(view: JobSnapshot) -> ControlledResources:
    """The memory, with what is there now added to it."""
    succeeded = (p for p, pod in view.current.items() if pod.status.phase == "Succeeded")
    memory = view.controlled_resources.limited_to(view.replicas).with_observed(
        view.current, succeeded
    )
    return replace(memory, made={**memory.made, **view.created})


def _next_working_state(view: JobSnapshot, standing: JobState) -> JobState:
    spec = view.spec
    succeeded = view.count("Succeeded")
    if spec.min_success is not None and succeeded >= spec.min_success:
        message = f"{succeeded} pods have succeeded, {spec.min_success} were asked for"
        decision = Decision(JobAction.COMPLETE_JOB, "MinSuccess", message)
        return _apply(view, standing, decision)
    decided, again = decide(view)
    if decided is not None:
        return replace(_apply(view, standing, decided), again=again)
    # Nobody minds that these are gone.
    standing = replace(standing, memory=standing.memory.without_lost(view.lost()), again=again)
    if spec.replicas and succeeded + view.count("Failed") == spec.replicas:
        return _final_state(view, standing)
    if view.count("Running", "Succeeded", "Failed") >= spec.minimum:
        # While all are scaled down to nothing, a job stays what it was.
        phase = JobPhase.RUNNING if spec.replicas else standing.phase
        return replace(standing, phase=phase, reason="", message="")
    if (group := view.pod_group) is not None and group.message:
        standing = replace(standing, reason="Unschedulable", message=group.message)
    elif standing.reason == "Unschedulable":
        standing = replace(standing, reason="", message="")
    return replace(standing, phase=JobPhase.PENDING)


def _with_refusal(view: JobSnapshot, standing: JobState) -> JobState:
    """With what the server refuses to make, which goes before what is said of the pods there are.

    Whoever has just started does not know, and leaves what was said before.
    """
    if standing.phase not in WORKING_PHASES:
        return standing
    if view.refusal:
        return replace(standing, reason=REFUSED, message=view.refusal)
    if view.refusal == "" and standing.reason == REFUSED:
        return replace(standing, reason="", message="")
    return standing


def _final_state(view: JobSnapshot, standing: JobState) -> JobState:
    """All pods have ended: well, or not."""
    spec, short = view.spec, ""
    succeeded = view.count("Succeeded")
    if spec.minimum >= sum(task.minimum for task in spec.tasks):
        for task in spec.tasks:
            well = view.task_count(task, "Succeeded")
            if task.min_available is not None and well < task.min_available:
                short = f"{well} pods of task {task.name} succeeded, not {task.min_available}"
    if spec.min_success is not None:
        short = short or f"{succeeded} pods succeeded, not {spec.min_success}"
    elif succeeded < spec.minimum:
        short = short or f"{succeeded} pods succeeded, not {spec.minimum}"
    if short:
        return replace(standing, phase=JobPhase.FAILED, reason="PodsFailed", message=short)
    return replace(standing, phase=JobPhase.COMPLETED, reason="", message="")


def invalid_action(action: str) -> str:
    """What is wrong with what an owner asks for, as a sentence; "" where nothing is."""
    if not action or action in _REQUESTABLE_ACTIONS:
        return ""
    hint = ", ".join(sorted(_REQUESTABLE_ACTIONS))
    return f"annotation {JOB_ACTION}: {action[:60]!r} is ignored; it may be one of {hint}"


def _request(view: JobSnapshot, standing: JobState, decision: Decision) -> JobState:
    """What an owner may ask for depends on where the job stands."""
    stopped = standing.phase in (JobPhase.ABORTING, JobPhase.ABORTED)
    if stopped != (decision.action is JobAction.RESUME_JOB):
        return standing
    if not stopped and standing.phase not in WORKING_PHASES | {JobPhase.RESTARTING}:
        return standing
    return _apply(view, standing, decision)


def _apply(view: JobSnapshot, standing: JobState, decision: Decision) -> JobState:
    """The beginning of an action; :mod:`~arranger.controllers.vcjob.plan` carries it out."""
    version = standing.version + 1
    memory = standing.memory
    action = decision.action
    begun = replace(standing, version=version, reason=decision.reason, message=decision.message)
    if action is JobAction.SYNC_JOB:
        return standing
    if action in _ACTION_PHASES:
        return replace(begun, phase=_ACTION_PHASES[action])
    if action is JobAction.RESUME_JOB:
        return replace(begun, phase=JobPhase.RESTARTING, memory=memory.with_job_restart(version))
    retries = standing.retries + (not decision.costs_no_retry)
    if not decision.costs_no_retry and retries >= view.spec.max_retry:
        message = f"{decision.message}, but that is retry {retries} of {view.spec.max_retry}"
        return replace(begun, phase=JobPhase.FAILED, retries=retries, message=message)
    if action is JobAction.RESTART_JOB:
        memory = memory.with_job_restart(version)
    for task in decision.tasks:
        memory = memory.with_task_restart(version, task)
    for place in decision.indices:
        memory = memory.with_pod_restart(version, place)
    return replace(begun, phase=JobPhase.RESTARTING, retries=retries, memory=memory)


def _expiry(view: JobSnapshot) -> datetime | None:
    """When a finished job is to be deleted."""
    ttl, ended = view.spec.ttl_seconds_after_finished, view.job.status.state.last_transition_time
    return None if ttl is None or ended is None else ended + timedelta(seconds=ttl)


# --- as it is written ----------------------------------------------------------------------------


def build_status(view: JobSnapshot, standing: JobState) -> Object:
    """``status`` as it should be; ``None`` for what must not be there."""
    state, now = view.job.status.state, second_time(view.now)
    conditions = list(view.job.status.conditions)
    since = second_time(state.last_transition_time or datetime.fromtimestamp(0, UTC))
    if standing.phase != state.phase:
        since = now
        conditions.append({"status": str(standing.phase), "lastTransitionTime": now})
    total = {
        name: sum(c[fate] for c in view.phase_counts.values())
        for name, fate in _COUNT_FIELDS.items()
    }
    return {
        "state": {
            "phase": str(standing.phase),
            "reason": standing.reason or None,
            "message": standing.message or None,
            "lastTransitionTime": since,
        },
        "minAvailable": view.spec.minimum,
        **total,
        "taskStatusCount": {
            task: {"phase": {fate: n for fate, n in counts.items() if n}}
            for task, counts in view.phase_counts.items()
        },
        "version": standing.version,
        "retryCount": standing.retries,
        "controlledResources": standing.memory.to_dict(),
        "conditions": conditions[-_HISTORY:],
    }
