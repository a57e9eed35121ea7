"""Unschedulable entities, by what may help them.

Lone pods of one equivalence class that the same plugins rejected are one wake-up group: what helps
one may help any, and what does not help the first of them helps none. So an event wakes only the
first; the queue wakes the next when that one has got its place.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from arranger.api.annotations import MAX_RUN_TIME, RESERVATION
from arranger.api.settings.queue_annotations import queue_of
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.queue_state import QueueState
from arranger.engine.context.rejecters import KEPT
from arranger.engine.queue.hints import HelpQuestion
from arranger.engine.queue.interest_index import InterestIndex

#: Void entries are removed when they outnumber the others by so many.
_SLACK = 16


@dataclass(slots=True, eq=False)
class _WakeupGroup:
    """Entities that the same events help.

    An entry of the heap is void once its entity has another version or is in another state.

    Attributes:
        woken: the one that was last woken for the others.
    """

    members: dict[str, QueuedEntity] = field(default_factory=dict)
    #: (rank, heap version, entity), the first in the queue's order on top.
    heap: list[tuple[Any, int, QueuedEntity]] = field(default_factory=list)
    woken: QueuedEntity | None = None

    def push(self, entity: QueuedEntity) -> None:
        self.members[entity.key] = entity
        if len(self.heap) > 2 * len(self.members) + _SLACK:
            self.heap = [(e.rank, e.heap_version, e) for e in self.members.values()]
            heapq.heapify(self.heap)
        else:
            heapq.heappush(self.heap, (entity.rank, entity.heap_version, entity))

    @property
    def any_member(self) -> QueuedEntity:
        return next(iter(self.members.values()))

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
                self.woken = found = entity
        for entry in kept:
            heapq.heappush(heap, entry)
        return found


@dataclass(slots=True, eq=False)
class UnschedulableEntities:
    """The entities that no node would take, until something helps."""

    _groups: dict[Hashable, _WakeupGroup] = field(default_factory=dict)
    _interests: InterestIndex = field(default_factory=InterestIndex)

    def add(self, entity: QueuedEntity) -> None:
        """An entity is unschedulable from now on; it has its rank and a new version."""
        entity.wakeup_group = entity.rejected_by, _class_of(entity)
        group = self._groups.get(entity.wakeup_group)
        if group is None:
            group = self._groups[entity.wakeup_group] = _WakeupGroup()
            self._interests.add(entity.wakeup_group, entity)
        group.push(entity)

    def remove(self, entity: QueuedEntity) -> None:
        """An entity is tried again, or gone."""
        group = self._groups[entity.wakeup_group]
        del group.members[entity.key]
        if not group.members:
            del self._groups[entity.wakeup_group]
            self._interests.remove(entity.wakeup_group)

    def __len__(self) -> int:
        """How many wake-up groups there are."""
        return len(self._groups)

    @property
    def last_group(self) -> int:
        """The number of the wake-up group that came last."""
        return self._interests.last

    def concern(self, question: HelpQuestion) -> bool:
        """Whether events of that type matter to any of them."""
        return self._interests.concerns_any(question, lambda key: self._groups[key].any_member)

    def groups_asking(self, question: HelpQuestion, until: int) -> list[Hashable]:
        """The wake-up groups to which events of that type matter, up to the one of that number."""
        return self._interests.asking(question, lambda key: self._groups[key].any_member, until)

    def is_helped(self, key: Hashable, question: HelpQuestion) -> bool:
        """Whether the event may help a wake-up group, if there still is one."""
        group = self._groups.get(key)
        return group is not None and question.may_help(group.any_member)

    def first(self, key: Hashable, skipped: Container[str]) -> QueuedEntity | None:
        """The first entity of a group in the order of the queue, but for pods of these uids."""
        group = self._groups.get(key)
        return None if group is None else group.first(skipped)

    def awaits_first(self, entity: QueuedEntity) -> bool:
        """Whether another of an entity's group has been woken for it, and not been tried yet."""
        woken = self._groups[entity.wakeup_group].woken
        return woken is not None and woken.woken_from == entity.wakeup_group

    def share_verdict(self, key: Hashable, tried: QueuedEntity, skipped: Container[str]) -> None:
        """One of a group was tried in vain: the others would have been rejected by the same.

        What has a nomination (``skipped``) stands for itself.
        """
        group = self._groups.get(key)
        if group is None or tried.wakeup_group == key:
            return
        for other in list(group.members.values()):
            if _class_of(other) == _class_of(tried) and other.representative.uid not in skipped:
                self.remove(other)
                other.rejected_by = tried.rejected_by
                self.add(other)

    @staticmethod
    def speaks_for_itself(tried: QueuedEntity, key: Hashable) -> bool:
        """Whether what has rejected one of a group may let others of the group pass."""
        waits = tried.state is QueueState.UNSCHEDULABLE and tried.wakeup_group != key
        return waits and not KEPT.isdisjoint(tried.rejected_by)

    def check_consistent(self) -> None:
        """Check that all groups are found by what rejected them.

        Raises:
            AssertionError: one is not.
        """
        self._interests.check_consistent(set(self._groups))

    def entities(self) -> Iterator[QueuedEntity]:
        """All of them."""
        return (e for group in self._groups.values() for e in group.members.values())


def _class_of(entity: QueuedEntity) -> Hashable:
    """The class of a lone pod; a gang stands for itself.

    Nodes are kept for others by what a pod says beyond its class: its namespace and queue, how long
    it may run at most, and which Reservation it asks for.
    """
    if entity.group is not None:
        return entity.key
    key = entity.representative.equivalence_key
    if KEPT.isdisjoint(entity.rejected_by):
        return key
    pod = entity.representative.pod.pod
    notes = pod.metadata.annotations
    said = notes.get(MAX_RUN_TIME), notes.get(RESERVATION)
    return key, pod.metadata.namespace, queue_of(pod), *said
