"""The scheduler's core: events in, effects out.

The engine never awaits, opens nothing and reads no clock: whoever drives it passes ``now`` (any
clock that only goes forward, in seconds), carries effects out, and reports their outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence, Sized
from functools import partial

from arranger.api.effects import Effect, Outcome, ReleaseClaim, ReserveClaim
from arranger.api.extenders import Extender
from arranger.api.quarantine import Quarantine, QuarantineKey
from arranger.api.tracing import NO_TRACER, Tracer
from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_table import NodeTable
from arranger.engine.context import EngineClock, EngineContext, Stats
from arranger.engine.entity import QueuedPod
from arranger.engine.extenders.coordinator import ExtenderCoordinator
from arranger.engine.faults.barrier import Barrier
from arranger.engine.faults.fault_notes import FaultNotes
from arranger.engine.faults.invariants import check_pods, summarize
from arranger.engine.faults.known_objects import KnownObjects
from arranger.engine.faults.object_trials import ObjectTrials
from arranger.engine.faults.rollback import Rollback
from arranger.engine.gang.assembly import attempts_and_plans
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.gate import GangGate
from arranger.engine.gang.hold_recovery import HoldRecovery
from arranger.engine.gang.links import GangLinks
from arranger.engine.gang.manager import GangManager
from arranger.engine.gang.notifier import GangNotifier
from arranger.engine.gang.placement.search import PlacementSearcher
from arranger.engine.gang.placement.topology import MemberDomains
from arranger.engine.gang.planning.assembly import start_planner
from arranger.engine.gang.planning.room_search import RoomSearch
from arranger.engine.gang.preemption.executor import GangPreemptionExecutor
from arranger.engine.gang.priority import EffectivePriorities
from arranger.engine.gang.scheduler import GangScheduler
from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.handlers.event_handlers import EventHandlers
from arranger.engine.handlers.gang_handlers import GangHandlers
from arranger.engine.handlers.initial_objects import InitialObjects
from arranger.engine.handlers.owner_handlers import OwnerHandlers
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.engine.handlers.tenant_handlers import TenantHandlers
from arranger.engine.handlers.watched_kinds import WatchedKinds
from arranger.engine.handlers.workload_gangs import WorkloadGangs
from arranger.engine.handlers.workload_handlers import WorkloadHandlers
from arranger.engine.pending_effects import PendingEffects
from arranger.engine.pod.binding_cycle import BindingCycle
from arranger.engine.pod.kept_rows import KeptRows
from arranger.engine.pod.node_release import NodeRelease
from arranger.engine.pod.planned_room import PlannedRoom
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.pod.requeue import PodRequeuer
from arranger.engine.pod.satisfiability import Satisfiability
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.pod.waiting_pods import WaitingPods
from arranger.engine.queue.backoff import SchedulingQueueConfig
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.order.job_shares import JobShares
from arranger.engine.queue.order.queue_order import FairShareOrder
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.quota.gate import QuotaGate
from arranger.engine.quota.timers import QuotaTimers
from arranger.engine.quota.usage_keeper import UsageKeeper
from arranger.engine.reservations.book import make_book
from arranger.engine.run_time.enforcer import RunTimeEnforcer
from arranger.engine.run_time.limits import RunTimeLimits
from arranger.engine.schedule_one import EntityScheduler
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.runtime.profile import Profile
from arranger.gangs.registry import GangRegistry
from arranger.gangs.workloads.index import WorkloadIndex
from arranger.gangs.workloads.kinds import WorkloadKind
from arranger.quota.admission import Admission
from arranger.quota.decayed_usage import decayed_usage
from arranger.quota.ledger import QuotaLedger
from arranger.quota.min_resources_admission import MinResourcesAdmission
from arranger.quota.pod_owners import PodOwners
from arranger.quota.preemption.eviction_protection import EvictionProtection
from arranger.quota.preemption.policy import QueuePreemptionPolicy, QuotaConfig
from arranger.quota.preemption.reclaim import DeservedReclaim
from arranger.quota.quota_plugin import with_quota


class Engine:
    """Decides where pods go.

    Attributes:
        barrier: keeps what an object makes our code raise from all others.
        handlers, owner_handlers, workload_handlers: take in events, those of owners and of gangs.
        cluster, queue, registry, ledger, usage, policy: placed pods, others, gangs, use, evictions.
        cycle, reservations, planned_room: what nodes say of a pod, and who keeps them from whom.
    """

    def __init__(
        self,
        profiles: Sequence[Profile],
        *,
        queue_config: SchedulingQueueConfig | None = None,
        gang_policy: GangPolicy | None = None,
        quota_config: QuotaConfig | None = None,
        workload_kinds: Sequence[WorkloadKind] = (),
        to_unix_time: Callable[[float], float] = float,
        extenders: Sequence[Extender] = (),
        parallel_extender_calls: int = 1,
        perf_counter: Callable[[], float] | None = None,
        quarantine: Quarantine | None = None,
        left_out: Mapping[QuarantineKey, Hashable] | None = None,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        """Build the parts, each from those above it.

        ``workload_kinds``: kinds whose pods are gangs by their owner. ``to_unix_time`` turns the
        engine's clock into seconds since 1970. The others: see
        :class:`~arranger.engine.schedule_one.EntityScheduler`,
        :class:`~arranger.engine.extenders.coordinator.ExtenderCoordinator` and
        :class:`~arranger.engine.faults.barrier.Barrier`.
        """
        gang_config, quotas = gang_policy or GangPolicy(), quota_config or QuotaConfig()
        self._perf_counter = perf_counter or (lambda: 0.0)
        # State.
        registry = self.registry = GangRegistry()
        owners, table = PodOwners(), NodeTable()
        ledger = self.ledger = QuotaLedger(
            table,
            pod_groups=registry,
            owners=owners,
            service_by_owner=quotas.service_type_by_owner,
            exempt_card_pods=quotas.exempt_card_pods,
        )
        cluster = self.cluster = Cluster(table, ledger)
        profiles, clock = [with_quota(each, ledger) for each in profiles], EngineClock(to_unix_time)
        context = self._context = EngineContext(cluster, clock, extenders, tracer=tracer)
        effects, nominator = PendingEffects(context), Nominator(cluster)
        self._effects, self._nominator = effects, nominator
        limits, holds = RunTimeLimits(ledger), GangHolds(registry, gang_config)
        planned_room = PlannedRoom.empty(table, ledger.queue_name, limits.limit_of, clock)
        self.planned_room, schedulers = planned_room, [p.scheduler_name for p in profiles]
        gang_objects = self._gang_objects = GangObjects(
            context, effects, registry, holds, gang_config, schedulers
        )
        # Who may be evicted, and who may be tried.
        links, domains = GangLinks(registry, cluster), MemberDomains(cluster, registry)
        protection = EvictionProtection(
            context,
            reclaim_min_runtime=quotas.reclaim_min_runtime,
            preempt_min_runtime=quotas.preempt_min_runtime,
            cool_down=quotas.eviction_cool_down,
        )
        policy = self.policy = QueuePreemptionPolicy(
            ledger, quotas, nominator.terminating_victims, protection, links
        )
        admission = Admission(
            ledger, quotas.over_commit, quotas.card_request_timeout, registry.members_of
        )
        min_resources = MinResourcesAdmission(cluster, ledger, policy, registry)
        quota, gate = QuotaGate(context, admission, min_resources), GangGate(holds, gang_objects)
        usage = decayed_usage(ledger, quotas.usage_half_life, quotas.usage_period)
        self.usage = UsageKeeper(context, effects, usage)
        backoffs, order = queue_config or SchedulingQueueConfig(), FairShareOrder(ledger, usage)
        queue = self.queue = SchedulingQueue(backoffs, gate, order, JobShares(cluster), nominator)
        # Pods.
        book = self.reservations = make_book(context, queue, ledger)
        kept_rows = KeptRows(table, domains, book, planned_room)
        cycle = self.cycle = SchedulingCycle(context, nominator, policy, kept_rows)
        release = NodeRelease(context, queue, cycle, policy, nominator, links)
        entities = GangEntityIndex(queue, registry, holds)
        of_gangs = registry, gang_config, quota, release, entities, holds, gang_objects
        gangs = self._gangs = GangManager(context, *of_gangs)
        requeuer = PodRequeuer(queue, registry, entities, gangs)
        to_bind = queue, effects, release, requeuer, gangs
        binding_cycle = self._binding_cycle = BindingCycle(context, *to_bind)
        shared = context, queue, nominator, policy, ledger, effects, release
        preemption = self._preemption = PreemptionExecutor(
            *shared, binding_cycle, requeuer, protection, gangs
        )
        self._extender_calls = ExtenderCoordinator(
            context, queue, cycle, effects, parallel_extender_calls
        )
        # Gangs.
        gang_cycle = GangSchedulingCycle(
            cluster, cycle, nominator, holds, PlacementSearcher(cluster, cycle, nominator)
        )
        in_steps = cluster, cycle, gang_cycle, nominator, holds, planned_room, policy, links
        attempts, plans = attempts_and_plans(*in_steps)
        satisfiability = Satisfiability(cluster, ledger)
        search = RoomSearch(cluster, cycle, gang_cycle, nominator, holds, limits.limit_of, book)
        planning = context, queue, planned_room, entities, search, gang_config, gang_objects
        scheduler = self._gang_scheduler = GangScheduler(
            context,
            queue,
            attempts,
            gang_cycle,
            entities,
            holds,
            gangs,
            binding_cycle,
            GangPreemptionExecutor(context, nominator, plans, preemption, policy),
            start_planner(*planning),
            gang_objects,
            GangNotifier(context, queue, gate, entities, holds, preemption),
            satisfiability,
            quota,
            policy,
        )
        # What drives them.
        waiting = self._waiting_pods = WaitingPods(context, queue, binding_cycle, scheduler)
        self._quota_timers = QuotaTimers(
            context, queue, registry, protection, quota, release, DeservedReclaim(ledger)
        )
        self._scheduler = EntityScheduler(
            context,
            queue,
            cycle,
            nominator,
            policy,
            binding_cycle,
            preemption,
            self._extender_calls,
            scheduler,
            satisfiability,
            ledger.queue_name,
            perf_counter,
        )
        to_end = limits, effects, nominator.terminating_victims, gangs
        run_times = self._run_times = RunTimeEnforcer(context, frozenset(schedulers), *to_end)
        #: What waits for a time or an event, in the order in which it is looked at.
        parts = queue, self._quota_timers, book, scheduler, binding_cycle, waiting, run_times
        self._timed_parts = *parts, self.usage
        # What the watches deliver.
        initial = InitialObjects()
        priorities = EffectivePriorities(context, nominator, registry, ledger)
        tenants = TenantHandlers(context, queue, ledger, quota, priorities)
        gang_handlers = GangHandlers(
            initial, context, queue, registry, ledger, priorities, quota, scheduler, gang_objects
        )
        self._workload_index = WorkloadIndex(workload_kinds)
        workloads = WorkloadGangs(initial, context, registry, self._workload_index)
        pod_handlers = PodHandlers(
            initial,
            context,
            {profile.scheduler_name: profile for profile in profiles},
            queue,
            registry,
            ledger,
            nominator,
            release,
            requeuer,
            binding_cycle,
            preemption,
            gang_objects,
            HoldRecovery(context, ledger, holds, gang_objects, gangs, cycle),
            gang_handlers,
            workloads,
            priorities,
            tenants,
            planned_room.timeline.run_times.history,
            run_times,
        )
        self.workload_handlers = WorkloadHandlers(workloads, gang_handlers, pod_handlers)
        rollback = Rollback(context, queue, cycle, release, nominator, requeuer, gangs)
        notes = FaultNotes(quarantine or Quarantine(), context, frozenset(schedulers))
        kinds: WatchedKinds = {}
        objects = KnownObjects(kinds, cluster, registry, ledger)
        trials = ObjectTrials(notes, objects, table, rollback.hurry)
        books = context, pod_handlers, ledger, nominator, rollback
        self.barrier = Barrier(notes, trials, *books, dict(left_out or {}), self._perf_counter)
        self.handlers = EventHandlers(
            initial,
            context,
            queue,
            release,
            ledger,
            nominator,
            preemption,
            self._gang_scheduler,
            gang_objects,
            gang_handlers,
            self.barrier,
            tenants,
            pod_handlers,
            kinds,
        )
        self.owner_handlers = OwnerHandlers(context, owners, ledger, queue)

    # --- deciding --------------------------------------------------------------------------

    def run(self, now: float, *, limit: int = 256, seconds: float = math.inf) -> list[Effect]:
        """Try at most ``limit`` pods, or one gang; returns what is to be done.

        None is begun after so many ``seconds``; with such a limit a gang goes on in another call.
        Call again while :attr:`ready`, and at :meth:`next_timer` at the latest.
        """
        barrier, pop, timed = self.barrier, self.queue.pop, seconds < math.inf
        ends = self._perf_counter() + seconds if timed else math.inf
        self._context.clock.advance(now)
        if barrier.books.is_due(now):
            barrier.books.check(self.check_consistent, now)
        self.handlers.start(now)
        barrier.advance(now)
        barrier.run(now, partial(self.ledger.refresh, self.cluster))
        barrier.run(now, partial(self._on_extender_results, now))
        for part in self._timed_parts:
            barrier.run(now, partial(part.advance, now))
        process_changes = partial(self._gang_scheduler.process_changes, now)
        schedule_one = partial(self._scheduler.schedule_one, in_steps=ends < math.inf)
        while limit > 0:
            barrier.run(now, process_changes)
            entity = barrier.run(now, pop)
            if entity is None:
                break
            limit -= len(entity.members)
            barrier.attempt(entity, now, partial(schedule_one, entity, now))
            if timed and self._perf_counter() >= ends:
                break
        barrier.run(now, partial(self._gang_scheduler.bind_ready, now))
        barrier.run(now, partial(self._extender_calls.start_waiting, now))
        barrier.run(now, partial(self.usage.look, now))
        self._context.outbox.extend(self.cluster.devices.claim_tracker.take_effects())
        return self._context.take_outbox()

    def _on_extender_results(self, now: float) -> None:
        for call in self._extender_calls.advance(now):
            step = partial(self._scheduler.on_extender_result, call, now)
            self.barrier.attempt(call.entity, now, step)

    @property
    def ready(self) -> bool:
        """Whether :meth:`run` has something to do now."""
        parts = (self._waiting_pods, self._binding_cycle, self._extender_calls, self.queue)
        if not self.handlers.started:
            return True
        return any(part.ready for part in parts) or bool(self._context.outbox)

    def next_timer(self) -> float | None:
        """When something will be due without any event."""
        parts = (*self._timed_parts, self._extender_calls)
        times = [self.barrier.next_due(), *(part.next_timer() for part in parts)]
        return min((due for due in times if due is not None), default=None)

    def take_stats(self) -> Stats:
        """The statistics since the last call."""
        return self._context.take_stats()

    # --- outcomes --------------------------------------------------------------------------

    def on_outcome(self, effect: Effect, outcome: Outcome, now: float) -> None:
        """What became of an effect; ``Ambiguous`` will be followed by a definite outcome."""
        try:
            self._on_outcome(effect, outcome, now)
        except Exception as error:
            self.barrier.on_outcome_fault(effect, outcome, error, now)
        self.barrier.run(now, partial(self._gang_scheduler.process_changes, now))

    def _on_outcome(self, effect: Effect, outcome: Outcome, now: float) -> None:
        if isinstance(effect, ReserveClaim | ReleaseClaim):
            claims = self.cluster.devices.claim_tracker
            if claims.on_outcome(effect, outcome):
                self.queue.wake(ClusterEvent(ActionType.OTHER, resource="ResourceClaim"), now)
            self._context.outbox.extend(claims.take_effects())
        self._effects.on_outcome(effect, outcome, now)

    def awaits(self, effect: Effect) -> bool:
        """Whether something waits for the outcome of ``effect``."""
        return isinstance(effect, ReserveClaim | ReleaseClaim) or self._effects.awaits(effect)

    # --- for people and tests --------------------------------------------------------------

    def pods(self) -> list[QueuedPod]:
        """Every pod of ours that is not bound or gone."""
        return list(self._context.pods.values())

    def summary(self) -> dict[str, int]:
        """How much of everything the core holds."""
        named: dict[str, Sized] = {"gangs": self.registry.gangs, "queues": self.ledger.queues}
        named["nominations"] = self._nominator
        return summarize(self._context, named, self.queue.count())

    def check_consistent(self) -> None:
        """Check every invariant of the core.

        Raises:
            AssertionError: one is broken.
        """
        self.cluster.check_consistent()
        self.ledger.check_consistent(self.cluster)
        parts = self.queue, self._binding_cycle, self._extender_calls, self._gangs, self._nominator
        for part in (*parts, self._workload_index, self.planned_room):
            part.check_consistent()
        senders = self._binding_cycle, self._preemption, self._extender_calls, self._gang_objects
        self._effects.check_consistent((*senders, self._run_times, self.usage))
        check_pods(self._context, self.queue, self._nominator, self._gangs.is_held)
