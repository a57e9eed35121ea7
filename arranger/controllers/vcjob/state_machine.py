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

from arranger.api.types.volcano_job import ASKED, Action, Phase
from arranger.controllers.vcjob.controlled_resources import Memory
from arranger.controllers.vcjob.policies import Decision, decide
from arranger.controllers.vcjob.snapshot import JobView
from arranger.controllers.vcjob.validation import problem_of
from arranger.kube.client.timestamps import second_time

Object = dict[str, Any]

#: Phases in which pods are made.
AT_WORK: Final = frozenset({Phase.PENDING, Phase.RUNNING})
#: Phase on the way → where it leads once no pod lives any more.
ENDING: Final[Mapping[Phase, Phase]] = {
    Phase.ABORTING: Phase.ABORTED,
    Phase.TERMINATING: Phase.TERMINATED,
    Phase.COMPLETING: Phase.COMPLETED,
}
#: The ends that a job does not come back from.
FINISHED: Final = frozenset({Phase.COMPLETED, Phase.TERMINATED, Phase.FAILED})
#: Reason of a job for which the server does not make what it needs.
REFUSED: Final = "Refused"
#: Action on the whole job → the phase it begins.
_BEGINS: Final[Mapping[Action, Phase]] = {
    Action.ABORT_JOB: Phase.ABORTING,
    Action.TERMINATE_JOB: Phase.TERMINATING,
    Action.COMPLETE_JOB: Phase.COMPLETING,
}
#: What policies do to parts of a job, of which an owner's word for all of it would not say which.
_OF_PARTS: Final = (Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION)
#: What an owner may ask for.
_ACTIONS: Final = frozenset(action.value for action in Action if action not in _OF_PARTS)
#: Transitions that ``status.conditions`` remembers.
_HISTORY: Final = 20
_COUNTED: Final = {
    "pending": "Pending",
    "running": "Running",
    "succeeded": "Succeeded",
    "failed": "Failed",
    "terminating": "Terminating",
    "unknown": "Unknown",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stands.

    Attributes:
        again: when to look again if nothing changes; None for never.
    """

    phase: Phase | None
    version: int = 0
    retries: int = 0
    memory: Memory = field(default_factory=Memory)
    reason: str = ""
    message: str = ""
    again: datetime | None = None


def advance(view: JobView) -> Standing:
    """Where the job stands now.

    An invalid job stays as it is: nothing is made for it, and nothing is taken from it.
    """
    status = view.job.status
    standing = Standing(
        phase=status.state.phase,
        version=status.version,
        retries=status.retry_count,
        memory=view.memory,
        reason=status.state.reason,
        message=status.state.message,
    )
    if standing.phase in FINISHED:
        return replace(standing, again=_expiry(view))
    if problem := problem_of(view.job):
        phase = standing.phase or Phase.PENDING
        return replace(standing, phase=phase, reason="Invalid", message=problem)
    if standing.phase is None:
        return replace(standing, phase=Phase.PENDING, reason="", message="")
    if standing.reason == "Invalid":
        standing = replace(standing, reason="", message="")
    standing = replace(standing, memory=_remembered(view))
    asked = view.job.metadata.annotations.get(ASKED, "")
    if asked != standing.memory.asked:
        standing = replace(standing, memory=replace(standing.memory, asked=asked))
        if asked in _ACTIONS:
            because = f"its owner asked for it: {asked}"
            decision = Decision(Action(asked), "Asked", because, free=True)
            return _ask(view, standing, decision)
    match standing.phase:
        case Phase.PENDING | Phase.RUNNING:
            return _refused(view, _at_work(view, standing))
        case Phase.RESTARTING if not view.outdated:
            return replace(standing, phase=Phase.PENDING)
        case Phase.ABORTING | Phase.TERMINATING | Phase.COMPLETING if not view.living:
            return replace(standing, phase=ENDING[standing.phase])
    return standing


def _remembered(view: JobView) -> Memory:
    """The memory, with what is there now added to it."""
    succeeded = (p for p, pod in view.current.items() if pod.status.phase == "Succeeded")
    memory = view.memory.within(view.replicas).observed(view.current, succeeded)
    return replace(memory, made={**memory.made, **view.made})


def _at_work(view: JobView, standing: Standing) -> Standing:
    spec = view.spec
    succeeded = view.count("Succeeded")
    if spec.min_success is not None and succeeded >= spec.min_success:
        message = f"{succeeded} pods have succeeded, {spec.min_success} were asked for"
        decision = Decision(Action.COMPLETE_JOB, "MinSuccess", message)
        return _apply(view, standing, decision)
    decided, again = decide(view)
    if decided is not None:
        return replace(_apply(view, standing, decided), again=again)
    # Nobody minds that these are gone.
    standing = replace(standing, memory=standing.memory.forgotten(view.lost()), again=again)
    if spec.replicas and succeeded + view.count("Failed") == spec.replicas:
        return _ended(view, standing)
    if view.count("Running", "Succeeded", "Failed") >= spec.least:
        # While all are scaled down to nothing, a job stays what it was.
        phase = Phase.RUNNING if spec.replicas else standing.phase
        return replace(standing, phase=phase, reason="", message="")
    if (group := view.group) is not None and group.message:
        standing = replace(standing, reason="Unschedulable", message=group.message)
    elif standing.reason == "Unschedulable":
        standing = replace(standing, reason="", message="")
    return replace(standing, phase=Phase.PENDING)


def _refused(view: JobView, standing: Standing) -> Standing:
    """With what the server refuses to make, which goes before what is said of the pods there are.

    Whoever has just started does not know, and leaves what was said before.
    """
    if standing.phase not in AT_WORK:
        return standing
    if view.refusal:
        return replace(standing, reason=REFUSED, message=view.refusal)
    if view.refusal == "" and standing.reason == REFUSED:
        return replace(standing, reason="", message="")
    return standing


def _ended(view: JobView, standing: Standing) -> Standing:
    """All pods have ended: well, or not."""
    spec, short = view.spec, ""
    succeeded = view.count("Succeeded")
    if spec.least >= sum(task.least for task in spec.tasks):
        for task in spec.tasks:
            well = view.task_count(task, "Succeeded")
            if task.min_available is not None and well < task.min_available:
                short = f"{well} pods of task {task.name} succeeded, not {task.min_available}"
    if spec.min_success is not None:
        short = short or f"{succeeded} pods succeeded, not {spec.min_success}"
    elif succeeded < spec.least:
        short = short or f"{succeeded} pods succeeded, not {spec.least}"
    if short:
        return replace(standing, phase=Phase.FAILED, reason="PodsFailed", message=short)
    return replace(standing, phase=Phase.COMPLETED, reason="", message="")


def nonsense(asked: str) -> str:
    """What is wrong with what an owner asks for, as a sentence; "" where nothing is."""
    if not asked or asked in _ACTIONS:
        return ""
    hint = ", ".join(sorted(_ACTIONS))
    return f"annotation {ASKED}: {asked[:60]!r} is ignored; it may be one of {hint}"


def _ask(view: JobView, standing: Standing, decision: Decision) -> Standing:
    """What an owner may ask for depends on where the job stands."""
    stopped = standing.phase in (Phase.ABORTING, Phase.ABORTED)
    if stopped != (decision.action is Action.RESUME_JOB):
        return standing
    if not stopped and standing.phase not in AT_WORK | {Phase.RESTARTING}:
        return standing
    return _apply(view, standing, decision)


def _apply(view: JobView, standing: Standing, decision: Decision) -> Standing:
    """The beginning of an action; :mod:`~arranger.controllers.vcjob.plan` carries it out."""
    version = standing.version + 1
    memory = standing.memory
    action = decision.action
    begun = replace(standing, version=version, reason=decision.reason, message=decision.message)
    if action is Action.SYNC_JOB:
        return standing
    if action in _BEGINS:
        return replace(begun, phase=_BEGINS[action])
    if action is Action.RESUME_JOB:
        return replace(begun, phase=Phase.RESTARTING, memory=memory.restarted(version))
    retries = standing.retries + (not decision.free)
    if not decision.free and retries >= view.spec.max_retry:
        message = f"{decision.message}, but that is retry {retries} of {view.spec.max_retry}"
        return replace(begun, phase=Phase.FAILED, retries=retries, message=message)
    if action is Action.RESTART_JOB:
        memory = memory.restarted(version)
    for task in decision.tasks:
        memory = memory.task_restarted(version, task)
    for place in decision.places:
        memory = memory.pod_restarted(version, place)
    return replace(begun, phase=Phase.RESTARTING, retries=retries, memory=memory)


def _expiry(view: JobView) -> datetime | None:
    """When a finished job is to be deleted."""
    ttl, ended = view.spec.ttl_seconds_after_finished, view.job.status.state.last_transition_time
    return None if ttl is None or ended is None else ended + timedelta(seconds=ttl)


# --- as it is written ----------------------------------------------------------------------------


def status_of(view: JobView, standing: Standing) -> Object:
    """``status`` as it should be; ``None`` for what must not be there."""
    state, now = view.job.status.state, second_time(view.now)
    conditions = list(view.job.status.conditions)
    since = second_time(state.last_transition_time or datetime.fromtimestamp(0, UTC))
    if standing.phase != state.phase:
        since = now
        conditions.append({"status": str(standing.phase), "lastTransitionTime": now})
    total = {name: sum(c[fate] for c in view.fates.values()) for name, fate in _COUNTED.items()}
    return {
        "state": {
            "phase": str(standing.phase),
            "reason": standing.reason or None,
            "message": standing.message or None,
            "lastTransitionTime": since,
        },
        "minAvailable": view.spec.least,
        **total,
        "taskStatusCount": {
            task: {"phase": {fate: n for fate, n in counts.items() if n}}
            for task, counts in view.fates.items()
        },
        "version": standing.version,
        "retryCount": standing.retries,
        "controlledResources": standing.memory.write(),
        "conditions": conditions[-_HISTORY:],
    }
