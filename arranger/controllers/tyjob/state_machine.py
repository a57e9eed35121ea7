"""The state machine of TYJobs: from what is observed to what is to be written. Pure.

What is asked for, and where we differ, is in ``docs/design/tyjob.md``. Level-triggered: each pass
names what is missing and what is too much, so that the controller may be killed between any two
writes and does no harm when it writes twice. Two things make it so. Names are fixed, one for each
replica, so no pod is created twice. And failures are counted in the status before the pod that
failed is deleted, from numbers that never fall for the same pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from arranger.api import event_reasons
from arranger.api.types.tyjob import Replica, TYJob, TYJobPod, validate_tyjob
from arranger.controllers.runtime.objects import Object, merge_patch, with_condition
from arranger.controllers.tyjob import manifests
from arranger.controllers.tyjob.observed_state import TERMINAL_STAGES, Attempt, ObservedState, Stage
from arranger.kube.client.timestamps import second_time

#: How long a pod may take to go after its grace period. Then its node is taken for dead, because
#: its kubelet would have confirmed the deletion, and the pod is removed so that the next can come.
FORCE_DELETE_AFTER: Final = timedelta(seconds=60)

#: Reason of the condition Valid when it is False → reason of the event.
_REFUSALS: Final = {"Invalid": event_reasons.INVALID_TYJOB, "Refused": event_reasons.REFUSED_TYJOB}
#: Text of the event of a stage for which the status has no message.
_STAGE_MESSAGES: Final = {
    Stage.PENDING: "its pods wait for nodes",
    Stage.RUNNING: "its leader runs and enough workers are ready",
}


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; one of the job that is there already is as good."""

    plural: Literal["pods", "services", "configmaps"]
    manifest: Object


@dataclass(frozen=True, slots=True)
class DeleteReplicaPod:
    """Delete the pod of this uid; with ``force`` without its kubelet's confirmation."""

    name: str
    uid: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class PatchLeaderConfigMap:
    """Merge this into the data of the job's ConfigMap; None removes a key."""

    name: str
    data: dict[str, str | None]


Write = Create | DeleteReplicaPod | PatchLeaderConfigMap


@dataclass(frozen=True, slots=True)
class EventNote:
    """An Event about the job; ``pod`` is the related one, if any."""

    reason: str
    message: str
    warning: bool = False
    pod: str = ""


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
    job: TYJob, observed: ObservedState, now: datetime, *, scheduler: str = "arranger"
) -> TYJobPlan:
    """What to write about a job; nothing once it is right.

    Args:
        scheduler: who places pods whose template names nobody.
    """
    before = job.status
    if job.metadata.deletion_timestamp is not None:
        return TYJobPlan()  # the garbage collector removes what the job owns
    if before.get("stage") in TERMINAL_STAGES:
        return TYJobPlan(writes=tuple(_clean_up(job, observed)))
    writes: list[Write] = []
    wait: float | None = None
    if problems := validate_tyjob(job):
        status = _invalid_status(job, "; ".join(problems), now)
    else:
        current = Attempt(job, observed)
        status = _status(current, next_stage(before.get("stage", ""), current), now)
        if status["stage"] not in TERMINAL_STAGES:  # those are cleaned up when that is written
            writes, wait = _force_delete_overdue(observed.pods.values(), now)
            writes += _missing_objects(current, scheduler)
    patch = merge_patch(before, status)
    return TYJobPlan(patch, tuple(writes), tuple(_event_notes(job, patch)), wait)


def next_stage(stage: str, current: Attempt) -> tuple[str, str, str]:
    """Stage, reason and message; one edge of the machine at a time.

    The ends are not left again. Pending → Starting when the gang has its nodes; → Running when
    enough workers are ready; → Rescheduling when fewer are left than must be, until they are back.
    """
    if current.job.valid_spec.terminating:
        return Stage.SUCCEEDED, "Terminated", "spec.terminating was set"
    if current.leader_pod_any_state is not None and current.leader_pod_any_state.succeeded:
        return Stage.SUCCEEDED, "LeaderSucceeded", f"{current.leader_replica.pod} has ended well"
    if why := current.failure_reason:
        return Stage.FAILED, *why
    if stage == Stage.RUNNING and current.is_scheduled:
        return Stage.RUNNING, *current.missing_nodes_reason
    if stage in (Stage.STARTING, Stage.RESCHEDULING) and current.is_ready:
        return Stage.RUNNING, *current.missing_nodes_reason
    if stage in (Stage.RUNNING, Stage.RESCHEDULING):
        return Stage.RESCHEDULING, *current.loss_reason
    if stage == Stage.STARTING or current.is_scheduled:
        return Stage.STARTING, *(
            current.not_ready_reason if current.is_scheduled else current.unscheduled_reason
        )
    return Stage.PENDING, *current.unscheduled_reason


def _status(current: Attempt, decided: tuple[str, str, str], now: datetime) -> Object:
    """The whole status; None for a field that must not be there."""
    stage, reason, message = decided
    if current.observed.refusal and stage not in TERMINAL_STAGES and not reason:
        reason, message = "Refused", current.observed.refusal
    before, stamp, leader = current.job.status, second_time(now), current.leader
    conditions = list(before.get("conditions") or ())
    if current.observed.refusal:
        refused = ("Valid", "False", "Refused", current.observed.refusal)
        conditions = with_condition(conditions, refused, stamp)
    elif any(c.get("type") == "Valid" for c in conditions):
        conditions = with_condition(conditions, ("Valid", "True", "Accepted", ""), stamp)
    why = current.unscheduled_reason
    placed = (
        ("True", "Scheduled", "")
        if current.is_scheduled
        else ("False", why[0] or "Waiting", why[1])
    )
    conditions = with_condition(conditions, ("Scheduled", *placed), stamp)
    if stage in TERMINAL_STAGES:
        conditions = with_condition(conditions, (stage, "True", reason, message), stamp)
    return {
        "stage": stage,
        "scheduleState": current.schedule_state,
        "restarts": current.restarts,
        "workerRestarts": current.worker_restarts or None,
        "leaderAddress": (leader.status.pod_ip or None) if leader is not None else None,
        "totalWorkers": len(current.job.replicas) - 1,
        "readyWorkers": sum(pod.ready for pod in current.active),
        "allocations": current.allocations or None,
        "startTime": before.get("startTime") or (stamp if stage == Stage.RUNNING else None),
        "completionTime": stamp if stage in TERMINAL_STAGES else None,
        "reason": reason or None,
        "message": message or None,
        "conditions": conditions,
    }


def _invalid_status(job: TYJob, problem: str, now: datetime) -> Object:
    """Of a job that cannot be run as it is; its pods stay as they are until it is corrected."""
    condition = ("Valid", "False", "Invalid", problem)
    return {
        "stage": job.status.get("stage") or Stage.PENDING,
        "reason": "Invalid",
        "message": problem,
        "conditions": with_condition(
            list(job.status.get("conditions") or ()), condition, second_time(now)
        ),
    }


def _event_notes(job: TYJob, patch: Object) -> Iterable[EventNote]:
    before = job.status
    for condition in patch.get("conditions", ()):
        refused = condition["type"] == "Valid" and condition["status"] == "False"
        if refused and condition not in (before.get("conditions") or ()):
            yield EventNote(_REFUSALS[condition["reason"]], condition["message"], warning=True)
    if patch.get("restarts", 0) > (before.get("restarts") or 0):
        leader = job.replicas[0].pod
        failed = f"{leader} has failed, for the {_ordinal(patch['restarts'])} time"
        yield EventNote(event_reasons.LEADER_FAILED, failed, warning=True, pod=leader)
    counted = before.get("workerRestarts") or {}
    for name, number in (patch.get("workerRestarts") or {}).items():
        if number > counted.get(name, 0):
            failed = f"{name} has failed, for the {_ordinal(number)} time"
            yield EventNote(event_reasons.WORKER_FAILED, failed, warning=True, pod=name)
    if stage := patch.get("stage"):
        text = str(patch.get("message") or _STAGE_MESSAGES.get(stage, stage))
        yield EventNote(stage, text, warning=stage in (Stage.RESCHEDULING, Stage.FAILED))


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def _missing_objects(current: Attempt, scheduler: str) -> list[Write]:
    job, pods = current.job, current.observed.pods
    leader, leader_replica = current.leader, current.leader_replica

    def pod(replica: Replica) -> Create:
        counts = {leader_replica.pod: current.restarts, **current.worker_restarts}
        uid = leader.metadata.uid if leader is not None else ""
        manifest = manifests.pod(
            job, replica, scheduler=scheduler, leader=uid, restarts=counts.get(replica.pod, 0)
        )
        return Create("pods", manifest)

    writes: list[Write] = []
    if not current.observed.service:
        writes.append(Create("services", manifests.service(job)))
    if leader is None:
        # With workers of the last attempt still there the leader would start without new ones.
        writes += _delete(pods.values())
        return writes if pods else [*writes, pod(leader_replica)]
    writes += _sync_leader_address(current, leader)
    for replica in job.replicas[1:]:
        known, given_up = pods.get(replica.pod), current.exceeded_restart_limit(replica.pod)
        if known is None:
            if not given_up:
                writes.append(pod(replica))
        elif not (current.belongs_to_leader(known) and (known.active or given_up)):
            writes += _delete([known])
    wanted = {replica.pod for replica in job.replicas}
    return [*writes, *_delete(known for name, known in pods.items() if name not in wanted)]


def _sync_leader_address(current: Attempt, leader: TYJobPod) -> list[Write]:
    current_data, desired = current.observed.addresses, {leader.metadata.uid: leader.status.pod_ip}
    if not leader.status.pod_ip or current_data == desired:
        return []
    if current_data is None:
        return [Create("configmaps", manifests.leader_config_map(current.job, desired))]
    name = manifests.leader_config_map_name(current.job)
    return [PatchLeaderConfigMap(name, {**dict.fromkeys(current_data), **desired})]


def _clean_up(job: TYJob, observed: ObservedState) -> list[Write]:
    """The pods that an ended job does not keep."""
    policy = job.spec.clean_pod_policy if job.spec is not None else "None"
    if policy == "None":
        return []
    return _delete(pod for pod in observed.pods.values() if policy == "All" or not pod.terminal)


def _delete(pods: Iterable[TYJobPod]) -> list[Write]:
    going = (pod.metadata for pod in pods if pod.deletion_deadline is None)
    return [DeleteReplicaPod(metadata.name, metadata.uid) for metadata in going]


def _force_delete_overdue(
    pods: Iterable[TYJobPod], now: datetime
) -> tuple[list[Write], float | None]:
    """Removes pods that should have gone by now; and seconds until the next of them is due."""
    writes: list[Write] = []
    waits: list[float] = []
    for pod in pods:
        if pod.deletion_deadline is not None:
            wait = (pod.deletion_deadline + FORCE_DELETE_AFTER - now).total_seconds()
            if wait > 0:
                waits.append(wait)
            else:
                writes.append(DeleteReplicaPod(pod.metadata.name, pod.metadata.uid, force=True))
    return writes, min(waits, default=None)
