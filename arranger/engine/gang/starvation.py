"""Reserves nodes for a gang that has waited too long to fit.

What a reservation does is told in :mod:`arranger.engine.pod.node_reservation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from arranger.engine.context import EngineContext
from arranger.engine.entity import RESERVATION, QueuedEntity, QueueState
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.reservation_budget import ReservationBudget
from arranger.engine.gang.scheduling_cycle import GangSchedulingCycle
from arranger.engine.pod.node_reservation import NodeReservation, NodeReservations, last_pod_end
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.cluster_event import ActionType, ClusterEvent

#: Seconds until nodes are looked for again for a group that would not have fitted on empty ones.
RETRY_INTERVAL: Final = 60.0


@dataclass(frozen=True, slots=True)
class StarvationGuard:
    """Gives the reservation to the first group that has not fitted for ``_after`` seconds.

    As long and as far as the budget allows it.
    """

    _context: EngineContext
    _queue: SchedulingQueue
    _reservations: NodeReservations
    _entities: GangEntityIndex
    _cycle: GangSchedulingCycle
    _after: float
    _budget: ReservationBudget

    def on_unschedulable(self, entity: QueuedEntity, now: float) -> None:
        """A complete group does not fit; nothing is reserved if it would not fit on empty nodes."""
        if entity.starving_since is None:
            entity.starving_since = now
        entity.starves_at = entity.starving_since + self._after
        if now < entity.starves_at or entity.group is None:
            return
        if now < entity.reserve_retry_at:
            return
        current, rank = self._reservations.current, self._queue.sort_key(entity)
        namespaces = frozenset(entity.group.namespaces)
        if current is None or current.key != entity.key:
            if current is not None and rank >= current.rank:
                return
            if not self._budget.allows(namespaces, now):
                return
        self._reservations.drop()  # the nodes are looked for as if none were reserved
        nodes = self._cycle.nodes_needed(entity)
        if nodes and len(nodes) <= self._budget.max_nodes(self._context.cluster.table.count):
            name, priority = entity.group.display_name, entity.representative.pod.priority
            ends = last_pod_end(self._context.cluster, nodes)
            free_at = None if ends is None else self._free_at(ends, now)
            reservation = NodeReservation(
                entity.key, rank, name, namespaces, priority, nodes, free_at
            )
            self._reservations.keep(reservation)
            self._budget.begin(now)
            if current is not None and current != reservation:
                self._wake_excluded(now)
            return
        entity.reserve_retry_at = now + RETRY_INTERVAL
        self._reservations.keep(current)
        if current is not None and current.key == entity.key:
            self._release(now)

    def on_placed(self, entity: QueuedEntity, now: float) -> None:
        """A group has got its place: it starves no more."""
        entity.starving_since = None
        current = self._reservations.current
        if current is not None and current.key == entity.key:
            self._budget.on_started(current.namespaces)
            self._release(now)

    def next_timer(self) -> float | None:
        """When nodes that are kept are given back."""
        return None if self._reservations.current is None else self._budget.ends_at()

    def release_if_idle(self, now: float) -> None:
        """Drop the reservation when its group waits to fit no more, or its time is over."""
        current = self._reservations.current
        if current is None:
            return
        ends = self._budget.ends_at()
        if ends is not None and ends <= now:
            self._release(now)
            return
        entity = self._entities.by_key(current.key)
        idle = (QueueState.GATED, QueueState.NOT_QUEUED)
        if entity is None or entity.starving_since is None or entity.state in idle:
            self._release(now)

    def _free_at(self, ends: float, now: float) -> float:
        """In the engine's clock, to the millisecond: what its rounding changes is no change."""
        return round(self._context.clock.from_unix_time(ends, now), 3)

    def _release(self, now: float) -> None:
        current = self._reservations.current
        if current is not None:
            self._budget.on_ended_in_vain(current.namespaces, now)
        self._reservations.drop()
        self._wake_excluded(now)

    def _wake_excluded(self, now: float) -> None:
        self._queue.wake(ClusterEvent(ActionType.OTHER, resource=RESERVATION), now)
