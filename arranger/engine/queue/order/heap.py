"""A heap of entities for each quota queue, and whose turn it is among the queues."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.queue_state import QueueState
from arranger.engine.queue.order.namespace_turns import NamespaceTurns
from arranger.engine.queue.order.queue_order import FairShareOrder

#: Void entries are removed when they outnumber the others by so many.
_SLACK = 64


@dataclass(slots=True, eq=False)
class MultiQueueHeap:
    """The entities of one part of the queue; entries that are void are dropped in passing.

    An entry is void once its entity has another version or is in another state. Entities that share
    their turns (``QueueSort`` by dominant shares) stand in the heap at their own places; when it is
    the turn of one of them, the one with the least share takes it and leaves its own to the other.
    """

    _state: QueueState
    _order: FairShareOrder
    _heaps: dict[str, NamespaceTurns] = field(default_factory=dict)
    #: (queue, those who share turns) → (share, rank, heap version, entity), least share on top.
    _sharing: dict[tuple[str, Hashable], list[tuple[float, Any, int, QueuedEntity]]] = field(
        default_factory=dict
    )
    _entries: int = 0
    _entries_allowed: int = _SLACK

    def __len__(self) -> int:
        return self._entries

    def entity_ids(self) -> set[int]:
        """The identities of the entities in it."""
        return {id(entity) for heap in self._heaps.values() for entity in heap.entities()}

    def push(self, entity: QueuedEntity) -> None:
        """Add an entity that has its rank and a new version."""
        queue = self._order.queue_of(entity.representative.pod)
        heap = self._heaps.get(queue)
        if heap is None:
            heap = self._heaps[queue] = NamespaceTurns(self._state)
        heap.push(entity)
        self._entries += 1
        if entity.turn is not None:
            sharing, share = entity.turn
            others = self._sharing.setdefault((queue, sharing), [])
            heapq.heappush(others, (share, entity.rank, entity.heap_version, entity))
        if self._entries > self._entries_allowed:
            self._compact()

    def first_queue(self) -> str | None:
        """The queue whose turn it is; None if there is nothing in any."""
        if len(self._heaps) == 1:
            ((queue, heap),) = self._heaps.items()
            if heap.first() is not None:
                return queue
            self._drop_empty(queue)
            return None
        found = {}
        for queue in list(self._heaps):
            place = self._heaps[queue].first()
            if place is None:
                self._drop_empty(queue)
            else:
                found[queue] = place
        if len(found) < 2:
            return next(iter(found), None)
        rank = self._order.queue_rank
        return min(found, key=lambda queue: (rank(queue), found[queue]))

    def pop(self) -> QueuedEntity | None:
        """The first entity of the queue whose turn it is, taken out."""
        queue = self.first_queue()
        if queue is None:
            return None
        self._entries -= 1
        entity = self._heaps[queue].pop()
        return entity if entity.turn is None else self._give_turn(queue, entity, entity.turn[0])

    def on_tried(self, entity: QueuedEntity) -> None:
        """One that was taken out is tried now, and not put back."""
        if heap := self._heaps.get(self._order.queue_of(entity.representative.pod)):
            heap.on_tried(entity)

    def _give_turn(self, queue: str, entity: QueuedEntity, sharing: Hashable) -> QueuedEntity:
        """Who takes the turn of an entity that has just been taken out: the least share."""
        others = self._sharing[queue, sharing]
        while not self._valid_share(others[0]):
            heapq.heappop(others)
        first = heapq.heappop(others)[3]
        if not others:
            del self._sharing[queue, sharing]
        if first is not entity:
            entity.rank = first.rank
            self._heaps[queue].push(entity)
            self._entries += 1
        return first

    def _drop_empty(self, queue: str) -> None:
        """Nobody waits in a queue; the void entries that went in passing are still counted."""
        del self._heaps[queue]
        if not self._heaps:
            self._entries = 0

    def _valid(self, entry: tuple[Any, int, QueuedEntity]) -> bool:
        return entry[2].heap_version == entry[1] and entry[2].state is self._state

    def _valid_share(self, entry: tuple[float, Any, int, QueuedEntity]) -> bool:
        return self._valid(entry[1:])

    def _compact(self) -> None:
        self._entries = sum(heap.compact() for heap in self._heaps.values())
        for others in self._sharing.values():
            others[:] = filter(self._valid_share, others)
            heapq.heapify(others)
        self._sharing = {key: others for key, others in self._sharing.items() if others}
        self._entries_allowed = 2 * self._entries + _SLACK
