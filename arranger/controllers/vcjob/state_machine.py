"""The state machine of a Job: its next state, given what is observed of it.

Pure. The phases and their transitions are Volcano's (``pkg/controllers/job/state``); we differ in
three things, each on purpose: a restart after an eviction costs no retry, all of a job's pods are
gone before the first new one is made, and phases are worked out from what is there rather than
from events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from arranger.api.annotations import JOB_ACTION
from arranger.api.timestamps import after, second_time
from arranger.api.types.volcano_job import JobAction, JobPhase, LifecycleEvent
from arranger.controllers.runtime.objects import Object
from arranger.controllers.vcjob.controlled_resources import ControlledResources
from arranger.controllers.vcjob.owned_objects import CLAIMS
from arranger.controllers.vcjob.policies import Decision, decide, first_seen
from arranger.controllers.vcjob.snapshot import JobSnapshot
from arranger.controllers.vcjob.validation import first_problem

#: Phases in which pods are created.
WORKING_PHASES: Final = frozenset({JobPhase.PENDING, JobPhase.RUNNING})
#: Phase that ends a job → the phase that it leads to once all pods have ended.
ENDING_PHASES: Final[Mapping[JobPhase, JobPhase]] = {
    JobPhase.ABORTING: JobPhase.ABORTED,
    JobPhase.TERMINATING: JobPhase.TERMINATED,
    JobPhase.COMPLETING: JobPhase.COMPLETED,
}
#: Phases that a job does not leave again.
FINISHED: Final = frozenset({JobPhase.COMPLETED, JobPhase.TERMINATED, JobPhase.FAILED})
#: Reason of a job when the server refuses to create what it needs.
REFUSED: Final = "Refused"
#: Action on the whole job → the phase it begins.
_ACTION_PHASES: Final[Mapping[JobAction, JobPhase]] = {
    JobAction.ABORT_JOB: JobPhase.ABORTING,
    JobAction.TERMINATE_JOB: JobPhase.TERMINATING,
    JobAction.COMPLETE_JOB: JobPhase.COMPLETING,
}
#: Actions that may be requested by annotation or Command: on the whole job, for both name no part.
REQUESTABLE_ACTIONS: Final = frozenset(map(str, JobAction)) - {
    JobAction.RESTART_TASK,
    JobAction.RESTART_POD,
    JobAction.RESTART_PARTITION,
}
#: Transitions that ``status.conditions`` remembers.
_HISTORY: Final = 20
_COUNTED_PHASES: Final = ("Pending", "Running", "Succeeded", "Failed", "Terminating", "Unknown")


@dataclass(frozen=True, slots=True)
class NextStatus:
    """The part of a job's status that decides what is to be done.

    Attributes:
        requeue_at: when to look again if nothing changes; None for never.
        action: what a policy or somebody's wish has begun with it; None for nothing.
    """

    phase: JobPhase | None
    version: int = 0
    retries: int = 0
    controlled_resources: ControlledResources = field(default_factory=ControlledResources)
    reason: str = ""
    message: str = ""
    requeue_at: datetime | None = None
    action: JobAction | None = None


def next_status(snapshot: JobSnapshot) -> NextStatus:
    """The state of the job, given what is seen of it.

    An invalid job stays as it is: nothing is made for it, and nothing is taken from it, unless it
    is to be stopped.
    """
    status = snapshot.job.status
    state = NextStatus(
        phase=status.state.phase,
        version=status.version,
        retries=status.retry_count,
        controlled_resources=snapshot.controlled_resources,
        reason=status.state.reason,
        message=status.state.message,
    )
    if state.phase in FINISHED:
        return replace(state, requeue_at=_expiry(snapshot))
    noted = replace(state, controlled_resources=_with_observations(snapshot))
    if noted.reason == "Invalid":
        noted = replace(noted, reason="", message="")
    asked, is_all = _with_wishes(snapshot, noted)
    stops = not ENDING_PHASES.keys().isdisjoint({state.phase, asked.phase})
    queue_problem = "" if snapshot.has_begun else snapshot.queue_problem
    if not stops and (problem := first_problem(snapshot.job) or queue_problem):
        phase = state.phase or JobPhase.PENDING
        return replace(state, phase=phase, reason="Invalid", message=problem)
    if state.phase is None:
        return replace(state, phase=JobPhase.PENDING, reason="", message="")
    if is_all:
        return asked
    state = asked
    match state.phase:
        case JobPhase.PENDING | JobPhase.RUNNING:
            state, edited = _with_template(snapshot, state)
            if edited is not None:
                return _apply(snapshot, state, edited)
            return _with_refusal(snapshot, _next_working_status(snapshot, state))
        case JobPhase.RESTARTING if not snapshot.outdated:
            return replace(state, phase=JobPhase.PENDING)
        case JobPhase.ABORTING | JobPhase.TERMINATING | JobPhase.COMPLETING if not snapshot.active:
            return replace(state, phase=ENDING_PHASES[state.phase])
    return state


def _with_wishes(snapshot: JobSnapshot, state: NextStatus) -> tuple[NextStatus, bool]:
    """With what a Command or the owner asks for, and whether that is all that is to be done now.

    They are taken up once; the status remembers which.
    """
    command = snapshot.command
    if command is not None and command.metadata.uid != state.controlled_resources.last_command:
        resources = replace(state.controlled_resources, last_command=command.metadata.uid)
        state = replace(state, controlled_resources=resources)
        if command.action in REQUESTABLE_ACTIONS:
            because = f"Command {command.metadata.name} asked for it: {command.action}"
            decision = Decision(JobAction(command.action), "Asked", because, costs_no_retry=True)
            return _request(snapshot, state, decision), True
    action = snapshot.job.metadata.annotations.get(JOB_ACTION, "")
    if action != state.controlled_resources.last_action:
        resources = replace(state.controlled_resources, last_action=action)
        state = replace(state, controlled_resources=resources)
        if action in REQUESTABLE_ACTIONS:
            because = f"its owner asked for it: {action}"
            decision = Decision(JobAction(action), "Asked", because, costs_no_retry=True)
            return _request(snapshot, state, decision), True
    return state, False


def _with_observations(snapshot: JobSnapshot) -> ControlledResources:
    """What the status remembers, with what is there now added to it."""
    succeeded = (p for p in snapshot.current if snapshot.phase_of(p) == "Succeeded")
    resources = snapshot.controlled_resources.limited_to(snapshot.replicas)
    resources = resources.with_observed(snapshot.current, succeeded)
    dropped = resources.dropped & snapshot.pods.keys()
    if snapshot.job.status.state.phase in WORKING_PHASES:  # in the others nobody deletes them
        dropped |= snapshot.surplus.keys()
    resources = replace(resources, dropped=dropped)
    return replace(resources, created={**resources.created, **snapshot.created})


def _with_template(snapshot: JobSnapshot, state: NextStatus) -> tuple[NextStatus, Decision | None]:
    """With what pods are made from now on; pods from before an edit are made anew.

    Those that have a node keep it; when they are replaced, it is by the job as it then is.
    """
    wanted, known = snapshot.pod_template_digest, state.controlled_resources.template
    if wanted == known:
        return state, None
    resources = replace(state.controlled_resources, template=wanted)
    state = replace(state, controlled_resources=resources)
    waiting = tuple(index for index, pod in snapshot.current.items() if not pod.has_node)
    if not known or not waiting:
        return state, None
    whole = len(waiting) == len(snapshot.current)
    action = JobAction.RESTART_JOB if whole else JobAction.RESTART_POD
    message = f"the job was edited while {len(waiting)} of its pods had no node"
    indices = () if whole else waiting
    edited = Decision(action, "Edited", message, costs_no_retry=True, indices=indices)
    return state, edited


def _next_working_status(snapshot: JobSnapshot, state: NextStatus) -> NextStatus:
    spec = snapshot.spec
    succeeded = snapshot.count("Succeeded")
    if spec.min_success is not None and succeeded >= spec.min_success:
        message = f"{succeeded} pods have succeeded, {spec.min_success} were asked for"
        decision = Decision(JobAction.COMPLETE_JOB, "MinSuccess", message)
        return _apply(snapshot, state, decision)
    resources = replace(state.controlled_resources, first_seen=first_seen(snapshot))
    state = replace(state, controlled_resources=resources)
    decided, requeue_at = decide(snapshot)
    if decided is not None:
        begun = _apply(snapshot, state, decided)
        return replace(begun, requeue_at=requeue_at, action=decided.action)
    # No policy asks for anything because these pods are gone: they are created again. What one
    # is going to ask for once they have been gone for long enough, their successors would prevent.
    awaited = {key[1:] for key in resources.first_seen if key[0] == LifecycleEvent.POD_EVICTED}
    resources = resources.without_lost(set(snapshot.lost()) - awaited)
    state = replace(state, controlled_resources=resources, requeue_at=requeue_at)
    if spec.replicas and succeeded + snapshot.count("Failed") == spec.replicas:
        return _final_state(snapshot, state)
    if snapshot.count("Running", "Succeeded", "Failed") >= spec.minimum:
        # A job that is scaled down to no pods keeps its phase.
        phase = JobPhase.RUNNING if spec.replicas else state.phase
        return replace(state, phase=phase, reason="", message="")
    if (group := snapshot.pod_group) is not None and group.message:
        state = replace(state, reason="Unschedulable", message=group.message)
    elif state.reason == "Unschedulable":
        state = replace(state, reason="", message="")
    return replace(state, phase=JobPhase.PENDING)


def _with_refusal(snapshot: JobSnapshot, state: NextStatus) -> NextStatus:
    """With the server's refusal as reason, which goes before what is said of the pods.

    After a restart nothing was tried yet (``refusal`` is None), and the reason stays as it is.
    """
    if state.phase not in WORKING_PHASES:
        return state
    if snapshot.refusal:
        return replace(state, reason=REFUSED, message=snapshot.refusal)
    if snapshot.refusal == "" and state.reason == REFUSED:
        return replace(state, reason="", message="")
    return state


def _final_state(snapshot: JobSnapshot, state: NextStatus) -> NextStatus:
    """Completed or Failed, once all pods have ended."""
    spec, short = snapshot.spec, ""
    succeeded = snapshot.count("Succeeded")
    if spec.minimum >= sum(task.minimum for task in spec.tasks):
        for task in spec.tasks:
            well = snapshot.task_count(task, "Succeeded")
            if task.min_available is not None and well < task.min_available:
                short = f"{well} pods of task {task.name} succeeded, not {task.min_available}"
    if spec.min_success is not None:
        short = short or f"{succeeded} pods succeeded, not {spec.min_success}"
    elif succeeded < spec.minimum:
        short = short or f"{succeeded} pods succeeded, not {spec.minimum}"
    if short:
        return replace(state, phase=JobPhase.FAILED, reason="PodsFailed", message=short)
    return replace(state, phase=JobPhase.COMPLETED, reason="", message="")


def invalid_action(where: str, action: str) -> str:
    """What is wrong with a requested action, as a sentence; "" where nothing is.

    Args:
        where: who has asked for it.
    """
    if action in REQUESTABLE_ACTIONS:
        return ""
    hint = ", ".join(sorted(REQUESTABLE_ACTIONS))
    return f"{where}: {action[:60]!r} is ignored; it may be one of {hint}"


def _request(snapshot: JobSnapshot, state: NextStatus, decision: Decision) -> NextStatus:
    """An owner may request an action only in some phases; in the others nothing happens."""
    stopped = state.phase in (JobPhase.ABORTING, JobPhase.ABORTED)
    if stopped != (decision.action is JobAction.RESUME_JOB):
        return state
    if not stopped and state.phase not in WORKING_PHASES | {JobPhase.RESTARTING}:
        return state
    begun = _apply(snapshot, state, decision)
    return (
        begun if decision.action is JobAction.SYNC_JOB else replace(begun, action=decision.action)
    )


def _apply(snapshot: JobSnapshot, state: NextStatus, decision: Decision) -> NextStatus:
    """The state that begins an action; :mod:`~arranger.controllers.vcjob.plan` carries it out."""
    version = state.version + 1
    resources = state.controlled_resources
    action = decision.action
    begun = replace(state, version=version, reason=decision.reason, message=decision.message)
    if action is JobAction.SYNC_JOB:
        return state
    if action in _ACTION_PHASES:
        return replace(begun, phase=_ACTION_PHASES[action])
    if action is JobAction.RESUME_JOB:
        # Who suspends a job may remove its claims meanwhile.
        resources = resources.with_job_restart(version).without_created(CLAIMS)
        return replace(begun, phase=JobPhase.RESTARTING, controlled_resources=resources)
    retries = state.retries + (not decision.costs_no_retry)
    if not decision.costs_no_retry and retries >= snapshot.spec.max_retry:
        message = f"{decision.message}, but that is retry {retries} of {snapshot.spec.max_retry}"
        return replace(begun, phase=JobPhase.FAILED, retries=retries, message=message)
    if action is JobAction.RESTART_JOB:
        resources = resources.with_job_restart(version)
    for task in decision.tasks:
        resources = resources.with_task_restart(version, task)
    resources = resources.with_pod_restarts(version, decision.indices)
    begun = replace(begun, retries=retries, controlled_resources=resources)
    return replace(begun, phase=JobPhase.RESTARTING)


def _expiry(snapshot: JobSnapshot) -> datetime | None:
    ended = snapshot.job.status.state.last_transition_time
    ttl = snapshot.spec.ttl_seconds_after_finished
    return None if ttl is None or ended is None else after(ended, ttl)


def build_status(snapshot: JobSnapshot, state: NextStatus) -> Object:
    """``status`` as it should be; ``None`` for what must not be there."""
    before, now = snapshot.job.status.state, second_time(snapshot.now)
    conditions = list(snapshot.job.status.conditions)
    since = second_time(before.last_transition_time or datetime.fromtimestamp(0, UTC))
    if state.phase != before.phase:
        since = now
        conditions.append({"status": str(state.phase), "lastTransitionTime": now})
    total = {
        phase.lower(): sum(counts[phase] for counts in snapshot.phase_counts.values())
        for phase in _COUNTED_PHASES
    }
    return {
        "state": {
            "phase": str(state.phase),
            "reason": state.reason or None,
            "message": state.message or None,
            "lastTransitionTime": since,
        },
        "minAvailable": snapshot.spec.minimum,
        **total,
        "taskStatusCount": {
            task: {"phase": {phase: n for phase, n in counts.items() if n}}
            for task, counts in snapshot.phase_counts.items()
        },
        "version": state.version,
        "retryCount": state.retries,
        "controlledResources": state.controlled_resources.to_dict(),
        "conditions": conditions[-_HISTORY:],
    }
