"""Tells the members of gang groups why they wait, when a notice is due."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.gate import GangGate
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.gangs import messages

#: Members that are told at once; the others in the next step.
MOST_TOLD: Final = 1000
#: A group takes as long as so many members.
GROUP: Final = 20


@dataclass(frozen=True, slots=True)
class GangNotifier:
    """Writes the condition of the members of groups whose notice is due.

    Args:
        preemption: clears the nominations of members of incomplete groups.
    """

    _context: EngineContext
    _queue: SchedulingQueue
    _gate: GangGate
    _entities: GangEntityIndex
    _holds: GangHolds
    _preemption: PreemptionExecutor
    #: Groups, what their members are told, and those members who have not been told yet.
    _untold: deque[tuple[QueuedEntity, str, deque[QueuedPod]]] = field(
        default_factory=deque, init=False
    )

    def notify_due(self, now: float) -> None:
        """Tell the members of the groups whose notices are due, as many as are told at once."""
        left = self._tell(MOST_TOLD)
        while left > 0 and (entity := self._entities.pop_due_notice(now)) is not None:
            self._notify(entity, now)
            left = self._tell(left - GROUP)

    def next_timer(self) -> float | None:
        """When the next are to be told, of those who were too many."""
        return self._context.clock.now if self._untold else None

    def _tell(self, most: int) -> int:
        """Tell up to so many of those who are to be told; returns how many more could be."""
        untold = self._untold
        while untold and most > 0:
            entity, reason, members = untold[0]
            while members and most > 0:
                member, most = members.popleft(), most - 1
                if not _waits(member, entity):
                    continue
                # Who goes on waiting with a node shows which; who binds at once needs no write.
                new = None if member.node in ("", member.shown_node) else member.node
                self._context.outbox.extend(
                    pod_events.scheduling_failed(member, pod_events.UNSCHEDULABLE, reason, new)
                )
            if not members:
                untold.popleft()
        return most

    def _notify(self, entity: QueuedEntity, now: float) -> None:
        held = self._holds.waiting_members(entity)
        only_held = not entity.members and bool(held) and self._holds.lacks_members(entity)
        if not only_held and entity.key not in self._queue:
            return
        if only_held or entity.state is QueueState.GATED:
            if now < entity.notify_after and self._holds.lacks_members(entity):
                self._entities.notify(entity, entity.notify_after)  # members still arrive
                return
            entity.reason = self._gated_reason(entity)
            # It may take long until the group is complete; others can use the nodes.
            self._preemption.clear_nominations(entity.members.values(), now)
        if entity.reason and entity.state is not QueueState.ACTIVE:
            entity.notified_at = now
            for gang in entity.gang_group.gangs:
                effects = pod_events.gang_unschedulable(gang, entity.reason)
                self._context.outbox.extend(effects)
            self._untold.append((entity, entity.reason, deque([*entity.ready(), *held])))

    def _gated_reason(self, entity: QueuedEntity) -> str:
        """The reason, with the members counted, which the gate does not do at every arrival."""
        status, group = self._gate.missing_requirement(entity), entity.gang_group
        if status is not None and not group.missing_partners and self._holds.lacks_members(entity):
            arrived = messages.arrival_summary(group, self._holds.arrived_counts(entity))
            return f"{status.message()}: {arrived}"
        return entity.reason


def _waits(member: QueuedPod, entity: QueuedEntity) -> bool:
    """Whether a member of a group still waits, with a node or without."""
    return member.phase is Phase.WAITING or (
        member.phase is Phase.QUEUED and member.entity is entity
    )
