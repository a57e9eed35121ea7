"""Keeps room for gangs that waited too long; see :mod:`~arranger.engine.pod.node_reservation`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from arranger.engine.context import EngineContext
from arranger.engine.entity import QueuedEntity, QueueState
from arranger.engine.pod.node_reservation import RESERVATION, NodeReservation, last_pod_end
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


class StarvationGuard:
    """Gives the reservation to the first gang that has waited for room ``after`` seconds."""

    def __init__(self, desk: EngineContext, after: float) -> None:
        self._desk = desk
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
        kept, rank = self._desk.cycle.reservation, self._desk.queue.sort_key(entity)
        if kept is None or kept.key == entity.key or rank < kept.rank:
            self._desk.cycle.reservation = None  # it is this group's turn now, or nobody's
            nodes = nodes_needed()
            if not nodes:
                entity.reserve_retry_at = now + RETRY_INTERVAL
                self._desk.cycle.reservation = kept
                if kept is not None and kept.key == entity.key:
                    self._release(now)
                return
            ends = last_pod_end(self._desk.cluster, nodes)
            self._desk.cycle.reservation = NodeReservation(
                entity.key,
                rank,
                messages.display_name(entity.group),
                entity.representative.pod.priority,
                nodes,
                None if ends is None else ends - self._desk.to_unix_time(now) + now,
            )

    def release_if_idle(self, entities: Mapping[str, QueuedEntity], now: float) -> None:
        """Drop the reservation when its group waits for room no more."""
        kept = self._desk.cycle.reservation
        if kept is None:
            return
        entity = entities.get(kept.key.removeprefix("gang:"))
        if entity is not None and entity.starving_since is not None and entity.state in _WAITING:
            return
        self._release(now)

    def _release(self, now: float) -> None:
        self._desk.cycle.reservation = None
        self._desk.publish_event(ClusterEvent(ActionType.OTHER, resource=RESERVATION), now)
