"""Keeps room for gangs that waited too long; see :mod:`~arranger.engine.pod.node_reservation`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from arranger.engine.context import Desk
from arranger.engine.entity import Entity, Part
from arranger.engine.pod.node_reservation import RESERVATION, Reservation, all_ended
from arranger.framework.cluster_event import ClusterEvent, EventKind
from arranger.gangs import messages

#: Seconds until nodes are looked for again for a group that none would have helped.
PAUSE: Final = 60.0
_WAITING = (Part.UNSCHEDULABLE, Part.ACTIVE, Part.BACKOFF, Part.CONSULTING)


class RoomKeeper:
    """Gives the reservation to the first gang that has waited for room ``after`` seconds."""

    def __init__(self, desk: Desk, after: float) -> None:
        self._desk = desk
        self._after = after

    def starve(self, entity: Entity, now: float, room: Callable[[], frozenset[str]]) -> None:
        """A complete group has found no room; ``room`` names the nodes it would need.

        Nothing is kept for a group that ``room`` has no nodes for.
        """
        if entity.starving_since is None:
            entity.starving_since = now
        if now - entity.starving_since < self._after or entity.group is None:
            return
        if now < entity.keep_after:
            return
        kept, rank = self._desk.cycle.reservation, self._desk.queue.rank(entity)
        if kept is None or kept.key == entity.key or rank < kept.rank:
            self._desk.cycle.reservation = None  # it is this group's turn now, or nobody's
            nodes = room()
            if not nodes:
                entity.keep_after = now + PAUSE
                self._desk.cycle.reservation = kept
                if kept is not None and kept.key == entity.key:
                    self._drop(now)
                return
            ends = all_ended(self._desk.cluster, nodes)
            self._desk.cycle.reservation = Reservation(
                entity.key,
                rank,
                messages.title(entity.group),
                entity.lead.pod.priority,
                nodes,
                None if ends is None else ends - self._desk.calendar(now) + now,
            )

    def check(self, entities: Mapping[str, Entity], now: float) -> None:
        """Drop the reservation when its group waits for room no more."""
        kept = self._desk.cycle.reservation
        if kept is None:
            return
        entity = entities.get(kept.key.removeprefix("gang:"))
        if entity is not None and entity.starving_since is not None and entity.part in _WAITING:
            return
        self._drop(now)

    def _drop(self, now: float) -> None:
        self._desk.cycle.reservation = None
        self._desk.happened(ClusterEvent(EventKind.OTHER, resource=RESERVATION), now)
