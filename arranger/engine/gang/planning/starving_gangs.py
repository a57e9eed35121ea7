"""Whose start is planned next: the gangs that have not fitted for long, as the budget allows it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.queue_state import QueueState
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.planning.reservation_budget import ReservationBudget
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.pod.planned_room import PlannedRoom
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.gangs.group import GangGroup

#: Where groups are that wait for room.
_WAITS: Final = (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE)


@dataclass(slots=True, eq=False)
class StarvingGangs:
    """Knows who starves and is not planned.

    Attributes:
        allowed_at: when nodes may be kept for the first of those that the budget has none for now.
    """

    _queue: SchedulingQueue
    _room: PlannedRoom
    _entities: GangEntityIndex
    _policy: GangPolicy
    _budget: ReservationBudget
    allowed_at: float = field(default=math.inf, init=False)

    def begin_anew(self) -> None:
        """Fewer are planned than before: whoever found no node left to keep may find some now."""
        self.allowed_at = math.inf
        for entity in self._entities:
            entity.reserve_retry_at = -math.inf

    def next_in_turn(self, now: float) -> list[QueuedEntity]:
        """The first that are not planned and may be: no more of them than are planned at a time."""
        return sorted(self._starving(now), key=self._queue.sort_key)[: self._policy.planned_gangs]

    def is_allowed(self, group: GangGroup, now: float) -> bool:
        """Whether nodes may be kept for it; where not, it is planned when they may."""
        namespaces = frozenset(group.namespaces)
        if self._budget.allows(namespaces, now):
            return True
        self.allowed_at = min(self.allowed_at, self._budget.allowed_at(namespaces))
        return False

    def _starving(self, now: float) -> Iterator[QueuedEntity]:
        """The groups that have not fitted for so long that they may be planned, and are not."""
        planned = self._room.plans
        for entity in self._entities:
            due = max(entity.starves_at, entity.reserve_retry_at)
            if entity.starving_since is None or now < due:
                continue
            if entity.state not in _WAITS or entity.key in planned or entity.group is None:
                continue
            if self.is_allowed(entity.group, now):
                yield entity
