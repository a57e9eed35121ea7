"""Looks for the victims by whose leaving a gang group fits on some rows.

Where the candidates are few the best set of all is searched for. Where they are many, the least
important ones that are enough are taken, of these the nodes on which they cost least, and only
those are searched that must leave there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Final

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import QueuedPod
from arranger.engine.gang.links import GangLinks
from arranger.engine.gang.placement.topology import age
from arranger.engine.gang.preemption.candidates import PreemptionCandidates
from arranger.engine.gang.preemption.dry_placement import DryPlacement
from arranger.framework.preemption import EvictionPolicy
from arranger.preemption.victim_search import MAX_CANDIDATES, VictimSearch, VictimSet, cost_of

#: Candidates times members, up to which the best set of all candidates is searched for.
MAX_SEARCH_COST: Final = 2048
#: Members placed in one search beside the first way down, at about 0.1 ms each.
MAX_EFFORT: Final = 1024
#: Victims that cost as much time to take away as one member to place.
_VICTIMS_PER_MEMBER: Final = 16
#: How often a plan of many is tried with fewer; each try costs as much as placing the group.
MAX_SHRINK_ATTEMPTS: Final = 16


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """Looks for victims for one group.

    Args:
        members: those that wait for nodes.
    """

    _cluster: Cluster
    _policy: EvictionPolicy
    _links: GangLinks
    _candidates: PreemptionCandidates
    _members: Sequence[QueuedPod]

    def is_small(self, pods: Sequence[PodInfo]) -> bool:
        """Whether all sets of these can be compared in reasonable time."""
        return len(pods) <= MAX_CANDIDATES and len(pods) * len(self._members) <= MAX_SEARCH_COST

    # --- few candidates --------------------------------------------------------------------

    def best_of(self, group: DryPlacement, pods: Sequence[PodInfo]) -> VictimSet:
        """The best set of victims among these pods, or the best that was found in time.

        All of them together are enough. Where the least important are, or those beyond the minimum
        of their gangs, only such sets are compared.
        """
        violating = self._candidates.violating(pods)
        enough = list(pods) if violating else self._least_important(group, pods)
        assert enough is not None, "all are enough"
        surplus = [pod for pod in enough if not self._policy.groups_broken([pod])]
        first = VictimSet()
        if not violating and len(surplus) < len(enough) and group.fits_without(surplus):
            first = self._search(group, surplus)
            if first.victims and not first.groups_broken:
                return first
        found = self._search(group, enough)
        if not found.victims and len(enough) < len(pods):
            found = self._search(group, pods)
        found = min(found, first, key=lambda each: each.cost)
        return found if found.victims or found.proven else self.good_of(group, pods)

    def _search(self, group: DryPlacement, pods: Sequence[PodInfo]) -> VictimSet:
        each = len(self._members) + len(pods) // _VICTIMS_PER_MEMBER
        search = VictimSearch(
            pods,
            self._policy,
            tuple(self._cluster.budgets.values()),
            self._candidates.company,
            group.fits_without,
            self._alike,
            attempts=len(pods) + MAX_EFFORT // max(each, 1),
            fewest=group.fewest_victims(pods),
        )
        return search.run()

    def _alike(self, pod: PodInfo) -> Hashable:
        """Equal for pods of which any may leave in another's place."""
        meta = pod.pod.metadata
        labels = frozenset(meta.labels.items())
        role = self._links.role_of(pod)
        return (self._cluster.node_of(pod.uid), pod.spec_key, meta.namespace, labels, role)

    # --- many ------------------------------------------------------------------------------

    def good_of(self, group: DryPlacement, pods: Sequence[PodInfo]) -> VictimSet:
        """A set of victims among many in which each is needed, if not the best of all."""
        found = self._good_of(group, pods)
        if found.victims:
            return found
        # Those that are needed may not leave together; there may be others.
        allowed = self._candidates.allowed_together(pods)
        return self._good_of(group, allowed) if len(allowed) < len(pods) else found

    def _good_of(self, group: DryPlacement, pods: Sequence[PodInfo]) -> VictimSet:
        enough = self._least_important(group, pods)
        if enough is None:
            return VictimSet(proven=False)
        surplus = self._candidates.breaking_nobody(enough)
        if len(surplus) < len(enough) and group.fits_without(surplus):
            enough = surplus
        by_node = self._candidates.by_node(enough, min(self._members, key=age).pod)
        count = _fewest(len(by_node), lambda n: group.fits_without(_first(by_node, n)))
        chosen = self._shrink(group, _first(by_node, count) if count is not None else enough)
        # Whether all of these are needed, or which of the others if they may not leave together.
        few = self._candidates.ordered(chosen or enough)
        if len(few) <= MAX_CANDIDATES and len(few) * len(self._members) <= 2 * MAX_EFFORT:
            better = self._search(group, few)
            if better.victims or chosen is None:
                return replace(better, proven=False)
        if chosen is None:
            return VictimSet(proven=False)
        budgets, victims = tuple(self._cluster.budgets.values()), tuple(few)
        return VictimSet(victims, cost_of(victims, self._policy, budgets), proven=False)

    def _least_important(
        self, group: DryPlacement, pods: Sequence[PodInfo]
    ) -> list[PodInfo] | None:
        """Those of as little importance as is enough; None if all are too few."""
        tiers = [list(tier) for _, tier in groupby(reversed(pods), key=self._policy.importance)]
        count = _fewest(len(tiers), lambda n: group.fits_without(_first(tiers, n)))
        return None if count is None else _first(tiers, count)[::-1]

    def _shrink(self, group: DryPlacement, pods: Sequence[PodInfo]) -> list[PodInfo] | None:
        """The fewest victims that are found in :data:`MAX_SHRINK_ATTEMPTS`.

        Which victims are needed depends on where the members go. So these are placed again with
        half of the victims left alone, then with a quarter, and so on.
        """
        best, attempts = self._needed(group, pods), MAX_SHRINK_ATTEMPTS
        size = 0 if best is None else len(best) // 2
        while best is not None and size and attempts:
            for start in range(0, len(best), size):
                rest = [*best[:start], *best[start + size :]]
                attempts -= 1
                other = self._needed(group, rest) if rest else None
                if other is not None and len(other) < len(best):
                    best = other
                    break
                if not attempts:
                    break
            else:
                size //= 2
            size = min(size, len(best) // 2)
        return best

    def _needed(self, group: DryPlacement, pods: Sequence[PodInfo]) -> list[PodInfo] | None:
        """Those of the pods that must leave, with their company; None if that is not enough."""
        needed = group.needed(self._candidates.ordered(pods))
        return None if needed is None else self._candidates.company(needed)


def _fewest(most: int, fits: Callable[[int], bool]) -> int | None:
    """How many of ``most`` are enough; None if all are too few.

    Found by doubling and bisection, as if more were never worse.
    """
    high = 1
    while not fits(min(high, most)):
        if high >= most:
            return None
        high *= 2
    low, high = high // 2, min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _first(parts: Sequence[list[PodInfo]], count: int) -> list[PodInfo]:
    return list(chain.from_iterable(parts[:count]))
