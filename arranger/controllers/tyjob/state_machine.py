"""The state machine of TYJobs (seed 003). Pure: what is there → what is to be written.

Level-triggered: each pass looks at what there is and names what is missing or too much, so that it
may be killed between any two writes and does no harm when it writes twice. Two things make it so.
Names are fixed, one for each place in the job, so no pod is made twice. And failures are counted by
the status before the pod that failed is deleted, from numbers that never fall for the same pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from arranger.api.types.tyjob import Place, RankPod, TYJob, problems_of
from arranger.controllers.gang.status import with_condition
from arranger.controllers.tyjob import manifests
from arranger.controllers.tyjob.observed_state import (
    ENDS,
    FAILED,
    PENDING,
    RESCHEDULING,
    RUNNING,
    STARTING,
    SUCCEEDED,
    Round,
    World,
)
from arranger.kube.client.timestamps import second_time

Object = dict[str, Any]

#: How long a pod may take to go after its grace. Then its node is taken for dead, as its kubelet
#: would have confirmed, and the pod is removed so that its place can be filled.
PATIENCE: Final = timedelta(seconds=60)

#: What is told of a stage that has nothing to say for itself.
_ABOUT: Final = {
    PENDING: "its pods wait for nodes",
    RUNNING: "its leader runs and enough workers are ready",
}


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; it is fine if it is there already, unless it is somebody else's."""

    plural: Literal["pods", "services", "configmaps"]
    manifest: Object


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete one incarnation of a pod; ``force`` when its kubelet does not confirm it."""

    name: str
    uid: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class TellAddress:
    """Merge this into the data of the job's ConfigMap; None removes a key."""

    name: str
    data: dict[str, str | None]


Write = Create | DeletePod | TellAddress


@dataclass(frozen=True, slots=True)
class Note:
    """Something to tell the job's owner as an Event; ``pod`` is the one it is about, if any."""

    reason: str
    text: str
    warning: bool = False
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written: the status first, then the rest in this order.

    Attributes:
        status: a merge patch; empty where all is right.
        notes: to be told once the status has been written.
        again: seconds after which to look again though nothing has happened.
    """

    status: Object = field(default_factory=dict)
    writes: tuple[Write, ...] = ()
    notes: tuple[Note, ...] = ()
    again: float | None = None


def plan(job: TYJob, world: World, now: datetime, *, scheduler: str = "arranger") -> Plan:
    """What to write about a job; nothing once it is right.

    Args:
        scheduler: who places pods whose template names nobody.
    """
    before = job.status
    if job.metadata.deletion_timestamp is not None:
        return Plan()  # the garbage collector removes what the job owns
    if before.get("stage") in ENDS:
        return Plan(writes=tuple(_clean(job, world)))
    writes: list[Write] = []
    wait: float | None = None
    if problems := problems_of(job):
        status = _refused(job, "; ".join(problems), now)
    else:
        current = Round(job, world)
        status = _status(current, next_stage(before.get("stage", ""), current), now)
        if status["stage"] not in ENDS:  # those are cleaned up when that is written
            writes, wait = _overdue(world.pods.values(), now)
            writes += _missing(current, scheduler)
    patch = {name: value for name, value in status.items() if before.get(name) != value}
    return Plan(patch, tuple(writes), tuple(_notes(job, patch)), wait)


def next_stage(stage: str, current: Round) -> tuple[str, str, str]:
    """Stage, reason and message; one edge of the machine at a time.

    The ends are not left again. Pending → Starting when the gang has its nodes; → Running when
    enough workers are ready; → Rescheduling when fewer are left than must be, until they are back.
    """
    if current.job.asked.terminating:
        return SUCCEEDED, "Terminated", "spec.terminating was set"
    if current.last is not None and current.last.succeeded:
        return SUCCEEDED, "LeaderSucceeded", f"{current.first.pod} has ended well"
    if why := current.failure:
        return FAILED, *why
    if stage == RUNNING:
        return (RUNNING, *current.surplus) if current.placed else (RESCHEDULING, *current.loss)
    if stage in (STARTING, RESCHEDULING) and current.ready:
        return RUNNING, *current.surplus
    if stage == RESCHEDULING:
        return RESCHEDULING, *current.loss
    if stage == STARTING or current.placed:
        return STARTING, *(current.unready if current.placed else current.unplaced)
    return PENDING, *current.unplaced


# --- status -------------------------------------------------------------------------------------


def _status(current: Round, decided: tuple[str, str, str], now: datetime) -> Object:
    """The whole status; None for a field that must not be there."""
    stage, reason, message = decided
    if current.world.refusal and stage not in ENDS and not reason:
        reason, message = "Refused", current.world.refusal
    before, stamp, leader = current.job.status, second_time(now), current.leader
    conditions = list(before.get("conditions") or ())
    if current.world.refusal:
        said = ("Valid", "False", "Refused", current.world.refusal)
        conditions = with_condition(conditions, said, stamp)
    elif any(c.get("type") == "Valid" for c in conditions):
        conditions = with_condition(conditions, ("Valid", "True", "Accepted", ""), stamp)
    why = current.unplaced
    placed = ("True", "Scheduled", "") if current.placed else ("False", why[0] or "Waiting", why[1])
    conditions = with_condition(conditions, ("Scheduled", *placed), stamp)
    if stage in ENDS:
        conditions = with_condition(conditions, (stage, "True", reason, message), stamp)
    return {
        "stage": stage,
        "scheduleState": current.schedule_state,
        "restarts": current.restarts,
        "workerRestarts": current.worker_restarts or None,
        "leaderAddress": (leader.status.pod_ip or None) if leader is not None else None,
        "totalWorkers": len(current.job.places) - 1,
        "readyWorkers": sum(pod.ready for pod in current.active),
        "allocations": current.allocations or None,
        "startTime": before.get("startTime") or (stamp if stage == RUNNING else None),
        "completionTime": stamp if stage in ENDS else None,
        "reason": reason or None,
        "message": message or None,
        "conditions": conditions,
    }


def _refused(job: TYJob, problem: str, now: datetime) -> Object:
    """Of a job that cannot be run as it is; its pods stay as they are until it is corrected."""
    said = ("Valid", "False", "Invalid", problem)
    return {
        "stage": job.status.get("stage") or PENDING,
        "reason": "Invalid",
        "message": problem,
        "conditions": with_condition(
            list(job.status.get("conditions") or ()), said, second_time(now)
        ),
    }


def _notes(job: TYJob, patch: Object) -> Iterable[Note]:
    """What a change of the status is worth telling."""
    before = job.status
    for condition in patch.get("conditions", ()):
        refused = condition["type"] == "Valid" and condition["status"] == "False"
        if refused and condition not in (before.get("conditions") or ()):
            yield Note(f"{condition['reason']}TYJob", condition["message"], warning=True)
    if patch.get("restarts", 0) > (before.get("restarts") or 0):
        leader = job.places[0].pod
        failed = f"{leader} has failed, for the {_ordinal(patch['restarts'])} time"
        yield Note("LeaderFailed", failed, warning=True, pod=leader)
    counted = before.get("workerRestarts") or {}
    for name, number in (patch.get("workerRestarts") or {}).items():
        if number > counted.get(name, 0):
            failed = f"{name} has failed, for the {_ordinal(number)} time"
            yield Note("WorkerFailed", failed, warning=True, pod=name)
    if stage := patch.get("stage"):
        text = str(patch.get("message") or _ABOUT.get(stage, stage))
        yield Note(stage, text, warning=stage in (RESCHEDULING, FAILED))


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


# --- pods and what belongs to them --------------------------------------------------------------


def _missing(current: Round, scheduler: str) -> list[Write]:
    """What the job lacks, and the pods that are too many."""
    job, pods = current.job, current.world.pods
    leader, first = current.leader, current.first

    def pod(place: Place) -> Create:
        counts = {first.pod: current.restarts, **current.worker_restarts}
        uid = leader.metadata.uid if leader is not None else ""
        made = manifests.pod(
            job, place, scheduler=scheduler, leader=uid, restarts=counts.get(place.pod, 0)
        )
        return Create("pods", made)

    writes: list[Write] = []
    if not current.world.service:
        writes.append(Create("services", manifests.service(job)))
    if leader is None:
        # Members of the last round that are still there would let the leader start without others.
        writes += _delete(pods.values())
        return writes if pods else [*writes, pod(first)]
    writes += _tell_address(current, leader)
    for place in job.places[1:]:
        there = pods.get(place.pod)
        if there is None:
            if not current.given_up(place.pod):
                writes.append(pod(place))
        elif not (current.follows(there) and (there.lives or current.given_up(place.pod))):
            writes += _delete([there])
    places = {place.pod for place in job.places}
    return [*writes, *_delete(there for name, there in pods.items() if name not in places)]


def _tell_address(current: Round, leader: RankPod) -> list[Write]:
    """Let the workers have the leader's address."""
    told, wanted = current.world.addresses, {leader.metadata.uid: leader.status.pod_ip}
    if not leader.status.pod_ip or told == wanted:
        return []
    if told is None:
        return [Create("configmaps", manifests.addresses(current.job, wanted))]
    forgotten = dict.fromkeys(told)
    return [TellAddress(manifests.address_name(current.job), {**forgotten, **wanted})]


def _clean(job: TYJob, world: World) -> list[Write]:
    """The pods that an ended job does not keep."""
    policy = job.spec.clean_pod_policy if job.spec is not None else "None"
    if policy == "None":
        return []
    return _delete(pod for pod in world.pods.values() if policy == "All" or not pod.ended)


def _delete(pods: Iterable[RankPod]) -> list[Write]:
    """Delete those that nobody has deleted yet."""
    going = (pod.metadata for pod in pods if pod.leaving_by is None)
    return [DeletePod(metadata.name, metadata.uid) for metadata in going]


def _overdue(pods: Iterable[RankPod], now: datetime) -> tuple[list[Write], float | None]:
    """Remove pods that should have gone by now; and seconds until another may be such a one."""
    writes: list[Write] = []
    waits: list[float] = []
    for pod in pods:
        if pod.leaving_by is not None:
            wait = (pod.leaving_by + PATIENCE - now).total_seconds()
            if wait > 0:
                waits.append(wait)
            else:
                writes.append(DeletePod(pod.metadata.name, pod.metadata.uid, force=True))
    return writes, min(waits, default=None)
