"""Tells the members of gang groups why they wait, when a notice is due."""

from __future__ import annotations

from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.entity import QueuedEntity, QueueState
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.gate import GangGate
from arranger.engine.gang.holds import GangHolds
from arranger.engine.gang.notices import GangNotices
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.gangs import messages


class GangNotifier:
    """Writes the condition of the members of groups whose notice is due.

    Args:
        preemption: clears the nominations of members of incomplete groups.
    """

    def __init__(
        self,
        context: EngineContext,
        queue: SchedulingQueue,
        gate: GangGate,
        entities: GangEntityIndex,
        holds: GangHolds,
        notices: GangNotices,
        preemption: PreemptionExecutor,
    ) -> None:
        self._context = context
        self._queue = queue
        self._gate = gate
        self._entities = entities
        self._holds = holds
        self._notices = notices
        self._preemption = preemption

    def next_timer(self) -> float | None:
        """When :meth:`notify_due` will have something to do."""
        return self._notices.next_deadline()

    def notify_due(self, now: float) -> None:
        """Tell the members of the groups whose notices are due."""
        for key in self._notices.pop_due(now):
            entity = self._entities.by_key(key)
            if entity is not None:
                self._notify(entity, now)

    def _notify(self, entity: QueuedEntity, now: float) -> None:
        held = self._holds.waiting_members(entity)
        only_held = not entity.members and bool(held) and self._holds.lacks_members(entity)
        if not only_held and entity.key not in self._queue:
            return
        if only_held or entity.state is QueueState.GATED:
            if now < entity.notify_after and self._holds.lacks_members(entity):
                self._notices.schedule(entity, entity.notify_after)  # members still arrive
                return
            entity.reason = self._gated_reason(entity)
            for member in entity.members.values():
                # It may take long until the group is complete; others can use the node.
                self._preemption.clear_nomination(member, now)
        if entity.reason and entity.state is not QueueState.ACTIVE:
            entity.notified_at = now
            for member in (*entity.ready(), *held):
                self._context.outbox.extend(
                    pod_events.scheduling_failed(member, pod_events.UNSCHEDULABLE, entity.reason)
                )

    def _gated_reason(self, entity: QueuedEntity) -> str:
        """The reason, with the members counted, which the gate does not do at every arrival."""
        status, group = self._gate.missing_requirement(entity), entity.gang_group
        if status is not None and not group.missing_partners and self._holds.lacks_members(entity):
            arrived = messages.arrival_summary(group, self._holds.arrived_counts(entity))
            return f"{status.message()}: {arrived}"
        return entity.reason
