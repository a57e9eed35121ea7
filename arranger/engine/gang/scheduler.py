"""Attempts to place gang groups, and what follows from each."""

from __future__ import annotations

from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.attempt_status import GangAttemptStatus
from arranger.engine.gang.gate import GangGate
from arranger.engine.gang.manager import GangManager
from arranger.engine.gang.notifier import GangNotifier
from arranger.engine.gang.preemption import GangPreemptionExecutor
from arranger.engine.gang.scheduling_cycle import GangScheduleResult, GangSchedulingCycle
from arranger.engine.gang.starvation import StarvationGuard
from arranger.engine.phases import Phase
from arranger.engine.pod.binding_cycle import BindingCycle
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.gangs import messages


class GangScheduler:
    """Places gang groups, and starts the bindings of those that are complete."""

    def __init__(
        self,
        context: EngineContext,
        queue: SchedulingQueue,
        cycle: GangSchedulingCycle,
        gate: GangGate,
        manager: GangManager,
        binding_cycle: BindingCycle,
        preemption: GangPreemptionExecutor,
        starvation_guard: StarvationGuard,
        attempt_status: GangAttemptStatus,
        notifier: GangNotifier,
    ) -> None:
        self._context = context
        self._queue = queue
        self._cycle = cycle
        self._gate = gate
        self._manager = manager
        self._binding_cycle = binding_cycle
        self._preemption = preemption
        self._starvation_guard = starvation_guard
        self._attempt_status = attempt_status
        self._notifier = notifier

    def schedule(self, entity: QueuedEntity, now: float) -> None:
        """Try to place the group; everything that follows from the answer is done here."""
        manager, group = self._manager, entity.gang_group
        hold = manager.hold(entity)
        if hold is not None and manager.requeue_lost(hold, now):
            return
        held = list(hold.members.values()) if hold else []
        self._attempt_status.record_attempt(group, now)
        decision = self._cycle.schedule(entity, held)
        for member, _ in decision.placed:
            entity.remove_member(member)
            member.transition(Phase.RESERVED)
            member.attempts = entity.attempts
            self._context.record_attempt(member, "scheduled")
        waits = any(permit for _, permit in decision.placed)
        waits = waits or any(m.uid in self._context.waiting_pods for m in held)
        if decision.complete and not waits:
            manager.bind_all([*held, *(member for member, _ in decision.placed)], hold)
        elif decision.placed:
            manager.hold_placed(entity, decision.placed, now)
        elif not decision.complete and manager.is_urgent(group):
            manager.get_or_create_hold(entity, now)  # nothing to keep but the time
        self.bind_ready(now)
        if decision.complete:
            entity.starving_since = None
        if decision.error:
            self._on_error(entity, decision, now)
        elif entity.key in self._queue:
            pass  # a Binding could not even begin, and its pod is to be tried again in its own way
        elif entity.ready_count():
            self._on_infeasible(entity, decision, now)
        else:
            entity.reason = ""
            entity.attempts = 0
            if entity.members:
                manager.enqueue(entity, now)  # PreEnqueue holds the rest back
        self._starvation_guard.release_if_idle(now)

    def bind_ready(self, now: float) -> None:
        """Start the bindings of groups that have become complete."""
        while ready := self._manager.take_ready_to_bind():
            for member in ready:
                self._binding_cycle.begin(member, now)

    def process_changes(self, now: float) -> None:
        """Do what follows for gangs of which pods are being evicted, or could not be."""
        self._manager.process_changes(now)
        self.bind_ready(now)

    def on_permitted(self, member: QueuedPod, now: float) -> bool:
        """A Permit plugin lets a member go; True if its group keeps it until it is complete."""
        held = self._manager.on_permitted(member, now)
        self.bind_ready(now)
        return held

    def advance(self, now: float) -> None:
        """End the holds whose time is over, and tell the members that are to be told."""
        self._manager.advance(now)
        self._starvation_guard.release_if_idle(now)
        self._notifier.notify_due(now)
        self._attempt_status.write_due(now)

    def next_timer(self) -> float | None:
        """When :meth:`advance` will have something to do."""
        parts = (self._manager, self._notifier, self._attempt_status)
        times = [part.next_timer() for part in parts]
        return min((due for due in times if due is not None), default=None)

    # --- inside ----------------------------------------------------------------------------

    def _on_error(self, entity: QueuedEntity, decision: GangScheduleResult, now: float) -> None:
        assert decision.blocker is not None, "something broke while no member was tried"
        title = messages.display_name(entity.gang_group)
        text = f"{decision.error} ({title}, pod {decision.blocker.pod.key})"
        self._context.record_attempt(decision.blocker, "error")
        for member in entity.members.values():
            self._context.outbox.extend(
                pod_events.scheduling_failed(member, pod_events.SCHEDULER_ERROR, text)
            )
        self._queue.requeue_with_backoff(entity, now)

    def _on_infeasible(
        self, entity: QueuedEntity, decision: GangScheduleResult, now: float
    ) -> None:
        for member in entity.ready():
            self._context.record_attempt(member, "unschedulable")
        if decision.blocker is not None and not decision.complete:
            self._context.outbox.extend(pod_events.plugin_events(decision.blocker, decision.events))
            if decision.infeasible is not None:
                self._cycle.run_post_filter(decision.blocker, decision.infeasible)
        entity.blockers = decision.blockers
        entity.reason = self._explain(entity, decision)
        hold = self._manager.hold(entity)
        held = list(hold.members.values()) if hold is not None else []
        if not decision.complete:
            self._starvation_guard.on_unschedulable(
                entity, now, lambda: self._cycle.nodes_needed(entity, held)
            )
        self._queue.add_unschedulable(entity, decision.rejected_by, now)
        if not decision.complete:
            self._preemption.preempt_for(entity, held, now)
        self._manager.schedule_notice(entity, now)
        self._notifier.notify_due(now)

    def _explain(self, entity: QueuedEntity, decision: GangScheduleResult) -> str:
        group = entity.gang_group
        text = messages.display_name(group)
        if decision.complete:
            text += ": placed, with no room for the members beyond its minimum"
        else:
            text += (
                f": {messages.arrival_summary(group, self._gate.arrived_counts(entity))}, "
                f"{decision.placeable} placeable now"
            )
        if decision.blocker is not None and not decision.complete:
            text += f", blocked by pod {decision.blocker.pod.key}"
        return f"{decision.message} {text}.".lstrip()
