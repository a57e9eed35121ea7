"""The state machine of TYJobs: from what is observed to what is to be written. Pure.

What is asked for, and where we differ, is in ``docs/design/tyjob.md``. Level-triggered: each pass
names what is missing and what is too much, so that the controller may be killed between any two
writes and does no harm when it writes twice. Two things make it so. Names are fixed, one for each
replica, so no pod is created twice. And failures are counted in the status before the pod that
failed is deleted, from numbers that never fall for the same pod.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.timestamps import parse_time
from arranger.api.types.tyjob import TYJob, validate_tyjob
from arranger.controllers.runtime.objects import Object, conditions_of, merge_patch
from arranger.controllers.tyjob.observed_state import TERMINAL_STAGES, Attempt, ObservedState, Stage
from arranger.controllers.tyjob.status import (
    Decision,
    EventNote,
    event_notes,
    invalid_status,
    open_status,
    pod_status,
)
from arranger.controllers.tyjob.writes import (
    Create,
    DeleteReplicaPod,
    Write,
    clean_up,
    force_delete_overdue,
    needed_writes,
    outdated_pods,
    refused_lately,
)


@dataclass(frozen=True, slots=True)
class TYJobPolicy:
    """What holds for every TYJob.

    Attributes:
        scheduler: who places pods whose template names nobody.
        scheduling_timeout: seconds that a job may wait for nodes where it does not say; None for
            as long as it takes.
    """

    scheduler: str = "arranger"
    scheduling_timeout: float | None = None


DEFAULT_POLICY: Final = TYJobPolicy()


@dataclass(frozen=True, slots=True)
class TYJobPlan:
    """What is to be written: the status first, then the rest in this order.

    Attributes:
        status: a merge patch; empty where all is right.
        events: to be recorded once the status has been written.
        requeue_after: seconds after which to look again though nothing has happened.
    """

    status: Object = field(default_factory=dict)
    writes: tuple[Write, ...] = ()
    events: tuple[EventNote, ...] = ()
    requeue_after: float | None = None


def plan(
    job: TYJob, observed: ObservedState, now: datetime, policy: TYJobPolicy = DEFAULT_POLICY
) -> TYJobPlan:
    """What to write about a job; nothing once it is right."""
    if job.metadata.deletion_timestamp is not None:
        return TYJobPlan()  # the garbage collector removes what the job owns
    if str(job.status.get("stage")) in TERMINAL_STAGES:
        writes, wait = force_delete_overdue(observed.pods.values(), now)
        writes += clean_up(job, observed)
        left = merge_patch(job.status, pod_status(observed))
        return TYJobPlan(left, tuple(writes), requeue_after=wait)
    if problems := validate_tyjob(job):
        status = pod_status(observed)
        status |= invalid_status(job, "; ".join(problems), _end(job, observed), now)
        patch = merge_patch(job.status, status)
        return TYJobPlan(patch, (), tuple(event_notes(job, patch)))
    return _plan_valid(job, observed, now, policy)


def _plan_valid(
    job: TYJob, observed: ObservedState, now: datetime, policy: TYJobPolicy
) -> TYJobPlan:
    limit = job.valid_spec.scheduling_timeout_seconds or policy.scheduling_timeout
    waits, since = Attempt(job, observed, now), _waiting_since(job)
    left = None
    if limit is not None and not waits.is_scheduled:
        left = limit - (now - since).total_seconds() if since is not None else limit
    if left is not None and left <= 0:
        current = Attempt(job, observed, now, waited=limit)
    else:
        current = waits
    decided = next_stage(job.status.get("stage", ""), current)
    if decided[0] in TERMINAL_STAGES:  # those are cleaned up when that is written
        writes: list[Write] = []
        times: list[float | None] = []
    else:
        writes, wait = force_delete_overdue(observed.pods.values(), now)
        kept = refused_lately(observed.pods.values(), now)
        writes += [
            write
            for write in needed_writes(current, policy.scheduler)
            if not (isinstance(write, DeleteReplicaPod) and write.uid in kept)
        ]
        times = [wait, left, current.image_wait, *kept.values()]
    lacks = any(isinstance(write, Create) for write in writes)
    outdated = outdated_pods(current, policy.scheduler)
    status = open_status(current, decided, now, outdated=outdated, lacks=lacks)
    patch = merge_patch(job.status, status)
    due = [seconds for seconds in times if seconds is not None and seconds > 0]
    events = tuple(event_notes(job, patch))
    return TYJobPlan(patch, tuple(writes), events, min(due, default=None))


def next_stage(stage: str, current: Attempt) -> Decision:
    """Stage, reason and message; one edge of the machine at a time.

    The ends are not left again. Pending → Starting when there are nodes to start on; → Running when
    enough workers are ready; → Rescheduling when fewer are left than must be, until they are back.
    """
    if end := _end(current.job, current.observed):
        return end
    if why := current.failure_reason:
        return Stage.FAILED, *why
    if stage == Stage.RUNNING and current.is_scheduled:
        return Stage.RUNNING, *current.missing_nodes_reason
    if stage in (Stage.STARTING, Stage.RESCHEDULING) and current.is_ready:
        return Stage.RUNNING, *current.missing_nodes_reason
    if stage in (Stage.RUNNING, Stage.RESCHEDULING):
        return Stage.RESCHEDULING, *current.loss_reason
    if stage == Stage.STARTING or current.may_start:
        return Stage.STARTING, *(
            current.not_ready_reason if current.is_scheduled else current.unscheduled_reason
        )
    return Stage.PENDING, *current.unscheduled_reason


def _end(job: TYJob, observed: ObservedState) -> Decision | None:
    """How the job has ended well, whatever else its spec says by now; None while it has not."""
    if job.terminating:
        return Stage.SUCCEEDED, "Terminated", "spec.terminating was set"
    if leader := observed.succeeded_leader:
        return Stage.SUCCEEDED, "LeaderSucceeded", f"{leader} has ended well"
    return None


def _waiting_since(job: TYJob) -> datetime | None:
    """When the job has lost, or first lacked, the nodes that it must have; by its status."""
    for condition in conditions_of(job.status.get("conditions")):
        if (condition.get("type"), condition.get("status")) == ("Scheduled", "False"):
            since = condition.get("lastTransitionTime")
            with suppress(ParseError):  # somebody else may have written it
                return parse_time(since) if isinstance(since, str) else None
    return None
