"""Tries other ways to place a small gang group, where one after the other does not do.

Members of different sizes, or with a say on where the others go, may fit in one way and not in
another: the largest first on the best node each is a good guess and no more. All ways are tried,
first by numbers alone, which tells at once that there is too little room, and then for real.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from arranger.cluster.cluster import Cluster
from arranger.engine.context.entity import QueuedPod
from arranger.engine.gang.placement.boards import (
    MAX_COUNTED_ROWS,
    Board,
    NumbersBoard,
    Placements,
    RealBoard,
    SearchEffort,
    class_by_numbers,
    role_in,
)
from arranger.engine.gang.steps import PLACING, ROWS_PER_UNIT
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.gangs.group import GangGroup

#: Members of groups for which other ways are tried.
MAX_MEMBERS: Final = 12
#: Classes of members up to which it is worked out whether there is hope in ways not tried.
MAX_CLASSES: Final = 64

_class_of: Final = attrgetter("equivalence_key")


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
        work, untried = self._cluster.work, effort.left <= 0 or len(members) > MAX_MEMBERS
        class_of = class_by_numbers if untried else _class_of
        kinds = len(set(map(class_of, members)))
        if untried and kinds > MAX_CLASSES:
            effort.leave_untried()  # to compare the numbers of so many is too dear
            return False
        work.count(kinds * self._cluster.table.size // ROWS_PER_UNIT)
        with work.unlimited():
            if not self._may_differ(members) or (untried and effort.bounded):
                return False
            placed = [m.pod for m in members if m.uid in self._cluster]
            movable = [*self._nominator.visible_pods(), *placed]
            devices = self._cluster.devices
            held_devices = devices.lift([pod.uid for pod in placed])  # they may be another's
            try:
                board = NumbersBoard(
                    self._cluster, self._cycle, row_mask, movable, members, effort, class_of
                )
            finally:
                back = devices.put_back(held_devices)
            assert back, "nothing has come between"
            counts = group.count_by_bundle(held)
            if not board.has_room_for_each(group, counts):
                return False
            if untried:
                effort.leave_untried()
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
        with self._in_one_step(effort):
            held, in_any_order = list(held), self._depends_on_order(members)
            # Where they go may depend on who was there first: the smallest first is another order.
            searches: list[tuple[type[_Search | _AnyOrderSearch], Sequence[QueuedPod]]]
            searches = [(_Search, members), (_Search, members[::-1])]
            exhausted = False
            for kind, order in [*searches, *([(_AnyOrderSearch, members)] if in_any_order else [])]:
                board = RealBoard(self._cluster, self._cycle, row_mask, effort.half())
                found = kind(group, order, group.count_by_bundle(held), board).run()
                effort.give_back(board.effort)
                if found:
                    return board.placed
                all_tried = not board.effort.bounded
                exhausted |= all_tried and (kind is _AnyOrderSearch or not in_any_order)
            if not exhausted:
                effort.leave_untried()
            return None

    @contextmanager
    def _in_one_step(self, effort: SearchEffort) -> Iterator[None]:
        """No limit holds inside; the members that were placed are counted at the end."""
        work, left = self._cluster.work, effort.left
        with work.unlimited():
            yield
        work.count((left - effort.left) * PLACING)

    def _depends_on_order(self, members: Sequence[QueuedPod]) -> bool:
        """Whether a member may fit only after others, as with affinity and topology spread."""
        for member in {each.equivalence_key: each for each in members}.values():
            evaluation = self._cycle.evaluate(member.profile, member.pod, member.signature)
            if evaluation.filters_about_others:
                return True
        return False

    def _may_differ(self, members: Sequence[QueuedPod]) -> bool:
        """Whether some way may do where placing one after the other does not."""
        if len(members) < 2:
            return False
        if len(set(map(self._cycle.kind_of, members))) > 1:
            return True
        first = members[0]
        evaluation = self._cycle.evaluate(first.profile, first.pod, first.signature)
        return not evaluation.pod_dependent_filters <= first.profile.resource_filters


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
        key = self.board.kind_of(member), name, bundle
        while number < len(self.members):
            other = self.members[number]
            if (self.board.kind_of(other), *role_in(self.group, other)) != key:
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


@dataclass(slots=True)
class _AnyOrderSearch:
    """Puts members on a board in any order, until the group has what it needs.

    For members that fit only while others are where they are: those of the same skew, say, are
    placed by turns in two zones, whatever their sizes.
    """

    group: GangGroup
    members: Sequence[QueuedPod]
    counts: Mapping[str, Counter[str]]
    board: RealBoard
    #: Members put, by kind and row, from which no way leads on.
    _seen: set[frozenset[tuple[Hashable, int]]] = field(default_factory=set)
    #: (kind, row) → how many members are there.
    _put: Counter[Hashable] = field(default_factory=Counter)

    def run(self) -> bool:
        """Whether there is a way; the members stay where they are put then."""
        if not self.group.lacks_members(self.counts):
            return True
        state = frozenset(self._put.items())
        if state in self._seen:
            return False
        self._seen.add(state)
        placed, kinds = {member.uid for member, _ in self.board.placed}, set[Hashable]()
        for member in self.members:
            name, bundle = role_in(self.group, member)
            kind = self.board.kind_of(member), name, bundle
            if member.uid in placed or kind in kinds or not self._is_needed(name, bundle):
                continue
            kinds.add(kind)
            for row in self.board.rows(member) if self.board.effort.left > 0 else ():
                if not self.board.put(member, row):
                    continue
                self.counts[name][bundle] += 1
                self._put[kind, row] += 1
                if self.run():
                    return True
                self.counts[name][bundle] -= 1
                self._put[kind, row] -= 1
                self._put = +self._put
                self.board.take_back(member)
        return False

    def _is_needed(self, name: str, bundle: str) -> bool:
        gang = next(gang for gang in self.group.gangs if gang.name == name)
        return gang.advances_minimum(bundle, self.counts[name])
