"""The order within one quota queue, in which a namespace with much to try gives turns to others."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.queue_state import QueueState

#: So many pods of one namespace are tried before it is the turn of those of others that have the
#: same priority and wait.
PODS_A_TURN: Final = 32
#: Counters of namespaces of which nothing waits, beyond which those that say nothing are dropped.
_SLACK: Final = 64

#: What namespaces take turns within, and the namespace.
_Lane = tuple[tuple[Any, ...], str]
#: (rank, heap version, entity), the first in the queue's order smallest.
_Entry = tuple[Any, int, QueuedEntity]
#: (level, round, rank, heap version) of the first entity of a lane.
_Place = tuple[tuple[Any, ...], int, Any, int]


@dataclass(slots=True, eq=False)
class NamespaceTurns:
    """The entities of one quota queue; the first has the best level, round and rank, in that order.

    A namespace's round is how many turns it has had, at a level (that is, of a priority). One that
    has had nothing to try begins with the round that others are in. So long as nobody has used up a
    turn all are in one round, and go by rank alone: creation, mostly. As start-time fair queueing,
    with rounds for time.

    Entries are void once their entity has another version or is in another state.

    Args:
        pods_a_turn: how many pods of one namespace are a turn.
    """

    _state: QueueState
    _pods_a_turn: int = PODS_A_TURN
    _lanes: dict[_Lane, list[_Entry]] = field(default_factory=dict, init=False)
    #: (place, lane) of the first of each lane, and of some that were first; it is not kept up to
    #: date while there is one lane.
    _firsts: list[tuple[_Place, _Lane]] = field(default_factory=list, init=False)
    #: Lane → its place that counts among these.
    _place_of: dict[_Lane, _Place] = field(default_factory=dict, init=False)
    #: Lane → pods tried, since there was last nothing to try.
    _tried: dict[_Lane, int] = field(default_factory=dict, init=False)
    #: Level → the round of whatever was taken last.
    _rounds: dict[tuple[Any, ...], int] = field(default_factory=dict, init=False)

    def entities(self) -> list[QueuedEntity]:
        """All that wait."""
        entries = (entry for heap in self._lanes.values() for entry in heap)
        return [entry[2] for entry in self._valid(entries)]

    def push(self, entity: QueuedEntity) -> None:
        """Add an entity that has its rank and a new version."""
        lane, entry = entity.lane, (entity.rank, entity.heap_version, entity)
        heap = self._lanes.get(lane)
        if heap is None:
            if len(self._lanes) == 1:  # it had nobody to take turns with
                self._note_first(next(iter(self._lanes)))
            heap = self._lanes[lane] = []
            begun = self._rounds.get(lane[0], 0) * self._pods_a_turn
            self._tried[lane] = max(self._tried.get(lane, 0), begun)
        heapq.heappush(heap, entry)
        if heap[0] is entry and len(self._lanes) > 1:
            self._note_first(lane)

    def first(self) -> _Place | None:
        """The place of who is to be tried next; None if nobody waits."""
        while len(self._lanes) > 1:
            place, lane = self._firsts[0]
            if self._place_of.get(lane) != place:
                heapq.heappop(self._firsts)
            elif not self._drop_void(lane):
                self._remove_lane(lane)
            elif not self._note_first(lane):
                return place
        if self._lanes:
            (lane,) = self._lanes
            if self._drop_void(lane):
                return self._place(lane)
            self._remove_lane(lane)
        return None

    def pop(self) -> QueuedEntity:
        """Take out who is to be tried next; :meth:`first` has just found somebody."""
        lane = self._firsts[0][1] if len(self._lanes) > 1 else next(iter(self._lanes))
        self._rounds[lane[0]] = self._tried[lane] // self._pods_a_turn
        heap = self._lanes[lane]
        entity = heapq.heappop(heap)[2]
        if not heap:
            self._remove_lane(lane)
        return entity

    def on_tried(self, entity: QueuedEntity, pods: int | None = None) -> None:
        """One that was taken out is tried now: that counts as a part of its namespace's turn.

        It counts as so many ``pods``, or as those that it has.
        """
        if entity.lane in self._tried:
            self._tried[entity.lane] += len(entity.members) if pods is None else pods

    def compact(self) -> int:
        """Drop what is void; returns how many entities are left."""
        for lane, heap in list(self._lanes.items()):
            heap[:] = self._valid(heap)
            heapq.heapify(heap)
            if not heap:
                self._remove_lane(lane)
        return sum(map(len, self._lanes.values()))

    def _drop_void(self, lane: _Lane) -> bool:
        """Drop void entries before the first one that counts; whether there is one."""
        heap = self._lanes[lane]
        while heap and not any(self._valid(heap[:1])):
            heapq.heappop(heap)
        return bool(heap)

    def _valid(self, entries: Iterable[_Entry]) -> Iterator[_Entry]:
        """Those that count.

        Of all at once, and not of one entity: nothing that is done for one may stop the others.
        """
        state = self._state
        for entry in entries:
            _, version, entity = entry
            if entity.heap_version == version and entity.state is state:
                yield entry

    def _place(self, lane: _Lane) -> _Place:
        rank, version, _ = self._lanes[lane][0]
        return lane[0], self._tried[lane] // self._pods_a_turn, rank, version

    def _note_first(self, lane: _Lane) -> bool:
        """Note the place of a lane's first entity; whether it was not known."""
        place = self._place(lane)
        if self._place_of.get(lane) == place:
            return False
        self._place_of[lane] = place
        heapq.heappush(self._firsts, (place, lane))
        return True

    def _remove_lane(self, lane: _Lane) -> None:
        del self._lanes[lane]
        self._place_of.pop(lane, None)
        if not self._lanes:
            self._firsts.clear()
            self._tried.clear()
            self._rounds.clear()
        elif len(self._tried) > 2 * len(self._lanes) + _SLACK:
            self._forget_counters()

    def _forget_counters(self) -> None:
        """Drop the counters of those that would begin with the round that others are in."""
        rounds, turn = self._rounds, self._pods_a_turn
        self._tried = {
            lane: tried
            for lane, tried in self._tried.items()
            if lane in self._lanes or tried > rounds.get(lane[0], 0) * turn
        }
