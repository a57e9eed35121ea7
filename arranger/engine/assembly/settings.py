"""What an engine is told when it is made."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from arranger.api.extenders import Extender
from arranger.api.quarantine import Quarantine, QuarantineKey
from arranger.api.tracing import NO_TRACER, Tracer
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.queue.backoff import SchedulingQueueConfig
from arranger.framework.runtime.profile import Profile
from arranger.gangs.workloads.kinds import WorkloadKind
from arranger.quota.preemption.policy import QuotaConfig


def _no_time() -> float:
    return 0.0


@dataclass(frozen=True)
class EngineSettings:
    """All but what the watches say.

    Attributes:
        workload_kinds: kinds whose pods are gangs by their owner.
        to_unix_time: turns the engine's clock into seconds since 1970.
        parallel_extender_calls: see :class:`~arranger.engine.extenders.coordinator`.
        perf_counter: see :class:`~arranger.engine.schedule_one.EntityScheduler`; None: no phase is
            timed.
        max_checkpoint_time: seconds that victims get at most to save their state; 0: none.
        max_grace_period: seconds that evicted pods get at most to end; None: what they say.
        keeps_gang_records: see :class:`~arranger.engine.gang.state.gang_objects.GangObjects`.
        quarantine, left_out: see :class:`~arranger.engine.faults.barrier.Barrier`.
        uncounted: see :class:`~arranger.engine.faults.held_room.HeldRoom`.
    """

    profiles: Sequence[Profile]
    queue_config: SchedulingQueueConfig = field(default_factory=SchedulingQueueConfig)
    gang_policy: GangPolicy = field(default_factory=GangPolicy)
    quota_config: QuotaConfig = field(default_factory=QuotaConfig)
    workload_kinds: Sequence[WorkloadKind] = ()
    to_unix_time: Callable[[float], float] = float
    extenders: Sequence[Extender] = ()
    parallel_extender_calls: int = 1
    perf_counter: Callable[[], float] | None = None
    max_checkpoint_time: float = 0.0
    max_grace_period: int | None = None
    keeps_gang_records: bool = True
    quarantine: Quarantine = field(default_factory=Quarantine)
    left_out: Mapping[QuarantineKey, Hashable] = field(default_factory=dict)
    uncounted: set[QuarantineKey] = field(default_factory=set)
    tracer: Tracer = NO_TRACER

    @property
    def scheduler_names(self) -> list[str]:
        """The ``schedulerName`` of each profile."""
        return [profile.scheduler_name for profile in self.profiles]

    @property
    def time_spent(self) -> Callable[[], float]:
        """A clock by which work is measured, in seconds; one that stands still if none is given."""
        return self.perf_counter or _no_time
