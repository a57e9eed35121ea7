"""Finds, for one node, the fewest and least important pods without which a pod would fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Final

from arranger.cluster import BoolArray, PodInfo
from arranger.framework.preemption import (
    EvictionPolicy,
    LimitsAfterEvictions,
    PreemptionContext,
)
from arranger.preemption.disruption_budgets import split_by_pdb_violation
from arranger.preemption.importance import Candidate, by_importance
from arranger.preemption.victim_search import Company, VictimSearch

#: Whether a pod may be evicted for the one in question, beside having a lower priority.
IsPreemptable = Callable[[PodInfo], bool]
#: Units of work for each pod that must leave since another of its gang does.
_EXPANDING: Final = 2
#: Why a node is no candidate.
Reasons = tuple[str, ...]

NO_VICTIMS: Reasons = ("No preemption victims found for incoming pod",)
#: Whole gangs would have to go, some of whose pods may not.
GANG_NOT_EVICTABLE: Reasons = ("node(s) would lose part of a gang that may not be evicted whole",)
#: Who would have to go has not run for long enough, or has been evicted not long ago.
PROTECTED_BY_TIME: Reasons = (
    "node(s) would lose pods that have not run their minimum time, or are back from an eviction",
)


#: Names of gang groups → what it is to evict all of their pods, on whatever node.
WholeGangs = dict[frozenset[str | None], "Candidate | Reasons"]


def breaks_own_gang(policy: EvictionPolicy, pod: PodInfo, victims: Sequence[PodInfo]) -> bool:
    """Whether a pod's own gang group would be left with less than its minimum.

    What it has beyond that a more important member may take, but the group does not leave for one.
    """
    if (own := policy.group_of(pod)) is None:
        return False
    mine = [victim for victim in victims if policy.group_of(victim) == own]
    return bool(mine) and policy.groups_broken(mine) > 0


class VictimSelector:
    """Looks for victims on behalf of one pod (``SelectVictimsOnNode``).

    Attributes:
        resource_only: whether the victims of a node can be told by counting, without asking
            plugins; they depend on nothing then but the node, its pods, budgets, gangs, and where
            they are tight the quotas.
    """

    def __init__(
        self,
        context: PreemptionContext,
        is_preemptable: IsPreemptable,
        reason_cache: dict[tuple[object, ...], Reasons] | None = None,
        exceeded: BoolArray | None = None,
        whole_gangs: WholeGangs | None = None,
    ) -> None:
        """``reason_cache`` remembers what plugins said about pods of the class that lack something.

        ``exceeded`` says of each row whether a quota has too little left for the pod there; where
        it has enough, victims need not be sought with regard to it. ``whole_gangs`` remembers what
        it is to evict gangs whole, while no pod comes or goes.
        """
        self._context = context
        self._cluster = context.cluster
        self._pod = context.pod
        self._is_preemptable = is_preemptable
        self._budgets = context.cluster.budgets
        self._policy = context.policy
        self._quota = context.policy.quota_after_evictions
        self._exceeded = exceeded
        self._reason_cache = {} if reason_cache is None else reason_cache
        self.resource_only = context.resource_only
        #: What queues lose to the pod.
        self.losses = context.policy.losses((context.pod,))
        #: Class of victims → whether the pod may take their place; where time protects nobody.
        self._may_take: dict[Hashable, bool] = {}
        self._whole_gangs = {} if whole_gangs is None else whole_gangs

    def preemptible(self, row: int) -> list[PodInfo]:
        """The pods on a node that may go, the most important first."""
        pods = [pod for pod in self._cluster.table.pods[row].values() if self._can_evict(pod)]
        return by_importance(pods, self._policy.importance)

    def likeness(self, row: int, pods: Sequence[PodInfo]) -> Hashable | None:
        """Equal for nodes and their preemptible pods where the same may leave together, and do or
        do not make enough room; None where more counts than what is said here."""
        if not self.resource_only or any(map(self._policy.in_gang, pods)):
            return None
        table, policy = self._cluster.table, self._policy
        exceeded = self._exceeded is not None and bool(self._exceeded[row])
        if exceeded or not self._context.fits_when_empty[row]:
            return None
        columns, _ = self._pod.request_vector(table.resource_column)
        kinds = list[Hashable]()
        for pod in pods:
            if (requested := pod.sums_key(table.resource_column)) is None:
                return None
            kinds += requested, policy.victim_class(pod), self.losses.kind_of(pod)
        return tuple(table.free(row, columns)), tuple(kinds)

    def next_expiry(self, row: int) -> float:
        """When the next pod on a node may go that only time protects; inf where there is none."""
        policy = self._policy
        if not policy.time_protects:
            return float("inf")
        pods = self._cluster.table.pods[row].values()
        ends = (policy.protected_until(self._pod, pod) for pod in pods if self._is_preemptable(pod))
        return min((end for end in ends if end > policy.now), default=float("inf"))

    def fits_after_expiry(self, row: int) -> bool:
        """Whether it would help to evict those that only time protects as well."""
        policy = self._policy

        def could_evict_later(pod: PodInfo) -> bool:
            return self._can_evict(pod) or (
                self._is_preemptable(pod) and policy.protected_until(self._pod, pod) > policy.now
            )

        pods = list(filter(could_evict_later, self._cluster.table.pods[row].values()))
        with self._cluster.simulate_without(pods):
            return self._context.fits(row)

    def select_victims(self, row: int, preemptible: Sequence[PodInfo]) -> Candidate | Reasons:
        """Who of them must go, or why evicting them does not help."""
        if not preemptible:
            return NO_VICTIMS
        if self.resource_only and self._context.fits_when_empty[row]:
            found = self._by_counting(row, preemptible)
        else:
            found = self._by_trying(row, preemptible)
        if isinstance(found, Candidate) and found.groups_broken:
            return self._sparing_gangs(row, preemptible) or found
        if found is GANG_NOT_EVICTABLE:
            other = self._sparing_gangs(row, preemptible)
            return other or self._search(row, preemptible, self._company) or found
        return found

    def select_for_several(
        self, row: int, preemptible: Sequence[PodInfo], takers: int
    ) -> Candidate | None:
        """Who must go for several pods like this one on a node, by counting.

        None where they would not fit, or where others than resources have a say.
        """
        quota_is_tight = self._exceeded is not None and bool(self._exceeded[row])
        if not (self.resource_only and self._context.fits_when_empty[row]) or quota_is_tight:
            return None
        found = self._by_counting(row, preemptible, takers) if preemptible else None
        return found if isinstance(found, Candidate) else None

    def _by_trying(self, row: int, preemptible: Sequence[PodInfo]) -> Candidate | Reasons:
        node = self._cluster.table.name(row)
        with self._cluster.simulate_without(preemptible):
            if not self._context.fits(row):
                return self._context.reasons(row)

            def reprieve(pod: PodInfo) -> bool:
                self._cluster.simulate_add_pod(pod, node)
                if self._context.fits(row):
                    return True
                self._cluster.simulate_remove_pod(pod)
                return False

            return self._reprieve(row, preemptible, reprieve)

    def _by_counting(
        self, row: int, preemptible: Sequence[PodInfo], takers: int = 1
    ) -> Candidate | Reasons:
        """The same where only resources and quotas decide: no plugin needs to be asked."""
        table = self._cluster.table
        columns, wanted = self._pod.request_vector(table.resource_column)
        slack = table.free(row, columns)
        left = dict[object, int](
            (column, free - takers * amount)
            for column, free, amount in zip(columns, slack, wanted, strict=True)
        )
        quota = self._quota if self._exceeded is not None and self._exceeded[row] else None
        if quota is not None:
            left.update(quota.remaining(self._pod, table.name(row)).items())
        usage = {pod.uid: self._usage(pod, left, quota) for pod in preemptible}
        for amounts in usage.values():
            for limit, amount in amounts:
                left[limit] += amount
        if min(left.values()) < 0:
            if takers > 1:
                return ()
            return self._explain_shortage(row, preemptible, left)

        def reprieve(pod: PodInfo) -> bool:
            amounts = usage[pod.uid]
            for limit, amount in amounts:
                if left[limit] < amount:
                    return False
            for limit, amount in amounts:
                left[limit] -= amount
            return True

        found = self._reprieve(row, preemptible, reprieve)
        if isinstance(found, Candidate) and not found.generous:
            another = all(left[c] >= n for c, n in zip(columns, wanted, strict=True))
            return replace(found, generous=True) if another else found
        return found

    def _explain_shortage(
        self, row: int, preemptible: Sequence[PodInfo], left: dict[object, int]
    ) -> Candidate | Reasons:
        """What would still be too little, in the words of plugins, asked once for each set."""
        # Messages of plugins about resources name the resource; about quotas the amounts, too.
        lacking = tuple(
            (limit, amount) if isinstance(limit, tuple) else limit
            for limit, amount in left.items()
            if amount < 0
        )
        known = self._reason_cache.get(lacking)
        if known is not None:
            return known
        found = self._by_trying(row, preemptible)
        if not isinstance(found, Candidate):
            self._reason_cache[lacking] = found
        return found

    def _usage(
        self, pod: PodInfo, limits: dict[object, int], quota: LimitsAfterEvictions | None
    ) -> list[tuple[object, int]]:
        columns, amounts = pod.request_vector(self._cluster.table.resource_column)
        pairs = zip(columns, amounts, strict=True)
        used: list[tuple[object, int]] = [pair for pair in pairs if pair[0] in limits]
        if quota is not None:
            used += [pair for pair in quota.released_by(pod) if pair[0] in limits]
        return used

    def _reprieve(
        self, row: int, preemptible: Sequence[PodInfo], reprieve: Callable[[PodInfo], bool]
    ) -> Candidate | Reasons:
        """Reprieve the pods that can stay: first those that a budget protects, by importance."""
        importance = self._policy.importance
        leaving, staying = self._split_leaving(preemptible)
        violating: list[PodInfo] = []
        non_violating = staying
        if self._budgets:
            violating, non_violating = split_by_pdb_violation(staying, self._budgets)
        violations = [pod for pod in violating if not reprieve(pod)]
        needed = [pod for pod in non_violating if not reprieve(pod)]
        if violations or leaving:
            needed = by_importance([*leaving, *violations, *needed], importance)
        if not needed:
            return ()
        uids = frozenset(pod.uid for pod in leaving)
        if not any(map(self._policy.in_gang, needed)):
            return Candidate(row, tuple(needed), len(violations), importance, uids)
        broken = self._policy.groups_broken(needed)
        if broken and breaks_own_gang(self._policy, self._pod, needed):
            return GANG_NOT_EVICTABLE
        groups = frozenset(map(self._policy.group_of, needed)) if broken else frozenset[None]()
        if not broken or len(groups) > broken or None in groups:
            return self._expanded(row, needed, len(violations), uids, broken)
        # All of these gangs leave, whichever node it is for.
        if (found := self._whole_gangs.get(groups)) is None:
            found = self._expanded(row, needed, len(violations), uids, broken)
            if isinstance(found, Candidate):
                found = replace(found, known_cost=found.cost())
            self._whole_gangs[groups] = found
        return replace(found, row=row) if isinstance(found, Candidate) else found

    def _expanded(
        self,
        row: int,
        needed: Sequence[PodInfo],
        violations: int,
        leaving_uids: frozenset[str],
        broken: int,
    ) -> Candidate | Reasons:
        """Those who are needed, with all who must leave with them."""
        importance, victims = self._policy.importance, self._policy.expand_to_gang(needed)
        self._cluster.work.count(_EXPANDING * (len(victims) - len(needed)))
        if len(victims) == len(needed):
            return Candidate(
                row, tuple(needed), violations, importance, leaving_uids, groups_broken=broken
            )
        if not all(map(self._can_evict, victims)):
            return GANG_NOT_EVICTABLE
        ordered = by_importance(victims, importance)
        leaving, staying = self._split_leaving(ordered)
        uids = frozenset(pod.uid for pod in leaving)
        violating, _ = split_by_pdb_violation(staying, self._budgets)
        return Candidate(
            row,
            tuple(ordered),
            len(violating),
            importance,
            uids,
            generous=True,
            groups_broken=broken,
        )

    def _sparing_gangs(self, row: int, preemptible: Sequence[PodInfo]) -> Candidate | None:
        """Other victims of the node, by whose leaving no gang breaks.

        Asked where the least important ones would break one, or may not leave.
        """
        policy = self._policy

        def company(pods: Sequence[PodInfo]) -> Sequence[PodInfo] | None:
            allowed = not policy.groups_broken(pods) and self.losses.may_add(pods)
            return pods if allowed else None

        return self._search(row, preemptible, company)

    def _company(self, pods: Sequence[PodInfo]) -> Sequence[PodInfo] | None:
        if breaks_own_gang(self._policy, self._pod, pods):
            return None
        together = self._policy.expand_to_gang(pods)
        may_leave = all(map(self._can_evict, together))
        return together if may_leave and self.losses.may_add(together) else None

    def _search(
        self, row: int, preemptible: Sequence[PodInfo], company: Company
    ) -> Candidate | None:
        """The best victims of the node that may leave together; None where none were found."""
        pods = [pod for pod in preemptible if company([pod]) is not None]
        if not pods or any(pod.uid in self._context.terminating_victims for pod in pods):
            return None

        def fits(pods: Sequence[PodInfo]) -> bool:
            with self._cluster.simulate_without(pods):
                return self._context.fits(row)

        violating, others = split_by_pdb_violation(pods, self._budgets)
        found = VictimSearch(
            [*violating, *others],
            self._policy,
            self._budgets,
            company,
            alike=lambda pod: pod.uid,
            attempts=2 * len(pods),
        ).run(fits)
        if not found.victims:
            return None
        violations, _, broken, *_ = found.cost
        return Candidate(
            row,
            found.victims,
            violations,
            self._policy.importance,
            generous=bool(broken),
            groups_broken=broken,
        )

    def _split_leaving(
        self, pods: Sequence[PodInfo]
    ) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        """Those that are being evicted already, and the others."""
        terminating = self._context.terminating_victims
        if not terminating:
            return (), pods
        leaving = [pod for pod in pods if pod.uid in terminating]
        return leaving, [pod for pod in pods if pod.uid not in terminating] if leaving else pods

    def _can_evict(self, pod: PodInfo) -> bool:
        return self._may_take_place_of(pod) and self._is_preemptable(pod)

    def _may_take_place_of(self, pod: PodInfo) -> bool:
        policy = self._policy
        if policy.by_priority_alone or policy.time_protects:
            return policy.can_preempt(self._pod, pod)
        kind = policy.victim_class(pod)
        known = self._may_take.get(kind)
        if known is None:
            known = self._may_take[kind] = policy.can_preempt(self._pod, pod)
        return known
