"""Keeps room for gangs that waited too long; see :mod:`~arranger.engine.pod.node_reservation`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from arranger.engine.context import EngineContext
from arranger.engine.entity import QueuedEntity, QueueState
from arranger.engine.pod.node_reservation import (
    RESERVATION,
    NodeReservation,
    NodeReservations,
    last_pod_end,
)
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.gangs import messages

#: Seconds until nodes are looked for again for a group that none would have helped.
RETRY_INTERVAL: Final = 60.0
_WAITING = (
    QueueState.UNSCHEDULABLE,
    QueueState.ACTIVE,
    QueueState.BACKOFF,
    QueueState.WAITING_FOR_EXTENDERS,
)


class GangEntities(Protocol):
    """Knows the entities of gang groups."""

    def by_key(self, key: str) -> QueuedEntity | None:
        """The entity of that key."""
        ...


class StarvationGuard:
    """Gives the reservation to the first gang that has waited for room ``after`` seconds."""

    def __init__(
        self,
        context: EngineContext,
        queue: SchedulingQueue,
        reservations: NodeReservations,
        entities: GangEntities,
        after: float,
    ) -> None:
        self._context = context
        self._queue = queue
        self._reservations = reservations
        self._entities = entities
        self._after = after

    def on_unschedulable(
        self, entity: QueuedEntity, now: float, nodes_needed: Callable[[], frozenset[str]]
    ) -> None:
        """A complete group has found no room; ``nodes_needed`` names the nodes it would need.

        Nothing is kept for a group that ``nodes_needed`` has no nodes for.
        """
        if entity.starving_since is None:
            entity.starving_since = now
        if now - entity.starving_since < self._after or entity.group is None:
            return
        if now < entity.reserve_retry_at:
            return
        kept, rank = self._reservations.current, self._queue.sort_key(entity)
        if kept is None or kept.key == entity.key or rank < kept.rank:
            self._reservations.drop()  # it is this group's turn now, or nobody's
            nodes = nodes_needed()
            if not nodes:
                entity.reserve_retry_at = now + RETRY_INTERVAL
                self._reservations.keep(kept)
                if kept is not None and kept.key == entity.key:
                    self._release(now)
                return
            ends = last_pod_end(self._context.cluster, nodes)
            self._reservations.keep(
                NodeReservation(
                    entity.key,
                    rank,
                    messages.display_name(entity.group),
                    entity.representative.pod.priority,
                    nodes,
                    None if ends is None else self._context.clock.from_unix_time(ends, now),
                )
            )

    def release_if_idle(self, now: float) -> None:
        """Drop the reservation when its group waits for room no more."""
        kept = self._reservations.current
        if kept is None:
            return
        entity = self._entities.by_key(kept.key)
        if entity is not None and entity.starving_since is not None and entity.state in _WAITING:
            return
        self._release(now)

    def _release(self, now: float) -> None:
        self._reservations.drop()
        self._queue.wake(ClusterEvent(ActionType.OTHER, resource=RESERVATION), now)
