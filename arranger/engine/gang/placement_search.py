"""Tries other ways to place a small gang group, where one after the other does not do.

Members of different sizes, or with a say on where the others go, may fit in one way and not in
another: the largest first on the best node each is a good guess and no more. All ways are tried,
first by numbers alone, which tells at once that there is too little room, and then for real.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import QueuedPod
from arranger.engine.gang.topology import OUTSIDE_DOMAIN
from arranger.engine.pod.schedule_result import PermitWait, RowMask, Scheduled
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.gangs.group import GangGroup

#: Members of groups for which other ways are tried.
MAX_MEMBERS: Final = 12
#: Rows that are tried for a member at most.
MAX_ROWS: Final = 24
#: Rows up to which requests are put on rows; beyond that each class is compared with what is free.
MAX_COUNTED_ROWS: Final = 200

#: Members that have got a node, and what their Permit plugins said.
Placements = list[tuple[QueuedPod, PermitWait | None]]


@dataclass(slots=True)
class SearchEffort:
    """How much may still be done in search of a way; searches may share it.

    Attributes:
        left: members that may be placed, at some tenths of a millisecond each.
        looks: rows that may be compared with a member's requests, at a microsecond each.
    """

    left: int = 200
    looks: int = 20_000

    def place(self) -> bool:
        """Whether one more may be placed, which is counted."""
        self.left -= 1
        return self.left >= 0

    def look_at(self, rows: int) -> bool:
        """Whether so many more rows may be looked at, which are counted."""
        self.looks -= rows
        return self.looks >= 0

    def half(self) -> SearchEffort:
        """Half of the members that may be placed, taken from them."""
        mine = SearchEffort(max(self.left, 0) // 2)
        self.left -= mine.left
        return mine

    def give_back(self, other: SearchEffort) -> None:
        """What is left of another may be used here."""
        self.left += max(other.left, 0)


@dataclass(frozen=True, slots=True)
class PlacementSearcher:
    """Looks for ways to place groups."""

    _cluster: Cluster
    _cycle: SchedulingCycle
    _nominator: Nominator

    def may_fit(
        self,
        group: GangGroup,
        members: Sequence[QueuedPod],
        held: Iterable[str],
        row_mask: RowMask | None,
        effort: SearchEffort,
    ) -> bool:
        """Whether there is hope by the requests alone; the members' own nodes do not count."""
        if effort.left <= 0 or not self._may_differ(members):
            return False
        placed = [m.pod for m in members if m.uid in self._cluster]
        movable = [*self._nominator.visible_pods(), *placed]
        board = NumbersBoard(self._cluster, self._cycle, row_mask, movable, members, effort)
        counts = group.count_by_bundle(held)
        if not board.has_room_for_each(group, counts):
            return False
        return len(board.possible_rows) > MAX_COUNTED_ROWS or (
            _Search(group, members, counts, board).run() or effort.looks < 0
        )

    def search(
        self,
        group: GangGroup,
        members: Sequence[QueuedPod],
        held: Iterable[str],
        row_mask: RowMask | None,
        effort: SearchEffort,
    ) -> Placements | None:
        """A way to place what the group needs, which is kept; None where none was found.

        Args:
            members: those without a node, the largest first.
            held: uids of the members that have nodes.
        """
        held = list(held)
        # Where they go may depend on who was there first: the smallest first is another order.
        for order in (members, members[::-1]):
            board = RealBoard(self._cluster, self._cycle, row_mask, effort.half())
            found = _Search(group, order, group.count_by_bundle(held), board).run()
            effort.give_back(board.effort)
            if found:
                return board.placed
        return None

    def _may_differ(self, members: Sequence[QueuedPod]) -> bool:
        """Whether some way may do where placing one after the other does not."""
        if not 1 < len(members) <= MAX_MEMBERS:
            return False
        if len({member.equivalence_key for member in members}) > 1:
            return True
        first = members[0]
        evaluation = self._cycle.evaluate(first.profile, first.pod, first.signature)
        return not evaluation.pod_dependent_filters <= first.profile.resource_filters


class Board(Protocol):
    """Members are put on rows, and taken back."""

    def rows(self, member: QueuedPod) -> Iterable[int]:
        """The rows that are to be tried for a member, the most promising first."""

    def put(self, member: QueuedPod, row: int) -> bool:
        """Whether the member could be put there."""

    def take_back(self, member: QueuedPod) -> None:
        """Undo the last :meth:`put`."""


@dataclass(slots=True, eq=False)
class NumbersBoard:
    """Compares requests with what is free, and knows nothing else.

    Args:
        movable: pods that do not count, as they may go elsewhere or have to stand aside.

    Attributes:
        possible_rows: the rows that any member may be on.
    """

    _cluster: Cluster
    _cycle: SchedulingCycle
    _row_mask: RowMask | None
    _movable: Iterable[PodInfo]
    _members: Sequence[QueuedPod]
    _effort: SearchEffort
    possible_rows: list[int] = field(init=False)
    #: Row → what is left there, by resource.
    _free: dict[int, list[int]] = field(init=False)
    #: Class → the rows that would do if they were empty.
    _possible: dict[Hashable, frozenset[int]] = field(init=False)
    #: Class → how many members would fit if they had all rows for themselves.
    _room: dict[Hashable, int] = field(default_factory=dict)
    #: Row → for which classes it would do.
    _kinds: dict[int, tuple[bool, ...]] = field(init=False)
    _rows: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        table, size = self._cluster.table, self._cluster.table.size
        within = table.alive[:size] if self._row_mask is None else self._row_mask.rows
        free = table.allocatable[:, :size] - table.requested[:, :size]
        for pod in self._movable:
            row = table.index.get(self._cluster.node_of(pod.uid) or "")
            for column, n in zip(*pod.request_vector(table.resource_column), strict=True):
                free[column, row] += 0 if row is None else n
        masks: dict[Hashable, BoolArray] = {}
        for member in {each.equivalence_key: each for each in self._members}.values():
            key, wanted = member.equivalence_key, self._wanted(member)
            evaluation = self._cycle.evaluate(member.profile, member.pod, member.signature)
            masks[key] = within & evaluation.fits_when_empty
            room = np.min([free[column] // n for column, n in wanted], axis=0)
            self._room[key] = int(np.maximum(room[masks[key]], 0).sum())
        rows = np.flatnonzero(np.logical_or.reduce(list(masks.values())))
        self.possible_rows = rows.tolist()
        some = rows[:MAX_COUNTED_ROWS].tolist()
        self._free = {row: free[:, row].tolist() for row in some}
        self._possible = {key: frozenset(np.flatnonzero(m).tolist()) for key, m in masks.items()}
        self._kinds = {row: tuple(bool(mask[row]) for mask in masks.values()) for row in some}

    def has_room_for_each(self, group: GangGroup, counts: Mapping[str, Counter[str]]) -> bool:
        """Whether the group would have what it needs if no role took room from another."""
        hoped = {name: Counter(bundles) for name, bundles in counts.items()}
        alike: Counter[Hashable] = Counter()
        for member in self._members:
            name, bundle = role_in(group, member)
            alike[member.equivalence_key, name, bundle] += 1
            if alike[member.equivalence_key, name, bundle] <= self._room[member.equivalence_key]:
                hoped[name][bundle] += 1
        return not group.lacks_members(hoped)

    def rows(self, member: QueuedPod) -> Iterable[int]:
        """Those with enough left, one of each kind, the fullest first."""
        wanted, possible = self._wanted(member), self._possible[member.equivalence_key]
        if not self._effort.look_at(len(self.possible_rows)):
            return []
        kinds: dict[tuple[tuple[int, ...], tuple[bool, ...]], int] = {}
        for row, free in self._free.items():
            if row in possible and all(free[column] >= n for column, n in wanted):
                kinds.setdefault((tuple(free), self._kinds[row]), row)
        return [kinds[kind] for kind in sorted(kinds)]

    def _wanted(self, member: QueuedPod) -> list[tuple[int, int]]:
        columns, amounts = member.pod.request_vector(self._cluster.table.resource_column)
        return [(column, n) for column, n in zip(columns, amounts, strict=True) if n]

    def put(self, member: QueuedPod, row: int) -> bool:
        """It can: its row has enough left."""
        self._rows[member.uid] = row
        self._take(member, row, 1)
        return True

    def take_back(self, member: QueuedPod) -> None:
        """Its row has more left."""
        self._take(member, self._rows.pop(member.uid), -1)

    def _take(self, member: QueuedPod, row: int, sign: int) -> None:
        for column, n in self._wanted(member):
            self._free[row][column] -= sign * n


@dataclass(slots=True, eq=False)
class RealBoard:
    """Places members in the cluster, where all plugins have their say."""

    _cluster: Cluster
    _cycle: SchedulingCycle
    _row_mask: RowMask | None
    effort: SearchEffort
    placed: Placements = field(default_factory=list)

    def rows(self, member: QueuedPod) -> Iterable[int]:
        """Those that are feasible now, the fullest first."""
        table = self._cluster.table
        rows = self._cycle.feasible_rows(member, self._row_mask)
        columns, amounts = member.pod.request_vector(table.resource_column)
        free = table.allocatable[columns][:, rows] - table.requested[columns][:, rows]
        left = (free / np.maximum(amounts, 1)[:, None]).sum(axis=0)
        order: list[int] = rows[np.argsort(left, kind="stable")].tolist()
        return order[:MAX_ROWS]

    def put(self, member: QueuedPod, row: int) -> bool:
        """Reserve the row, if no plugin objects."""
        if not self.effort.place():
            return False
        only = np.zeros(self._cluster.table.size, dtype=np.bool_)
        only[row] = True
        answer = self._cycle.place(member, RowMask(only, OUTSIDE_DOMAIN))
        if isinstance(answer, Scheduled):
            self.placed.append((member, answer.held))
            return True
        return False

    def take_back(self, member: QueuedPod) -> None:
        """Give the reservation back."""
        self.placed.pop()
        self._cycle.unreserve(member)


@dataclass(slots=True, eq=False)
class _Search:
    """Puts members on a board until the group has what it needs.

    Args:
        counts: gang → bundle → how many have a node; follows what is put.
    """

    group: GangGroup
    members: Sequence[QueuedPod]
    counts: Mapping[str, Counter[str]]
    board: Board

    def run(self) -> bool:
        """Whether there is a way; the members stay where they are put then."""
        return self._visit(0)

    def _visit(self, number: int) -> bool:
        """Put the members from ``number`` on."""
        if not self.group.lacks_members(self.counts):
            return True
        if not self._may_be_enough(number):
            return False
        member = self.members[number]
        name, bundle = role_in(self.group, member)
        for row in self.board.rows(member):
            if not self.board.put(member, row):
                continue
            self.counts[name][bundle] += 1
            if self._visit(number + 1):
                return True
            self.counts[name][bundle] -= 1
            self.board.take_back(member)
        # Do without this one, and without its like.
        key = member.equivalence_key, name, bundle
        while number < len(self.members):
            other = self.members[number]
            if (other.equivalence_key, *role_in(self.group, other)) != key:
                break
            number += 1
        return self._visit(number)

    def _may_be_enough(self, number: int) -> bool:
        """Whether the group has what it needs if all from ``number`` on are put."""
        hoped = {name: Counter(bundles) for name, bundles in self.counts.items()}
        for member in self.members[number:]:
            name, bundle = role_in(self.group, member)
            hoped[name][bundle] += 1
        return not self.group.lacks_members(hoped)


def role_in(group: GangGroup, member: QueuedPod) -> tuple[str, str]:
    """The gang and the bundle of a member."""
    gang = next(gang for gang in group.gangs if member.uid in gang.memberships)
    return gang.name, gang.memberships[member.uid].bundle
