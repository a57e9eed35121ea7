"""The scheduler's core: events in, effects out.

The engine never awaits, opens nothing and reads no clock: whoever drives it passes ``now`` (any
clock that only goes forward, in seconds), carries effects out, and reports their outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Sized
from functools import partial

from arranger.api.effects import (
    Effect,
    Outcome,
    PatchPodStatus,
    Refused,
    ReleaseClaim,
    ReserveClaim,
)
from arranger.engine.assembly.drivers import make_drivers
from arranger.engine.assembly.gangs import make_gang_scheduler
from arranger.engine.assembly.inputs import make_inputs
from arranger.engine.assembly.pods import make_pod_parts
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.assembly.state import make_state
from arranger.engine.context.engine_context import Stats
from arranger.engine.context.entity import QueuedPod
from arranger.engine.faults.invariants import check_pods, summarize
from arranger.framework.cluster_event import ActionType, ClusterEvent


class Engine:
    """Decides where pods go.

    Attributes:
        barrier: keeps what an object makes our code raise from all others.
        handlers, owner_handlers, workload_handlers: take in events, those of owners and of gangs.
        cluster, queue, registry, ledger, usage, policy: placed pods, others, gangs, use, evictions.
        holds: the nodes that incomplete gangs hold.
        cycle, reservations, planned_room: what nodes say of a pod, and who keeps them from whom.
        limits: how long pods may run.
    """

    def __init__(self, settings: EngineSettings) -> None:
        """Make the parts, each from those before it."""
        self._perf_counter = settings.time_spent
        state = make_state(settings)
        pods = make_pod_parts(state, settings)
        gangs = make_gang_scheduler(state, pods, settings)
        drivers = make_drivers(state, pods, gangs, settings)
        inputs = make_inputs(state, pods, gangs, drivers, settings)
        # What it knows.
        self.cluster, self.queue, self.registry = state.cluster, state.queue, state.registry
        self.ledger, self.usage, self.policy = state.ledger, state.usage, state.policy
        self.reservations, self.planned_room = state.reservations, state.planned_room
        self.limits, self.holds = state.limits, state.holds
        self._context, self._effects = state.context, state.effects
        self._nominator, self._gang_objects = state.nominator, state.gang_objects
        # What decides and carries out.
        self.cycle, self._gangs = pods.cycle, pods.gangs
        self._binding_cycle, self._preemption = pods.binding_cycle, pods.preemption
        self._extender_calls, self._gang_scheduler = pods.extender_calls, gangs
        self._scheduler, self._waiting_pods = drivers.scheduler, drivers.waiting_pods
        self._run_times, self._evictions = drivers.run_times, drivers.evictions
        #: What waits for a time or an event, in the order in which it is looked at.
        self._timed_parts = (
            state.queue,
            drivers.quota_timers,
            state.reservations,
            gangs,
            pods.binding_cycle,
            drivers.waiting_pods,
            pods.preemption,
            drivers.run_times,
            drivers.evictions,
            state.usage,
        )
        # What takes in events.
        self.barrier, self.handlers = inputs.barrier, inputs.handlers
        self.owner_handlers = inputs.owner_handlers
        self.workload_handlers = inputs.workload_handlers
        self._workload_index = state.workloads
        #: What is to be done about many pods after one event, in the order in which it is done.
        self._sliced_parts = (
            self.workload_handlers,
            inputs.owned_pods,
            drivers.recharging,
            inputs.priorities,
        )

    # --- deciding --------------------------------------------------------------------------

    def run(self, now: float, *, limit: int = 256, seconds: float = math.inf) -> list[Effect]:
        """Try at most ``limit`` pods, or one gang; returns what is to be done.

        None is begun after so many ``seconds``; with such a limit a gang goes on in another call.
        Call again while :attr:`ready`, and at :meth:`next_timer` at the latest.
        """
        barrier, pop, timed = self.barrier, self.queue.pop, seconds < math.inf
        ends = self._perf_counter() + seconds if timed else math.inf
        self._context.clock.advance(now)
        self.handlers.start(now)
        barrier.advance(now)
        for later in self._sliced_parts:
            barrier.run(now, partial(later.advance, now))
        if barrier.books.is_due(now):
            barrier.books.check(self.check_consistent, now)
        barrier.run(now, partial(self._on_extender_results, now, in_steps=timed))
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

    def finish(self, now: float) -> list[Effect]:
        """What has been decided and not been said, a step of it; nothing more is decided.

        So that who stops, and calls this until it is empty, leaves no gang half begun.
        """
        self._context.clock.advance(now)
        self.barrier.run(now, partial(self._binding_cycle.begin_more, now))
        return self._context.take_outbox()

    def _on_extender_results(self, now: float, *, in_steps: bool) -> None:
        for call in self._extender_calls.advance(now):
            step = partial(self._scheduler.on_extender_result, call, now, in_steps=in_steps)
            self.barrier.attempt(call.entity, now, step)

    @property
    def ready(self) -> bool:
        """Whether :meth:`run` has something to do now."""
        parts = (self._waiting_pods, self._binding_cycle, self._extender_calls, self.queue)
        if not self.handlers.started:
            return True
        more = any(part.ready for part in (*parts, *self._sliced_parts)) or self._preemption.ready
        return more or self._gang_scheduler.ready or bool(self._context.outbox)

    def next_timer(self) -> float | None:
        """When something will be due without any event."""
        parts = (*self._timed_parts, self._extender_calls)
        times = [self.barrier.next_due(), *(part.next_timer() for part in parts)]
        return min((due for due in times if due is not None), default=None)

    def next_deadline(self) -> float | None:
        """When somebody has waited or run for too long, or kept nodes change; no housekeeping."""
        times = (
            self._waiting_pods.next_timer(),
            self._run_times.next_timer(),
            self._gang_scheduler.next_deadline(),
            self.reservations.next_edge(),
        )
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
        if isinstance(effect, PatchPodStatus) and isinstance(outcome, Refused):
            member = self._context.pods.get(effect.pod.uid)
            if member is not None:
                member.status_refused = True  # it is written again when the pod is tried again
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
        if not any(part.ready for part in self._sliced_parts):  # else charges are not current
            self.ledger.check_consistent(self.cluster)
        parts = self.queue, self._binding_cycle, self._extender_calls, self._gangs, self._nominator
        kept = self.planned_room, self.reservations.room
        for part in (*parts, self._preemption, self._workload_index, *kept):
            part.check_consistent()
        senders = self._binding_cycle, self._preemption, self._extender_calls, self._gang_objects
        self._effects.check_consistent(
            (
                *(*senders, self._run_times, self._evictions),
                *(self.usage, self.reservations.statuses),
            )
        )
        check_pods(self._context, self.queue, self._nominator, self._gangs.is_held)
