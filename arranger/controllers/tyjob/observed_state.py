"""What is observed of a TYJob's leader and workers, and what follows from it. Pure.

A leader and the workers created for it are an *attempt*. When the leader is lost, whatever the
cause, its attempt is over: all pods go, and the next leader is created when the last of them is
gone, so that the gang is placed as a whole again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final

from arranger.api.annotations import LEADER_UID
from arranger.api.listing import first_names
from arranger.api.parsing.scalars import parse_int_or
from arranger.api.timestamps import second_time
from arranger.api.types.tyjob import GANG, LEADER, WORKER, TYJob, TYJobPod
from arranger.api.unsatisfiable import UNSATISFIABLE, is_unsatisfiable
from arranger.controllers.runtime.objects import Object
from arranger.controllers.tyjob.image_errors import ImageError, image_error
from arranger.controllers.tyjob.leader_objects import LeaderService
from arranger.controllers.tyjob.through_workers import noted_workers


class Stage(StrEnum):
    """``status.stage``."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESCHEDULING = "Rescheduling"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


TERMINAL_STAGES: Final = frozenset({Stage.SUCCEEDED, Stage.FAILED})

#: Names in a message; the rest is counted.
MAX_NAMES: Final = 3

#: Reason and message, both "" for nothing to say.
ReasonMessage = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the server did not let us write what a job needed, and for which generation of it."""

    text: str
    generation: int


@dataclass(frozen=True, slots=True)
class ObservedState:
    """What there is of one job.

    Attributes:
        pods: by name; only those that the job owns.
        service: its Service.
        addresses: leader's uid → its address: the data of its ConfigMap; None while there is none.
        refusal: what the server refused last, unless nothing is refused any more.
        ended_leader: the leader that ended by itself last, even if it has been deleted since.
        through: worker that has succeeded, even if it has been deleted since → its leader's uid.
    """

    pods: Mapping[str, TYJobPod] = field(default_factory=dict)
    service: LeaderService | None = None
    addresses: Mapping[str, str] | None = None
    refusal: Refusal | None = None
    ended_leader: TYJobPod | None = None
    through: Mapping[str, str] = field(default_factory=dict)

    @property
    def leader_pod(self) -> TYJobPod | None:
        """The leader's pod in whatever state; there is one at a time."""
        return next((pod for pod in self.pods.values() if pod.role == LEADER), None)

    @property
    def succeeded_leader(self) -> str:
        """The name of the leader that has ended well; "" while none has."""
        seen = (self.leader_pod, self.ended_leader)
        return next((pod.metadata.name for pod in seen if pod is not None and pod.succeeded), "")


def leader_address(leader: TYJobPod | None) -> str:
    """The address at which a leader can be reached, "" for none."""
    reachable = leader is not None and leader.active and not leader.terminal
    return leader.status.pod_ip if leader is not None and reachable else ""


def allocations(pods: Iterable[TYJobPod]) -> list[Object]:
    """The node of each pod that has one or for which one is kept, and that does not go."""
    return [
        {"pod": pod.metadata.name, "node": pod.decided_node}
        for pod in pods
        if pod.decided_node and pod.deletion_deadline is None
    ]


def ready_count(workers: Iterable[TYJobPod]) -> int:
    """How many workers are ready."""
    return sum(pod.ready and pod.active for pod in workers)


class Attempt:
    """The leader of a job and the workers that were created for it.

    Args:
        now: the calendar clock.
        waited: seconds that the job has lacked nodes for, if that is longer than it may; else None.

    Attributes:
        leader: its pod while it runs or may yet run; None otherwise.
        workers: by name; of this leader only.
    """

    def __init__(
        self, job: TYJob, observed: ObservedState, now: datetime, *, waited: float | None = None
    ) -> None:
        self.job = job
        self.observed = observed
        self._now = now
        self._waited = waited
        self._spec = job.valid_spec
        leader_replica, *others = job.replicas
        self.leader_replica = leader_replica
        pod = observed.leader_pod
        self.leader = pod if pod is not None and pod.active else None
        self.workers = {
            replica.pod: pod
            for replica in others
            if (pod := observed.pods.get(replica.pod)) is not None and self.belongs_to_leader(pod)
        }

    @property
    def worker_names(self) -> list[str]:
        """The pods of the workers that the spec asks for, by rank."""
        return [replica.pod for replica in self.job.replicas[1:]]

    @property
    def _pods(self) -> list[TYJobPod]:
        return [*([self.leader] if self.leader is not None else []), *self.workers.values()]

    def belongs_to_leader(self, pod: TYJobPod) -> bool:
        """Whether a worker was created for this leader."""
        led_by = pod.metadata.annotations.get(LEADER_UID)
        ours = self.leader is not None and led_by == self.leader.metadata.uid
        return ours and pod.role == WORKER

    @cached_property
    def restarts(self) -> int:
        """How often the leader has failed."""
        before = parse_int_or(str(self.job.status.get("restarts") or 0), 0)
        seen = (self.observed.leader_pod, self.observed.ended_leader)
        return max(before, *(pod.failures if pod is not None else 0 for pod in seen))

    @cached_property
    def worker_restarts(self) -> dict[str, int]:
        """Worker → how often it has failed, for those that have and that the spec still asks for.

        Workers often fail because their leader is lost; so none counts once that is known. Nor does
        what a worker did that was taken away: where its name comes back, and its pod has not gone
        yet, that pod is another's.
        """
        noted = self.job.status.get("workerRestarts")
        noted = noted if isinstance(noted, dict) else {}
        wanted = {name: noted.get(name) for name in self.worker_names}
        counts = {name: count for name, count in wanted.items() if isinstance(count, int)}
        for name, pod in self.workers.items():
            if pod.failures and (name in counts or pod.deletion_deadline is None):
                counts[name] = max(counts.get(name, 0), pod.failures)
        return dict(sorted(counts.items()))

    @cached_property
    def through(self) -> frozenset[str]:
        """The workers of this leader that have succeeded, though their pods may be gone by now.

        By what was noted of them, unless there is a pod that says otherwise.
        """
        if self.leader is None:
            return frozenset()
        noted = noted_workers(self.job)
        uid = self.leader.metadata.uid
        found = []
        for name in self.worker_names:
            pod = self.workers.get(name)
            known = name in noted or self.observed.through.get(name) == uid
            if pod is not None:
                gone = pod.deletion_deadline is not None or pod.status.phase == "Succeeded"
                known = pod.succeeded or (known and gone)
            if known and not self.exceeded_restart_limit(name):
                found.append(name)
        return frozenset(found)

    def exceeded_restart_limit(self, name: str) -> bool:
        """Whether a worker has failed too often to be started again."""
        return self.worker_restarts.get(name, 0) > self._spec.restart_limit

    @cached_property
    def given_up(self) -> list[str]:
        """The workers that have failed too often to be started again."""
        return [name for name in self.worker_names if self.exceeded_restart_limit(name)]

    @property
    def failure_reason(self) -> ReasonMessage | None:
        """Why the job has failed; None while it has not."""
        limit, least = self._spec.restart_limit, self._spec.min_workers_num
        limited = f"restartLimit is {limit}"
        if self.restarts > limit:
            return "LeaderFailed", f"the leader failed {self.restarts} times; {limited}"
        if self._image_error is not None and self.image_wait is None:
            error = self._image_error.text
            return "LeaderImage", f"{self.leader_replica.pod} cannot get its image: {error}"
        left = len(self.worker_names) - len(self.given_up)
        if left < least:
            text = f"{left} workers have not failed too often and {least} must run"
            names = f", and given up are {first_names(self.given_up, MAX_NAMES)}"
            return "WorkersFailed", f"{text}; {limited}{names if self.given_up else ''}"
        if self._gang_timed_out:
            return "SchedulingFailed", self.unscheduled_reason[1] or "the gang ran out of time"
        if self._waited is not None:
            waited = f"no nodes within the {self._waited:g} s that it may wait for them"
            why = self.unscheduled_reason[1]
            return "SchedulingFailed", f"{waited}: {why}" if why else waited
        return None

    @cached_property
    def _image_error(self) -> ImageError | None:
        return image_error(self.leader) if self.leader is not None else None

    @property
    def image_wait(self) -> float | None:
        """Seconds that the leader's image may yet be tried for; None where nobody tries for it."""
        if self._image_error is None or self._image_error.hopeless_at is None:
            return None
        left = (self._image_error.hopeless_at - self._now).total_seconds()
        return left if left > 0 else None

    @property
    def _gang_timed_out(self) -> bool:
        return any(pod.timed_out and pod.active for pod in self.observed.pods.values())

    @property
    def active(self) -> list[TYJobPod]:
        """Workers that run or may yet run."""
        within_limit = (n for n in self.workers if not self.exceeded_restart_limit(n))
        return [self.workers[n] for n in within_limit if self.workers[n].active]

    @property
    def is_scheduled(self) -> bool:
        """Whether the leader and enough workers have their nodes."""
        led = self.leader is not None and bool(self.leader.node)
        return led and self._placed_count >= self._spec.min_workers_num

    @property
    def may_start(self) -> bool:
        """Whether the job has nodes to start on: as a gang its minimum, otherwise any."""
        if GANG in self.job.policies:
            return self.is_scheduled
        return any(pod.node for pod in self._pods if pod.active)

    @property
    def is_ready(self) -> bool:
        """Whether the leader runs, and enough workers are ready or have succeeded."""
        leader = self.leader
        runs = leader is not None and leader.status.phase == "Running" and leader.status.pod_ip
        return bool(runs) and self._ready_count >= self._spec.min_workers_num

    @property
    def _ready_count(self) -> int:
        return len(self.through.union(pod.metadata.name for pod in self.active if pod.ready))

    @property
    def _placed_count(self) -> int:
        return len(self.through.union(pod.metadata.name for pod in self.active if pod.node))

    @property
    def _is_complete(self) -> bool:
        """Whether no pod lacks a node any more."""
        placed = {str(each["pod"]) for each in self.allocations}
        return len(placed | self.through) == len(self.job.replicas)

    @property
    def schedule_state(self) -> str:
        """Which of the pods have nodes."""
        if self._gang_timed_out or self._waited is not None:
            return "ScheduledFailed"
        if self._is_complete:
            return "ScheduledSucceed"
        return "ScheduledPartly" if self.allocations else "Unscheduled"

    @cached_property
    def allocations(self) -> list[Object]:
        """The node of each pod of this attempt, as soon as it is decided."""
        return allocations(self._pods)

    @property
    def ready_workers(self) -> int:
        """How many workers are ready."""
        return ready_count(self.workers.values())

    @cached_property
    def unscheduled_reason(self) -> ReasonMessage:
        """Why pods without a node have none, by the conditions that the scheduler wrote.

        Of the first such pod, unless there is one that can never have a node.
        """
        found = [c for pod in self._pods if (c := pod.unschedulable_condition) is not None]
        for condition in found:
            if is_unsatisfiable(condition.message):
                return UNSATISFIABLE, condition.message
        return (found[0].reason, found[0].message) if found else ("", "")

    @property
    def not_ready_reason(self) -> ReasonMessage:
        """What a job that has its nodes waits for: the leader's image, or which workers."""
        error = self._image_error
        if error is not None and error.hopeless_at is not None:
            until = f"which is tried for until {second_time(error.hopeless_at)}"
            text = f"{self.leader_replica.pod} cannot get its image, {until}: {error.text}"
            return "LeaderImage", text
        total, least = len(self.job.replicas) - 1, self._spec.min_workers_num
        return "NotReady", f"{self._ready_count} of {total} workers are ready, {least} must be"

    @property
    def missing_nodes_reason(self) -> ReasonMessage:
        """What a running job still has no node for, if anything."""
        return ("", "") if self._is_complete else self.unscheduled_reason

    @property
    def loss_reason(self) -> ReasonMessage:
        """What a running job has lost; the cause stays as it was found until it runs again."""
        before = self.job.status
        if before.get("stage") == Stage.RESCHEDULING and before.get("reason"):
            message = (self.not_ready_reason if self.is_scheduled else self.unscheduled_reason)[1]
            return str(before["reason"]), message or str(before.get("message") or "")
        known = self.observed.leader_pod
        if known is not None and known.failed:
            return "LeaderFailed", f"{self.leader_replica.pod} has failed and is started again"
        if known is not None and known.refused:
            why = f"{known.status.reason}: {known.status.message}".removesuffix(": ")
            return "LeaderLost", f"{self.leader_replica.pod} was refused by its node: {why}"
        if self.leader is None:
            lost = f"{self.leader_replica.pod} was evicted, deleted, or lost with its node"
            return "LeaderLost", lost
        left, least = self._placed_count, self._spec.min_workers_num
        return "WorkersLost", f"{left} workers are left and {least} must be"
