"""The status of a TYJob, and the Events that go with its changes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from arranger.api import event_reasons
from arranger.api.listing import first_names
from arranger.api.timestamps import second_time
from arranger.api.types.tyjob import LEADER, TYJob
from arranger.controllers.runtime.objects import Object, conditions_of, with_condition
from arranger.controllers.tyjob.observed_state import (
    MAX_NAMES,
    TERMINAL_STAGES,
    Attempt,
    ObservedState,
    Refusal,
    Stage,
    allocations,
    leader_address,
    ready_count,
)
from arranger.controllers.tyjob.through_workers import note_of

#: Stage, reason and message.
Decision = tuple[str, str, str]

#: Reason of the condition Valid when it is False → reason of the event.
_REFUSALS: Final = {"Invalid": event_reasons.INVALID_TYJOB, "Refused": event_reasons.REFUSED_TYJOB}
#: Text of the event of a stage for which the status has no message.
_STAGE_MESSAGES: Final = {
    Stage.PENDING: "its pods wait for nodes",
    Stage.RUNNING: "its leader runs and enough workers are ready",
}


@dataclass(frozen=True, slots=True)
class EventNote:
    """An Event about the job; ``pod`` is the related one, if any."""

    reason: str
    message: str
    warning: bool = False
    pod: str = ""


def open_status(
    current: Attempt, decided: Decision, now: datetime, *, outdated: Sequence[str], lacks: bool
) -> Object:
    """The whole status of a job that can be run; None for a field that must not be there.

    Args:
        outdated: pods that keep their nodes though the spec has changed since they were made.
        lacks: whether something has still to be created.
    """
    stage, reason, message = decided
    job, stamp, ended = current.job, second_time(now), stage in TERMINAL_STAGES
    conditions = conditions_of(job.status.get("conditions"))
    refused = "" if ended else _refused(conditions, current.observed.refusal, lacks=lacks)
    if refused and not reason:
        reason, message = "Refused", refused
    conditions = _with_validity(conditions, current, refused, stamp)
    why = current.unscheduled_reason
    placed = ("True", "Scheduled", "") if current.is_scheduled else ("False", why[0], why[1])
    placed = (placed[0], placed[1] or "Waiting", placed[2])
    conditions = with_condition(conditions, ("Scheduled", *placed), stamp)
    conditions = _with_up_to_date(conditions, outdated, stamp)
    return {
        "scheduleState": current.schedule_state,
        "restarts": current.restarts,
        "workerRestarts": current.worker_restarts or None,
        "succeededWorkers": note_of(job, current.through) or None,
        "leaderAddress": leader_address(current.leader) or None,
        "totalWorkers": len(job.replicas) - 1,
        "readyWorkers": current.ready_workers,
        "allocations": current.allocations or None,
        **_stage_fields(job, (stage, reason, message), conditions, stamp),
    }


def invalid_status(job: TYJob, problem: str, end: Decision | None, now: datetime) -> Object:
    """Of a job that cannot be run as it is; its pods stay as they are until it is corrected.

    Args:
        end: stage, reason and message if it has come to its end all the same.
    """
    stamp = second_time(now)
    conditions = conditions_of(job.status.get("conditions"))
    conditions = _with_generation(
        with_condition(conditions, ("Valid", "False", "Invalid", problem), stamp), job
    )
    if end is not None:
        return _stage_fields(job, end, conditions, stamp)
    return {
        "stage": job.status.get("stage") or Stage.PENDING,
        "reason": "Invalid",
        "message": problem,
        "conditions": conditions,
    }


def pod_status(observed: ObservedState) -> Object:
    """What the pods that are left show, whatever the job says of itself.

    For jobs that have ended, or that cannot be run as they are: no attempt is under way then.
    """
    pods = sorted(observed.pods.values(), key=lambda pod: (pod.role, pod.metadata.name))
    return {
        "leaderAddress": leader_address(observed.leader_pod) or None,
        "readyWorkers": ready_count(pod for pod in pods if pod.role != LEADER),
        "allocations": allocations(pods) or None,
    }


def _count(value: Any) -> int:
    """A number of a status that somebody else may have written."""
    return value if isinstance(value, int) else 0


def event_notes(job: TYJob, patch: Object) -> Iterable[EventNote]:
    """The Events that a change of the status is worth."""
    before = job.status
    for condition in patch.get("conditions", ()):
        refused = (condition.get("type"), condition.get("status")) == ("Valid", "False")
        if refused and condition not in conditions_of(before.get("conditions")):
            yield EventNote(_REFUSALS[condition["reason"]], condition["message"], warning=True)
    if "restarts" in patch and patch["restarts"] > _count(before.get("restarts")):
        leader = job.replicas[0].pod
        failed = f"{leader} has failed, for the {_ordinal(patch['restarts'])} time"
        yield EventNote(event_reasons.LEADER_FAILED, failed, warning=True, pod=leader)
    counted = before.get("workerRestarts")
    counted = counted if isinstance(counted, dict) else {}
    for name, number in (patch.get("workerRestarts") or {}).items():
        if _count(number) > _count(counted.get(name)):
            limit = job.valid_spec.restart_limit
            given_up = f", and is given up: restartLimit is {limit}" if number > limit else ""
            failed = f"{name} has failed, for the {_ordinal(number)} time{given_up}"
            yield EventNote(event_reasons.WORKER_FAILED, failed, warning=True, pod=name)
    if stage := patch.get("stage"):
        text = str(patch.get("message") or _STAGE_MESSAGES.get(stage, stage))
        yield EventNote(stage, text, warning=stage in (Stage.RESCHEDULING, Stage.FAILED))


def _stage_fields(job: TYJob, decided: Decision, conditions: list[Object], stamp: str) -> Object:
    stage, reason, message = decided
    ended = stage in TERMINAL_STAGES
    if ended:
        conditions = with_condition(conditions, (stage, "True", reason, message), stamp)
    started = job.status.get("startTime") or (stamp if stage == Stage.RUNNING else None)
    return {
        "stage": stage,
        "startTime": started,
        "completionTime": stamp if ended else None,
        "reason": reason or None,
        "message": message or None,
        "conditions": conditions,
    }


def _refused(conditions: list[Object], refusal: Refusal | None, *, lacks: bool) -> str:
    """What the server refuses, "" for nothing.

    After a restart nobody remembers: then what was said holds until all has been created.
    """
    if refusal is not None:
        return refusal.text
    known = next((c for c in conditions if c.get("type") == "Valid"), {})
    return str(known.get("message")) if lacks and known.get("reason") == "Refused" else ""


def _with_validity(
    conditions: list[Object], current: Attempt, refused: str, stamp: str
) -> list[Object]:
    """The conditions with Valid, which is there once something was wrong."""
    job, refusal = current.job, current.observed.refusal
    if refused:
        if refusal is None or refusal.generation != job.metadata.generation:
            return conditions  # it has not been tried since
        condition = ("Valid", "False", "Refused", refused)
    elif any(c.get("type") == "Valid" for c in conditions):
        condition = ("Valid", "True", "Accepted", "")
    else:
        return conditions
    return _with_generation(with_condition(conditions, condition, stamp), job)


def _with_generation(conditions: list[Object], job: TYJob) -> list[Object]:
    """The conditions with the generation that Valid was worked out from, where it is known."""
    generation = job.metadata.generation
    return [
        {**c, "observedGeneration": generation} if generation and c.get("type") == "Valid" else c
        for c in conditions
    ]


def _with_up_to_date(conditions: list[Object], outdated: Sequence[str], stamp: str) -> list[Object]:
    """The conditions with UpToDate, which is there once pods were left behind by an edit."""
    if outdated:
        names = first_names(outdated, MAX_NAMES)
        text = f"made before the spec was changed, which the next pod in its place follows: {names}"
        return with_condition(conditions, ("UpToDate", "False", "PodsOutdated", text), stamp)
    if any(c.get("type") == "UpToDate" for c in conditions):
        return with_condition(conditions, ("UpToDate", "True", "UpToDate", ""), stamp)
    return conditions


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
