"""Attempts that go on in steps, and how they share the time with what else is to be tried."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Final

from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.queue_state import QueueState
from arranger.engine.queue.order.heap import MultiQueueHeap
from arranger.engine.queue.order.queue_order import FairShareOrder

#: Whether it is bound in part (0, else 1), and less its priority: the more important is smaller.
_Importance = tuple[int, int]
#: (importance, 0 for one that goes on, number, heap version, entity), the first to go on smallest.
_Entry = tuple[_Importance, int, int, int, QueuedEntity]
#: Entities that are put behind others of their namespaces at once, and after how many entries
#: those that are void are dropped.
_MOVED_AT_ONCE: Final = 256
#: So many others may be tried between two steps.
OTHERS_BETWEEN: Final = 64


@dataclass(slots=True, eq=False)
class ActiveEntities:
    """What may be tried now, in order, and what is being tried in steps.

    A step of one, then some others, then a step of the next; nobody of less importance goes between
    in the same quota queue, who might take the room. Namespaces take turns with their steps. What
    else one of them wants to have tried waits with its attempt, so that many slow pods of one cost
    the others no more than one does; its most important goes first.
    """

    _order: FairShareOrder
    _heap: MultiQueueHeap = field(init=False)
    #: Namespace → those that go on, and those behind them.
    _long: dict[str, list[_Entry]] = field(default_factory=dict, init=False)
    _last_number: int = field(default=0, init=False)
    _others_left: int = field(default=OTHERS_BETWEEN, init=False)

    def __post_init__(self) -> None:
        self._heap = MultiQueueHeap(QueueState.ACTIVE, self._order)

    def __len__(self) -> int:
        return len(self._heap) + sum(map(len, self._long.values()))

    @property
    def ready(self) -> bool:
        """Whether there is anything."""
        return self._heap.first_queue() is not None or self._has_long()

    def entity_ids(self) -> set[int]:
        """The identities of the entities in it."""
        entries = (entry for heap in self._long.values() for entry in heap)
        return self._heap.entity_ids() | {id(entry[-1]) for entry in entries if _is_valid(entry)}

    def push(self, entity: QueuedEntity) -> None:
        """Add an entity that has its rank and a new version, perhaps after a step of several."""
        if not entity.slices:
            self._heap.push(entity)
            return
        self._others_left = OTHERS_BETWEEN
        self._add_long(entity)

    def pop(self) -> QueuedEntity | None:
        """The next to try, taken out."""
        if not self._has_long():
            if (entity := self._heap.pop()) is not None:
                self._heap.on_tried(entity)
            return entity
        for _ in range(_MOVED_AT_ONCE):
            first = self._heap.pop()
            if first is None:
                break
            if self._others_left <= 0 or self._would_be_passed_by(first):
                self._heap.push(first)
                break
            if first.representative.pod.namespace not in self._long:
                self._others_left -= 1
                self._heap.on_tried(first)
                return first
            self._add_long(first)
        namespace = next(iter(self._long))
        heap = self._long.pop(namespace)
        following = heapq.heappop(heap)[-1]
        self._long[namespace] = heap  # the last one now
        return following

    # --- inside ----------------------------------------------------------------------------

    def _has_long(self) -> bool:
        for namespace in list(self._long):
            heap = self._long[namespace]
            while heap and not _is_valid(heap[0]):
                heapq.heappop(heap)
            if not heap:
                del self._long[namespace]
        return bool(self._long)

    def _add_long(self, entity: QueuedEntity) -> None:
        pod = entity.representative.pod
        self._last_number += 1
        goes_on = 0 if entity.slices else 1
        entry = _importance(entity), goes_on, self._last_number, entity.heap_version, entity
        heap = self._long.setdefault(pod.namespace, [])
        heapq.heappush(heap, entry)
        if self._last_number % _MOVED_AT_ONCE == 0:
            heap[:] = filter(_is_valid, heap)
            heapq.heapify(heap)

    def _would_be_passed_by(self, entity: QueuedEntity) -> bool:
        """Whether something of more importance is tried in steps in the entity's queue."""
        importance, queue = _importance(entity), self._order.queue_of(entity.representative.pod)
        return any(
            heap[0][0] < importance
            and self._order.queue_of(heap[0][-1].representative.pod) == queue
            for heap in self._long.values()
        )


def _importance(entity: QueuedEntity) -> _Importance:
    """As the order of the queue: what is bound in part comes before what is of higher priority."""
    return 0 if entity.urgent else 1, -entity.representative.pod.priority


def _is_valid(entry: _Entry) -> bool:
    *_, version, entity = entry
    return entity.heap_version == version and entity.state is QueueState.ACTIVE
