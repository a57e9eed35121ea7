"""Tells the members of gang groups why they wait, not more often than it is worth."""

from __future__ import annotations

from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.deadlines import DeadlineSet
from arranger.engine.entity import QueuedEntity, QueueState
from arranger.engine.gang.gate import GangGate
from arranger.engine.gang.manager import GangManager
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.gangs import messages


class GangNotifier:
    """Writes the reason why a group waits to its members, when a notice is due.

    Args:
        notices: the keys of entities whose members are to be told, filled by the manager.
        preemption: takes back what members of incomplete groups have been promised.
    """

    def __init__(
        self,
        context: EngineContext,
        queue: SchedulingQueue,
        gate: GangGate,
        manager: GangManager,
        notices: DeadlineSet,
        preemption: PreemptionExecutor,
    ) -> None:
        self._context = context
        self._queue = queue
        self._gate = gate
        self._manager = manager
        self._notices = notices
        self._preemption = preemption

    def next_timer(self) -> float | None:
        """When :meth:`notify_due` will have something to do."""
        return self._notices.next_deadline()

    def notify_due(self, now: float) -> None:
        """Tell the members of the groups whose notices are due."""
        for key in self._notices.pop_due(now):
            entity = self._manager.entity(key)
            if entity is None:
                continue
            held = self._manager.held_members(entity)
            left_alone = not entity.members and bool(held)
            left_alone = left_alone and self._gate.lacks_members(entity)
            if not left_alone and entity.key not in self._queue:
                continue
            if left_alone or entity.state is QueueState.GATED:
                if now < entity.notify_after and self._gate.lacks_members(entity):
                    self._manager.schedule_notice(
                        entity, entity.notify_after
                    )  # members are still arriving
                    continue
                entity.reason = self._gated_reason(entity)
                for member in entity.members.values():
                    # Who knows when it is complete again; others can use what it was promised.
                    self._preemption.clear_nomination(member, now)
            if entity.reason and entity.state is not QueueState.ACTIVE:
                entity.notified_at = now
                for member in (*entity.ready(), *held):
                    self._context.outbox.extend(
                        pod_events.scheduling_failed(
                            member, pod_events.UNSCHEDULABLE, entity.reason
                        )
                    )

    def _gated_reason(self, entity: QueuedEntity) -> str:
        """The reason with the members counted, which is too much work for every arrival."""
        group, refused = entity.gang_group, self._gate.missing_requirement(entity)
        if refused is not None and not group.missing_partners and self._gate.lacks_members(entity):
            arrived = messages.arrival_summary(group, self._gate.arrived_counts(entity))
            return f"{refused.message()}: {arrived}"
        return entity.reason
