"""What a search for places puts members on: numbers alone, or the cluster itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Protocol

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.engine.gang.placement.topology import OUTSIDE_DOMAIN
from arranger.engine.pod.reserve_and_permit import has_claims
from arranger.engine.pod.schedule_result import PermitWait, RowMask, Scheduled
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.gangs.group import GangGroup

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
        bounded: whether some ways were left untried because there are too many.
    """

    left: int = 200
    looks: int = 20_000
    bounded: bool = False

    def place(self) -> bool:
        """Whether one more may be placed, which is counted."""
        self.left -= 1
        self.bounded |= self.left < 0
        return self.left >= 0

    def leave_untried(self) -> None:
        """There are more ways than are tried."""
        self.bounded = True

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


class Board(Protocol):
    """Members are put on rows, and taken back."""

    def kind_of(self, member: QueuedPod) -> Hashable:
        """The same rows do for members of one kind."""

    def rows(self, member: QueuedPod) -> Iterable[int]:
        """The rows that are to be tried for a member, the most promising first."""

    def put(self, member: QueuedPod, row: int) -> bool:
        """Whether the member could be put there."""

    def take_back(self, member: QueuedPod) -> None:
        """Undo the last :meth:`put`."""


def class_by_numbers(member: QueuedPod) -> Hashable:
    """A member's class where nothing but numbers is compared: who has claims is known by its
    requests, as each would be a class of its own, and may be on any row."""
    if member.signature is None and has_claims(member):
        return tuple(sorted(member.pod.requests.items()))
    return member.equivalence_key


def count_alike(
    group: GangGroup,
    members: Iterable[QueuedPod],
    class_of: Callable[[QueuedPod], Hashable] = attrgetter("equivalence_key"),
) -> Counter[tuple[Hashable, str, str]]:
    """(class, gang, bundle) → how many of the members."""
    alike: Counter[tuple[Hashable, str, str]] = Counter()
    gang_of = group.gangs_by_uid()
    for member in members:
        gang = gang_of[member.uid]
        alike[class_of(member), gang.name, gang.memberships[member.uid].bundle] += 1
    return alike


def has_room_for_each(
    group: GangGroup,
    held: Mapping[str, Counter[str]],
    alike: Mapping[tuple[Hashable, str, str], int],
    room: Mapping[Hashable, int],
) -> bool:
    """Whether a group would have what it needs if no class of its members took room from another.

    Args:
        held: gang → bundle → members that have nodes.
        alike: of those that have none, as :func:`count_alike` counts them.
        room: class → how many members would fit if they had all rows for themselves.
    """
    hoped = {name: Counter(bundles) for name, bundles in held.items()}
    for (key, name, bundle), count in alike.items():
        hoped[name][bundle] += min(count, room[key])
    return not group.lacks_members(hoped)


@dataclass(slots=True, eq=False)
class NumbersBoard:
    """Compares requests with what is free, and knows nothing else.

    Args:
        movable: pods that do not count, as they may go elsewhere or have to stand aside.
        class_of: members of one class are compared once.

    Attributes:
        possible_rows: the rows that any member may be on.
    """

    _cluster: Cluster
    _cycle: SchedulingCycle
    _row_mask: RowMask | None
    _movable: Iterable[PodInfo]
    _members: Sequence[QueuedPod]
    _effort: SearchEffort
    _class_of: Callable[[QueuedPod], Hashable] = attrgetter("equivalence_key")
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
        for key, member in {self._class_of(each): each for each in self._members}.items():
            wanted, masks[key] = self._wanted(member), within
            if key == member.equivalence_key:
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
        alike = count_alike(group, self._members, self._class_of)
        return has_room_for_each(group, counts, alike, self._room)

    def kind_of(self, member: QueuedPod) -> Hashable:
        """Its class: what is kept by Reservations and plans is not known here."""
        return member.equivalence_key

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

    def kind_of(self, member: QueuedPod) -> Hashable:
        """Its class, and what else decides which rows are kept from it."""
        return self._cycle.kind_of(member)

    def rows(self, member: QueuedPod) -> Iterable[int]:
        """Those that are feasible now, the fullest first."""
        table = self._cluster.table
        rows = self._cycle.feasible_rows(member, self._row_mask)
        columns, amounts = member.pod.request_vector(table.resource_column)
        free = table.allocatable[columns][:, rows] - table.requested[columns][:, rows]
        left = (free / np.maximum(amounts, 1)[:, None]).sum(axis=0)
        order: list[int] = rows[np.argsort(left, kind="stable")].tolist()
        if len(order) > MAX_ROWS:
            self.effort.leave_untried()
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


def role_in(group: GangGroup, member: QueuedPod) -> tuple[str, str]:
    """The gang and the bundle of a member."""
    gang = next(gang for gang in group.gangs if member.uid in gang.memberships)
    return gang.name, gang.memberships[member.uid].bundle
