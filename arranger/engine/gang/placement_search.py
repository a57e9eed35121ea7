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
#: Members placed by numbers at most, at some microseconds each.
MAX_COUNTED: Final = 1000

Placed = list[tuple[QueuedPod, PermitWait | None]]


@dataclass(slots=True)
class SearchEffort:
    """How many members may still be placed in search of a way; searches may share it.

    Attributes:
        used_up: whether more would have been tried.
    """

    left: int = 200
    used_up: bool = False

    def spend(self) -> bool:
        """Whether one more may be placed, which is counted."""
        self.used_up = self.left <= 0
        self.left -= not self.used_up
        return not self.used_up

    def share(self, part: float) -> SearchEffort:
        """A part of what is left, taken from it."""
        mine = SearchEffort(int(self.left * part))
        self.left -= mine.left
        return mine

    def give_back(self, other: SearchEffort) -> None:
        """What is left of another may be used here."""
        self.left += other.left


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
        board = NumbersBoard(self._cluster, self._cycle, row_mask, movable)
        counts = group.count_by_bundle(held)
        search = _Search(group, members, counts, board, SearchEffort(MAX_COUNTED))
        return search.run() or search.effort.used_up

    def search(
        self,
        group: GangGroup,
        members: Sequence[QueuedPod],
        held: Iterable[str],
        row_mask: RowMask | None,
        effort: SearchEffort,
    ) -> Placed | None:
        """A way to place what the group needs, which is kept; None where none was found.

        Args:
            members: those without a node, the largest first.
            held: uids of the members that have nodes.
        """
        board, held = RealBoard(self._cluster, self._cycle, row_mask), list(held)
        # Where they go may depend on who was there first: the smallest first is another order.
        for order in (members, members[::-1]):
            counts, mine = group.count_by_bundle(held), effort.share(0.5)
            found = _Search(group, order, counts, board, mine).run()
            effort.give_back(mine)
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
    """

    _cluster: Cluster
    _cycle: SchedulingCycle
    _row_mask: RowMask | None
    _movable: Iterable[PodInfo]
    _free: dict[int, dict[int, int]] = field(default_factory=dict)
    _possible: dict[Hashable, list[int]] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        table = self._cluster.table
        alive = table.alive[: table.size]
        rows = np.flatnonzero(alive if self._row_mask is None else alive & self._row_mask.rows)
        free = table.allocatable[:, rows] - table.requested[:, rows]
        for pod in self._movable:
            row = table.index.get(self._cluster.node_of(pod.uid) or "", -1)
            for column, n in zip(*pod.request_vector(table.resource_column), strict=True):
                free[column, rows == row] += n
        self._free = {
            row: dict(enumerate(amounts))
            for row, amounts in zip(rows.tolist(), free.T.tolist(), strict=True)
        }

    def rows(self, member: QueuedPod) -> Iterable[int]:
        """Those with enough left, one of each kind, the fullest first."""
        columns, amounts = member.pod.request_vector(self._cluster.table.resource_column)
        wanted = list(zip(columns, amounts, strict=True))
        key = member.equivalence_key
        if key not in self._possible:
            evaluation = self._cycle.evaluate(member.profile, member.pod, member.signature)
            self._possible[key] = np.flatnonzero(evaluation.fits_when_empty).tolist()
        kinds: dict[tuple[int, ...], int] = {}
        for row in self._possible[key]:
            free = self._free.get(row, {})
            if all(free.get(column, -1) >= n for column, n in wanted):
                kinds.setdefault(tuple(free.values()), row)
        return [kinds[free] for free in sorted(kinds)]

    def put(self, member: QueuedPod, row: int) -> bool:
        """It can: its row has enough left."""
        self._rows[member.uid] = row
        self._take(member, row, 1)
        return True

    def take_back(self, member: QueuedPod) -> None:
        """Its row has more left."""
        self._take(member, self._rows.pop(member.uid), -1)

    def _take(self, member: QueuedPod, row: int, sign: int) -> None:
        free = self._free[row]
        columns, amounts = member.pod.request_vector(self._cluster.table.resource_column)
        for column, n in zip(columns, amounts, strict=True):
            free[column] -= sign * n


@dataclass(slots=True, eq=False)
class RealBoard:
    """Places members in the cluster, where all plugins have their say."""

    _cluster: Cluster
    _cycle: SchedulingCycle
    _row_mask: RowMask | None
    placed: Placed = field(default_factory=list)

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
        effort: how many may be put.
    """

    group: GangGroup
    members: Sequence[QueuedPod]
    counts: Mapping[str, Counter[str]]
    board: Board
    effort: SearchEffort

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
        name, bundle = self._role(member)
        for row in self.board.rows(member):
            if not self.effort.spend():
                return False
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
            if (other.equivalence_key, *self._role(other)) != key:
                break
            number += 1
        return self._visit(number)

    def _role(self, member: QueuedPod) -> tuple[str, str]:
        gang = next(gang for gang in self.group.gangs if member.uid in gang.memberships)
        return gang.name, gang.memberships[member.uid].bundle

    def _may_be_enough(self, number: int) -> bool:
        """Whether the group has what it needs if all from ``number`` on are put."""
        hoped = {name: Counter(bundles) for name, bundles in self.counts.items()}
        for member in self.members[number:]:
            name, bundle = self._role(member)
            hoped[name][bundle] += 1
        return not self.group.lacks_members(hoped)
