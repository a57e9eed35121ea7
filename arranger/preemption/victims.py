"""Finds, for one node, the fewest and least important pods whose leaving makes room for a pod."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from arranger.cluster.columns import BoolArray
from arranger.cluster.pod_info import PodInfo
from arranger.framework.runtime.dry_run import Allows, Company, Quota, WhatIf
from arranger.preemption.disruption_budgets import split
from arranger.preemption.importance import Candidate, in_order

#: Whether a pod may be evicted for the one in question, beside having a lower priority.
MayLeave = Callable[[PodInfo], bool]
#: Why a node is no candidate.
Reasons = tuple[str, ...]

NO_VICTIMS: Reasons = ("No preemption victims found for incoming pod",)
#: Whole gangs would have to go, some of whose pods may not.
GANGS: Reasons = ("node(s) would lose part of a gang that may not be evicted whole",)
#: Who would have to go has not run for long enough, or has been evicted not long ago.
SPARED: Reasons = (
    "node(s) would lose pods that have not run their minimum time, or are back from an eviction",
)
#: The plugins of room and quota: where only they look at pods, victims are found by counting.
COUNTED = frozenset({"NodeResourcesFit", "CapacityCard"})


def allowed(pods: Sequence[PodInfo], company: Company, allows: Allows) -> list[PodInfo]:
    """As many of the pods, the most important first, as may be evicted together.

    The least important are taken first.
    """
    if not pods or allows(company(pods)):
        return list(pods)
    chosen: list[PodInfo] = []
    for pod in reversed(pods):
        if allows(company([*chosen, pod])):
            chosen.append(pod)
    return chosen[::-1]


class VictimSearch:
    """Looks for victims on behalf of one pod (``SelectVictimsOnNode``).

    Attributes:
        company: for pods that leave together, these and all that must then leave with them.
        counts: whether the victims of a node can be told by counting, without asking plugins; they
            depend on nothing then but the node, its pods, budgets, gangs, and where they are tight
            the quotas.
    """

    def __init__(
        self,
        what_if: WhatIf,
        may_leave: MayLeave,
        words: dict[tuple[object, ...], Reasons] | None = None,
        tight: BoolArray | None = None,
    ) -> None:
        """``words`` remembers what plugins said about pods of the class that lack something.

        ``tight`` says of each row whether a quota has too little left for the pod there; where it
        has enough, victims need not be sought with regard to it.
        """
        self._what_if = what_if
        self._cluster = what_if.cluster
        self._pod = what_if.pod
        self._may_leave = may_leave
        self._budgets = tuple(what_if.cluster.budgets.values())
        self._quota = what_if.quota
        self._tight = tight
        self.company = what_if.company
        self._words = {} if words is None else words
        self.counts = what_if.evaluation.reads_pods <= COUNTED

    def potential(self, row: int) -> list[PodInfo]:
        """The pods on a node that may go, the most important first."""
        pods = [pod for pod in self._cluster.table.pods[row].values() if self._may_go(pod)]
        return in_order(pods, self._what_if.weight)

    def until(self, row: int) -> float:
        """When the next pod on a node may go that only time protects; inf where there is none."""
        spared = self._what_if.spared
        if spared is None:
            return float("inf")
        pods = self._cluster.table.pods[row].values()
        ends = (spared.until(self._pod, pod) for pod in pods if self._may_leave(pod))
        return min((end for end in ends if end > spared.now), default=float("inf"))

    def in_time(self, row: int) -> bool:
        """Whether it would help to evict those that only time protects as well."""
        spared = self._what_if.spared
        assert spared is not None, "time protects somebody"

        def may_go(pod: PodInfo) -> bool:
            return self._may_go(pod) or (
                self._may_leave(pod) and spared.until(self._pod, pod) > spared.now
            )

        pods = list(filter(may_go, self._cluster.table.pods[row].values()))
        with self._cluster.without(pods):
            return self._what_if.fits(row)

    def among(self, row: int, potential: Sequence[PodInfo]) -> Candidate | Reasons:
        """Who of them must go, or why evicting them does not help."""
        if not potential:
            return NO_VICTIMS
        if self.counts and self._what_if.evaluation.suitable[row]:
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
        slack = (table.allocatable[columns, row] - table.requested[columns, row]).tolist()
        left = dict[object, int](
            (column, free - amount)
            for column, free, amount in zip(columns, slack, wanted, strict=True)
        )
        quota = self._quota if self._tight is not None and self._tight[row] else None
        if quota is not None:
            left.update(quota.room(self._pod, table.name(row)).items())
        taken = {pod.uid: self._takes(pod, left, quota) for pod in potential}
        for amounts in taken.values():
            for limit, amount in amounts:
                left[limit] += amount
        if min(left.values()) < 0:
            return self._lacking(row, potential, left)

        def spared(pod: PodInfo) -> bool:
            amounts = taken[pod.uid]
            for limit, amount in amounts:
                if left[limit] < amount:
                    return False
            for limit, amount in amounts:
                left[limit] -= amount
            return True

        return self._reprieved(row, potential, spared)

    def _lacking(
        self, row: int, potential: Sequence[PodInfo], left: dict[object, int]
    ) -> Candidate | Reasons:
        """What would still be too little, in the words of plugins, asked once for each set."""
        # What plugins say of room names the resource, and what they say of quotas the numbers too.
        lacking = tuple(
            (limit, amount) if isinstance(limit, tuple) else limit
            for limit, amount in left.items()
            if amount < 0
        )
        known = self._words.get(lacking)
        if known is not None:
            return known
        found = self._by_trying(row, potential)
        if not isinstance(found, Candidate):
            self._words[lacking] = found
        return found

    def _takes(
        self, pod: PodInfo, limits: dict[object, int], quota: Quota | None
    ) -> list[tuple[object, int]]:
        """What a pod takes of the limits that matter."""
        columns, amounts = self._cluster.table.vector(pod)
        taken: list[tuple[object, int]] = [
            pair for pair in zip(columns, amounts, strict=True) if pair[0] in limits
        ]
        if quota is not None:
            taken += [pair for pair in quota.frees(pod) if pair[0] in limits]
        return taken

    def _reprieved(
        self, row: int, potential: Sequence[PodInfo], spared: Callable[[PodInfo], bool]
    ) -> Candidate | Reasons:
        """Spare whom the pod can do without: first the protected, the most important first."""
        weight = self._what_if.weight
        protected: list[PodInfo] = []
        free = potential
        if self._budgets:
            protected, free = split(potential, self._budgets)
        broken = [pod for pod in protected if not spared(pod)]
        alone = [pod for pod in free if not spared(pod)]
        if broken:
            alone = in_order([*broken, *alone], weight)
        if not alone:
            return ()
        victims = self._what_if.company(alone)
        if len(victims) == len(alone):
            return Candidate(row, tuple(alone), len(broken), weight)
        if not all(map(self._may_go, victims)):
            return GANGS
        ordered = in_order(victims, weight)
        protected, _ = split(ordered, self._budgets)
        return Candidate(row, tuple(ordered), len(protected), weight)

    def _may_go(self, pod: PodInfo) -> bool:
        return self._what_if.may_take(self._pod, pod) and self._may_leave(pod)
