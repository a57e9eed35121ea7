"""Finds, node by node, the fewest and least important pods whose leaving makes room for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from arranger.cluster.pod_info import PodInfo
from arranger.framework.what_if import WhatIf
from arranger.preemption.budgets import split
from arranger.preemption.order import Candidate, in_order

#: Whether a pod may be evicted for the one in question, beside having a lower priority.
MayLeave = Callable[[PodInfo], bool]
#: Why a node is no candidate.
Reasons = tuple[str, ...]

NO_VICTIMS: Reasons = ("No preemption victims found for incoming pod",)
#: Whole gangs would have to go, some of whose pods may not.
GANGS: Reasons = ("node(s) would lose part of a gang that may not be evicted whole",)
GUARANTEED: Reasons = ("node(s) hold only pods within what their queue is guaranteed",)
#: The plugins of room and quota: where only they look at pods, victims are found by counting.
COUNTED = frozenset({"NodeResourcesFit", "CapacityCard"})


class VictimSearch:
    """Looks for victims on behalf of one pod (``SelectVictimsOnNode``)."""

    def __init__(self, what_if: WhatIf, may_leave: MayLeave) -> None:
        self._what_if = what_if
        self._cluster = what_if.cluster
        self._pod = what_if.pod
        self._may_leave = may_leave
        self._budgets = tuple(what_if.cluster.budgets.values())
        self._quota = what_if.quota
        self._counts = what_if.evaluation.reads_pods <= COUNTED

    def on(self, row: int) -> Candidate | Reasons:
        """The victims on a node, or why evicting pods there does not help."""
        table = self._cluster.table
        potential = in_order(
            (pod for pod in table.pods[row].values() if self._may_go(pod)), self._what_if.weight
        )
        if not potential:
            return NO_VICTIMS
        if self._counts and self._what_if.evaluation.suitable[row]:
            return self._by_counting(row, potential)
        return self._by_trying(row, potential)

    def _by_trying(self, row: int, potential: Sequence[PodInfo]) -> Candidate | Reasons:
        node = self._cluster.table.name(row)
        with self._cluster.without(potential):
            if not self._what_if.fits(row):
                return self._what_if.why(row)

            def spared(pod: PodInfo) -> bool:
                self._cluster.put_back(pod, node)
                if self._what_if.fits(row):
                    return True
                self._cluster.think_away(pod)
                return False

            return self._reprieved(row, potential, spared)

    def _by_counting(self, row: int, potential: Sequence[PodInfo]) -> Candidate | Reasons:
        """The same where only resources decide: no plugin needs to be asked."""
        table = self._cluster.table
        columns, wanted = table.vector(self._pod)
        free: dict[object, int] = {
            c: int(table.allocatable[c, row] - table.requested[c, row]) for c in columns
        }
        for column, amount in zip(columns, wanted, strict=True):
            free[column] -= amount
        if self._quota is not None:
            room = self._quota.room(self._pod, table.name(row))
            free.update((limit, left) for limit, left in room.items())
        taken = {pod.uid: self._takes(pod, free) for pod in potential}
        for amounts in taken.values():
            for limit, amount in amounts:
                free[limit] += amount
        if min(free.values()) < 0:
            return self._by_trying(row, potential)  # which says what is lacking

        def spared(pod: PodInfo) -> bool:
            amounts = taken[pod.uid]
            if any(free[limit] < amount for limit, amount in amounts):
                return False
            for limit, amount in amounts:
                free[limit] -= amount
            return True

        return self._reprieved(row, potential, spared)

    def _takes(self, pod: PodInfo, limits: dict[object, int]) -> list[tuple[object, int]]:
        """What a pod takes of the limits that matter."""
        taken: list[tuple[object, int]] = [*zip(*self._cluster.table.vector(pod), strict=True)]
        if self._quota is not None:
            taken += self._quota.frees(pod)
        return [(limit, amount) for limit, amount in taken if limit in limits]

    def _reprieved(
        self, row: int, potential: Sequence[PodInfo], spared: Callable[[PodInfo], bool]
    ) -> Candidate | Reasons:
        """Spare whom the pod can do without: first the protected, the most important first."""
        protected, free = split(potential, self._budgets)
        broken = [pod for pod in protected if not spared(pod)]
        others = [pod for pod in free if not spared(pod)]
        weight = self._what_if.weight
        alone = in_order([*broken, *others], weight)
        if not alone:
            return ()
        victims = self._what_if.company(alone)
        if len(victims) == len(alone):
            if not self._what_if.allows(alone):
                return GUARANTEED
            return Candidate(row, tuple(alone), len(broken), weight)
        if not all(map(self._may_go, victims)):
            return GANGS
        ordered = in_order(victims, weight)
        if not self._what_if.allows(ordered):
            return GUARANTEED
        protected, _ = split(ordered, self._budgets)
        return Candidate(row, tuple(ordered), len(protected), weight)

    def _may_go(self, pod: PodInfo) -> bool:
        return self._what_if.may_take(self._pod, pod) and self._may_leave(pod)


def search(
    what_if: WhatIf, rows: Iterable[int], may_leave: MayLeave
) -> tuple[list[Candidate], dict[int, Reasons]]:
    """(candidates, row → why not) for the nodes where evictions might help."""
    finder = VictimSearch(what_if, may_leave)
    candidates: list[Candidate] = []
    reasons: dict[int, Reasons] = {}
    for row in rows:
        found = finder.on(row)
        if isinstance(found, Candidate):
            candidates.append(found)
        else:
            reasons[row] = found
    return candidates, reasons
