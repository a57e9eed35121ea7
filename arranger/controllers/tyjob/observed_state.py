"""What is observed of a TYJob's leader and workers, and what follows from it. Pure.

A leader and the workers created for it are an *attempt*. When the leader is lost, whatever the
cause, its attempt is over: all pods go, and the next leader is created when the last of them is
gone, so that the gang is placed as a whole again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from arranger.api.annotations import LEADER_UID
from arranger.api.types.tyjob import TYJob, TYJobPod
from arranger.controllers.runtime.objects import Object


class Stage(StrEnum):
    """``status.stage``."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESCHEDULING = "Rescheduling"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


TERMINAL_STAGES: Final = frozenset({Stage.SUCCEEDED, Stage.FAILED})

#: Reason and message, both "" for nothing to say.
ReasonMessage = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ObservedState:
    """What there is of one job.

    Attributes:
        pods: by name; only those that the job owns.
        service: whether its Service is there.
        addresses: leader's uid → its address: the data of its ConfigMap; None while there is none.
        refusal: why the server did not let us write what was needed last; "" for no reason.
    """

    pods: Mapping[str, TYJobPod] = field(default_factory=dict)
    service: bool = False
    addresses: Mapping[str, str] | None = None
    refusal: str = ""


class Attempt:
    """The leader of a job and the workers that were created for it.

    Attributes:
        leader_pod_any_state: the pod with the leader's name, in whatever state.
        leader: the same while it runs or may yet run; None otherwise.
        workers: by name; of this leader only.
    """

    def __init__(self, job: TYJob, observed: ObservedState) -> None:
        self.job = job
        self.observed = observed
        self._spec = job.valid_spec
        leader_replica, *others = job.replicas
        self.leader_replica = leader_replica
        self.leader_pod_any_state = pod = observed.pods.get(leader_replica.pod)
        self.leader = pod if pod is not None and pod.active else None
        self.workers = {
            replica.pod: pod
            for replica in others
            if (pod := observed.pods.get(replica.pod)) is not None and self.belongs_to_leader(pod)
        }

    @property
    def _pods(self) -> list[TYJobPod]:
        return [*([self.leader] if self.leader is not None else []), *self.workers.values()]

    def belongs_to_leader(self, pod: TYJobPod) -> bool:
        """Whether a worker was created for this leader."""
        led_by = pod.metadata.annotations.get(LEADER_UID)
        return self.leader is not None and led_by == self.leader.metadata.uid

    @cached_property
    def restarts(self) -> int:
        """How often the leader has failed."""
        before, pod = int(self.job.status.get("restarts") or 0), self.leader_pod_any_state
        return max(before, pod.failures if pod is not None else 0)

    @cached_property
    def worker_restarts(self) -> dict[str, int]:
        """Worker → how often it has failed, for those that have.

        Workers often fail because their leader is lost; so none counts once that is known.
        """
        counts = dict(self.job.status.get("workerRestarts") or {})
        for name, pod in self.workers.items():
            if pod.failures:
                counts[name] = max(counts.get(name, 0), pod.failures)
        return dict(sorted(counts.items()))

    def exceeded_restart_limit(self, name: str) -> bool:
        """Whether a worker has failed too often to be started again."""
        return self.worker_restarts.get(name, 0) > self._spec.restart_limit

    @property
    def failure_reason(self) -> ReasonMessage | None:
        """Why the job has failed; None while it has not."""
        limit, least = self._spec.restart_limit, self._spec.min_workers_num
        limited = f"restartLimit is {limit}"
        if self.restarts > limit:
            return "LeaderFailed", f"the leader failed {self.restarts} times; {limited}"
        if self.leader is not None and (error := self.leader.image_error):
            return "LeaderImage", f"{self.leader_replica.pod} cannot get its image: {error}"
        workers = self.job.replicas[1:]
        left = sum(not self.exceeded_restart_limit(worker.pod) for worker in workers)
        if left < least:
            text = f"{left} workers have not failed too often and {least} must run"
            return "WorkersFailed", f"{text}; {limited}"
        if self._timed_out:
            return "SchedulingFailed", self.unscheduled_reason[1] or "the gang ran out of time"
        return None

    @property
    def _timed_out(self) -> bool:
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
        return led and sum(bool(pod.node) for pod in self.active) >= self._spec.min_workers_num

    @property
    def is_ready(self) -> bool:
        """Whether the leader runs, and enough workers are ready or have succeeded."""
        leader = self.leader
        runs = leader is not None and leader.status.phase == "Running" and leader.status.pod_ip
        return bool(runs) and self._ready_count >= self._spec.min_workers_num

    @property
    def _ready_count(self) -> int:
        return sum(pod.ready or pod.succeeded for pod in self.active)

    @property
    def schedule_state(self) -> str:
        """Which of the pods have nodes."""
        if self._timed_out:
            return "ScheduledFailed"
        nodes = len(self.allocations)
        if nodes == len(self.job.replicas):
            return "ScheduledSucceed"
        return "ScheduledPartly" if nodes else "Unscheduled"

    @cached_property
    def allocations(self) -> list[Object]:
        """Which node each pod of this attempt has."""
        return [
            {"pod": pod.metadata.name, "node": pod.node}
            for pod in self._pods
            if pod.node and pod.deletion_deadline is None
        ]

    @property
    def unscheduled_reason(self) -> ReasonMessage:
        """Why the first pod without a node has none, by the condition that the scheduler wrote."""
        for pod in self._pods:
            if (condition := pod.unschedulable_condition) is not None:
                return condition.reason, condition.message
        return "", ""

    @property
    def not_ready_reason(self) -> ReasonMessage:
        """Which workers a job that has its nodes waits for."""
        total, least = len(self.job.replicas) - 1, self._spec.min_workers_num
        return "NotReady", f"{self._ready_count} of {total} workers are ready, {least} must be"

    @property
    def missing_nodes_reason(self) -> ReasonMessage:
        """What a running job still has no node for, if anything."""
        complete = len(self.allocations) == len(self.job.replicas)
        return ("", "") if complete else self.unscheduled_reason

    @property
    def loss_reason(self) -> ReasonMessage:
        """What a running job has lost; the cause stays as it was found until it runs again."""
        before = self.job.status
        if before.get("stage") == Stage.RESCHEDULING and before.get("reason"):
            message = (self.not_ready_reason if self.is_scheduled else self.unscheduled_reason)[1]
            return str(before["reason"]), message or str(before.get("message") or "")
        if self.leader_pod_any_state is not None and self.leader_pod_any_state.failed:
            return "LeaderFailed", f"{self.leader_replica.pod} has failed and is started again"
        if self.leader is None:
            lost = f"{self.leader_replica.pod} was evicted, deleted, or lost with its node"
            return "LeaderLost", lost
        left, least = sum(bool(pod.node) for pod in self.active), self._spec.min_workers_num
        return "WorkersLost", f"{left} workers are left and {least} must be"
