"""Looks for the victims by whose leaving a gang group fits on some rows.

Where the candidates are few the best set of all is searched for. Where they are many, the least
important ones that are enough are taken, of these the nodes on which they cost least, and only
those are searched that must leave there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from arranger.api.types.packed import labels_key
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.engine.gang.links import GangLinks
from arranger.engine.gang.placement.topology import age
from arranger.engine.gang.preemption.candidates import PreemptionCandidates
from arranger.engine.gang.preemption.dry_placement import DryPlacement
from arranger.engine.gang.preemption.leaving_requests import LeavingRequests
from arranger.engine.gang.preemption.trial import Between, PlanSteps
from arranger.framework.preemption import EvictionPolicy
from arranger.preemption.victim_search import MAX_CANDIDATES, VictimSearch, VictimSet, cost_of

#: Candidates times members, up to which the best set of all candidates is searched for.
MAX_SEARCH_COST: Final = 2048
#: Members placed in one search beside the first way down, at about 0.1 ms each.
MAX_EFFORT: Final = 1024
#: Victims that cost as much time to take away as one member to place.
_VICTIMS_PER_MEMBER: Final = 16
#: Pods up to which all are taken away at once, to see whether that is enough.
MANY_MOVED: Final = 4096
#: How often a plan of many is tried with fewer; each try costs as much as placing the group.
MAX_SHRINK_ATTEMPTS: Final = 16
#: Pods that are put into tiers at once.
_SLICE: Final = 1000


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
    _leaving: LeavingRequests
    _between: Between

    def is_small(self, pods: Sequence[PodInfo]) -> bool:
        """Whether all sets of these can be compared in reasonable time."""
        return len(pods) <= MAX_CANDIDATES and len(pods) * len(self._members) <= MAX_SEARCH_COST

    # --- few candidates --------------------------------------------------------------------

    def best_of(self, group: DryPlacement, pods: Sequence[PodInfo]) -> PlanSteps[VictimSet]:
        """The best set of victims among these pods, or the best that was found in time.

        All of them together are enough. Where the least important are, or those beyond the minimum
        of their gangs, only such sets are compared.
        """
        violating = self._candidates.violating(pods)
        least = None if violating else (yield from self._least_important(group, pods))
        enough = list(pods) if least is None else least
        surplus = [pod for pod in enough if not self._policy.groups_broken([pod])]
        first = VictimSet()
        if not violating and len(surplus) < len(enough) and (yield from self._fits(group, surplus)):
            first = yield from self._search(group, surplus)
            if first.victims and not first.groups_broken:
                return first
        found = yield from self._search(group, enough)
        if not found.victims and len(enough) < len(pods):
            found = yield from self._search(group, pods)
        found = min(found, first, key=lambda each: each.cost)
        if found.victims or found.proven:
            return found
        return (yield from self.good_of(group, pods))

    def _search(self, group: DryPlacement, pods: Sequence[PodInfo]) -> PlanSteps[VictimSet]:
        each = len(self._members) + len(pods) // _VICTIMS_PER_MEMBER
        questions = VictimSearch(
            pods,
            self._policy,
            self._cluster.budgets,
            self._candidates.company,
            self._alike,
            attempts=len(pods) + MAX_EFFORT // max(each, 1),
            fewest=group.fewest_victims(pods),
        ).questions()
        try:
            asked = next(questions)
            while True:
                asked = questions.send((yield from self._fits(group, asked)))
        except StopIteration as end:
            found: VictimSet = end.value
            return found

    def _fits(self, group: DryPlacement, pods: Sequence[PodInfo]) -> PlanSteps[bool]:
        """Whether the group fits if these leave; nobody is placed where requests alone say no."""
        return (yield from self.may_do(group, pods)) and (yield from group.fits_without(pods))

    def _alike(self, pod: PodInfo) -> Hashable:
        """Equal for pods of which any may leave in another's place."""
        meta = pod.pod.metadata
        labels = labels_key(meta.labels)
        role = self._links.role_of(pod)
        return (self._cluster.node_of(pod.uid), pod.spec_key, meta.namespace, labels, role)

    # --- many ------------------------------------------------------------------------------

    def good_of(self, group: DryPlacement, pods: Sequence[PodInfo]) -> PlanSteps[VictimSet]:
        """A set of victims among many in which each is needed, if not the best of all."""
        found = yield from self._good_of(group, pods)
        if found.victims:
            return found
        # Those that are needed may not leave together; there may be others.
        allowed = yield from self._candidates.allowed_together(pods)
        return (yield from self._good_of(group, allowed)) if len(allowed) < len(pods) else found

    def may_do(self, group: DryPlacement, pods: Sequence[PodInfo]) -> PlanSteps[bool]:
        """Whether the requests alone allow that these are enough."""
        if not group.numbers.decides:
            return True
        free = yield from self._leaving.free_without(pods)
        if free is None or group.numbers.may_fit(free):
            return True
        self._between.on_rejected(self._members[0].profile.node_resource_filters)
        return False

    def _good_of(self, group: DryPlacement, pods: Sequence[PodInfo]) -> PlanSteps[VictimSet]:
        enough = yield from self._least_important(group, pods)
        if enough is None:
            return VictimSet(proven=False)
        surplus = yield from self._candidates.breaking_nobody(enough)
        if len(surplus) < len(enough) and (yield from self._are_enough(group, surplus)):
            enough = surplus
        chosen = yield from self._shrink(group, (yield from self._cheapest(group, enough)))
        # Whether all of these are needed, or which of the others if they may not leave together.
        few = yield from self._candidates.ordered(chosen or enough)
        compared = len(few) <= MAX_CANDIDATES and not self._between.is_thrifty
        if compared and len(few) * len(self._members) <= 2 * MAX_EFFORT:
            better = yield from self._search(group, few)
            if better.victims or chosen is None:
                return replace(better, proven=False)
        if chosen is None:
            return VictimSet(proven=False)
        victims, budgets = tuple(few), self._cluster.budgets
        return VictimSet(victims, cost_of(victims, self._policy, budgets), proven=False)

    def _least_important(
        self, group: DryPlacement, pods: Sequence[PodInfo]
    ) -> PlanSteps[list[PodInfo] | None]:
        """Those of as little importance as is enough; None if all are too few."""
        tiers, last = list[list[PodInfo]](), None
        for n, pod in enumerate(reversed(pods)):
            if n % _SLICE == 0:
                yield from self._candidates.may_rest(_SLICE // 2)
            importance = self._policy.importance(pod)
            if importance != last:
                tiers.append([])
                last = importance
            tiers[-1].append(pod)
        count = yield from _fewest(len(tiers), lambda n: self._are_enough(group, _first(tiers, n)))
        return None if count is None else _first(tiers, count)[::-1]

    def _are_enough(self, group: DryPlacement, pods: Sequence[PodInfo]) -> PlanSteps[bool]:
        """Whether the group fits if these leave, or some of them where they are many."""
        if len(pods) <= MANY_MOVED:
            return (yield from self._fits(group, pods))
        if not (yield from self.may_do(group, pods)):
            return False
        by_node = yield from self._by_node(pods)
        return (yield from self._enough_nodes(group, by_node, fewest=False)) is not None

    def _cheapest(self, group: DryPlacement, pods: list[PodInfo]) -> PlanSteps[list[PodInfo]]:
        """Those on the nodes where they cost least, as few nodes as are enough."""
        by_node = yield from self._by_node(pods)
        count = yield from self._enough_nodes(group, by_node, fewest=True)
        return pods if count is None else _first(by_node, count)

    def _enough_nodes(
        self, group: DryPlacement, by_node: Sequence[list[PodInfo]], *, fewest: bool
    ) -> PlanSteps[int | None]:
        """How many of the nodes are enough, the ``fewest`` or so; None if all are too few."""
        high = yield from self._fewest_by_numbers(group, by_node)
        low = high - 1
        while not (yield from group.fits_without(_first(by_node, high))):
            if high >= len(by_node):
                return None
            low, high = high, min(2 * high, len(by_node))
        while fewest and high - low > 1 and not self._between.is_thrifty:
            middle = (low + high) // 2
            enough = yield from group.fits_without(_first(by_node, middle))
            low, high = (low, middle) if enough else (middle, high)
        return high

    def _fewest_by_numbers(
        self, group: DryPlacement, by_node: Sequence[list[PodInfo]]
    ) -> PlanSteps[int]:
        """On how many nodes they have to leave at least; on all if that is not enough."""
        count = yield from _fewest(len(by_node), lambda n: self.may_do(group, _first(by_node, n)))
        return len(by_node) if count is None else count

    def _by_node(self, pods: Sequence[PodInfo]) -> PlanSteps[list[list[PodInfo]]]:
        like = min(self._members, key=age).pod
        return (yield from self._candidates.by_node(pods, like))

    def _shrink(
        self, group: DryPlacement, pods: Sequence[PodInfo]
    ) -> PlanSteps[list[PodInfo] | None]:
        """The fewest victims that are found in :data:`MAX_SHRINK_ATTEMPTS`.

        Which victims are needed depends on where the members go. So these are placed again with
        half of the victims left alone, then with a quarter, and so on.
        """
        best, attempts = (yield from self._needed(group, pods)), MAX_SHRINK_ATTEMPTS
        size = 0 if best is None else len(best) // 2
        yield from self._candidates.may_rest(2 * size)
        if best is not None and group.fewest_victims(best) >= len(best):
            return best
        while best is not None and size and attempts and not self._between.is_thrifty:
            for start in range(0, len(best), size):
                rest = [*best[:start], *best[start + size :]]
                attempts -= 1
                other = (yield from self._needed_of(group, rest)) if rest else None
                if other is not None and len(other) < len(best):
                    best = other
                    break
                if not attempts or self._between.is_thrifty:
                    break
            else:
                size //= 2
            size = min(size, len(best) // 2)
        return best

    def _needed_of(
        self, group: DryPlacement, pods: Sequence[PodInfo]
    ) -> PlanSteps[list[PodInfo] | None]:
        """As :meth:`_needed`, without placing anybody where the requests alone say no."""
        if not (yield from self.may_do(group, pods)):
            return None
        return (yield from self._needed(group, pods))

    def _needed(
        self, group: DryPlacement, pods: Sequence[PodInfo]
    ) -> PlanSteps[list[PodInfo] | None]:
        """Those of the pods that must leave, with their company; None if that is not enough."""
        ordered = yield from self._candidates.ordered(pods)
        needed = yield from group.needed(ordered)
        if needed is None:
            return None
        yield from self._candidates.may_rest(len(needed))
        return self._candidates.company(needed)


def _fewest(most: int, fits: Callable[[int], PlanSteps[bool]]) -> PlanSteps[int | None]:
    """How many of ``most`` are enough; None if all are too few.

    Found by doubling and bisection, as if more were never worse.
    """
    high = 1
    while not (yield from fits(min(high, most))):
        if high >= most:
            return None
        high *= 2
    low, high = high // 2, min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if (yield from fits(middle)) else (middle, high)
    return high


def _first(parts: Sequence[list[PodInfo]], count: int) -> list[PodInfo]:
    return list(chain.from_iterable(parts[:count]))
