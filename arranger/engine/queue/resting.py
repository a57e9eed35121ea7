"""Unschedulable entities, by what may help them.

Lone pods of one equivalence class that the same plugins rejected rest together: what helps one may
help any, and what does not help the first of them helps none. So an event wakes only the first; the
queue wakes the next when that one has got its place.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from arranger.engine.entity import QueuedEntity, QueueState
from arranger.engine.queue.hints import may_help
from arranger.framework.cluster_event import ClusterEvent

#: Void entries are removed when they outnumber the others by so many.
_SLACK = 16


@dataclass(slots=True, eq=False)
class _RestingClass:
    """Entities that the same events help.

    An entry of the heap is void once its entity has another version or is in another state.
    """

    members: dict[str, QueuedEntity] = field(default_factory=dict)
    #: (rank, heap version, entity), the first in the queue's order on top.
    heap: list[tuple[Any, int, QueuedEntity]] = field(default_factory=list)

    def push(self, entity: QueuedEntity) -> None:
        self.members[entity.key] = entity
        if len(self.heap) > 2 * len(self.members) + _SLACK:
            self.heap = [(e.rank, e.heap_version, e) for e in self.members.values()]
            heapq.heapify(self.heap)
        else:
            heapq.heappush(self.heap, (entity.rank, entity.heap_version, entity))

    def first(self, skipped: Container[str]) -> QueuedEntity | None:
        heap = self.heap
        kept: list[tuple[Any, int, QueuedEntity]] = []
        found: QueuedEntity | None = None
        while heap and found is None:
            _, version, entity = heap[0]
            if entity.heap_version != version or entity.state is not QueueState.UNSCHEDULABLE:
                heapq.heappop(heap)
            elif entity.representative.uid in skipped:
                kept.append(heapq.heappop(heap))
            else:
                found = entity
        for entry in kept:
            heapq.heappush(heap, entry)
        return found


@dataclass(slots=True, eq=False)
class RestingEntities:
    """The entities that no node would take, until something helps."""

    _classes: dict[Hashable, _RestingClass] = field(default_factory=dict)

    def add(self, entity: QueuedEntity) -> None:
        """An entity rests from now on; it has its rank and a new version."""
        entity.resting_class = entity.rejected_by, entity.wakeup_group
        self._classes.setdefault(entity.resting_class, _RestingClass()).push(entity)

    def remove(self, entity: QueuedEntity) -> None:
        """An entity rests no more."""
        resting = self._classes[entity.resting_class]
        del resting.members[entity.key]
        if not resting.members:
            del self._classes[entity.resting_class]

    def classes_helped_by(self, event: ClusterEvent) -> list[Hashable]:
        """The classes that an event may help."""
        return [key for key, resting in self._classes.items() if _may_help_any(resting, event)]

    def first(self, key: Hashable, skipped: Container[str]) -> QueuedEntity | None:
        """The first entity of a class in the order of the queue, but for pods of these uids."""
        resting = self._classes.get(key)
        return None if resting is None else resting.first(skipped)

    def entities(self) -> Iterator[QueuedEntity]:
        """All of them."""
        return (e for resting in self._classes.values() for e in resting.members.values())


def _may_help_any(resting: _RestingClass, event: ClusterEvent) -> bool:
    return may_help(next(iter(resting.members.values())), event)
