"""Plans whom to evict for a gang group: nobody, unless all that it needs then fits.

First all pods that could be evicted are found. Where they are few, the best set of victims is
searched for: for each set the group is placed anew in memory. Where they are many, the least
important ones that are enough are taken, of these the nodes on which they cost least, and only
those are searched that must leave there. See ``docs/design/preemption.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Final

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.links import GangLinks
from arranger.engine.gang.placement_search import SearchEffort
from arranger.engine.gang.preemption.candidates import PreemptionCandidates, preemptors_of
from arranger.engine.gang.preemption.dry_placement import DryPlacement, Placements
from arranger.engine.gang.scheduling_cycle import GangSchedulingCycle
from arranger.engine.gang.topology import age
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy
from arranger.preemption.victim_search import MAX_CANDIDATES, VictimSearch, VictimSet, cost_of

#: Candidates times members, up to which the best set of all candidates is searched for.
MAX_SEARCH_COST: Final = 2048
#: Members placed in one search of victims, at about 0.1 ms each.
MAX_EFFORT: Final = 2048
#: How often a plan of many is tried with fewer; each try costs as much as placing the group.
MAX_SHRINK_ATTEMPTS: Final = 16


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Whom to evict, and where the members go then; without victims preemption does not help.

    Attributes:
        proven: whether no cheaper set of victims would do.
        time_protected: whether any pod was no candidate only because time protects it for now.
    """

    placements: Placements = ()
    victims: tuple[PodInfo, ...] = ()
    proven: bool = True
    time_protected: bool = False


@dataclass(frozen=True, slots=True)
class GangPreemptionPlanner:
    """Plans preemption for gang groups; changes nothing but in memory, and undoes that.

    Args:
        cycle: places whole groups.
        pod_cycle: evaluates single pods.
        policy: who may be evicted for whom.
        links: who is in one gang group.
    """

    _cluster: Cluster
    _nominator: Nominator
    _pod_cycle: SchedulingCycle
    _cycle: GangSchedulingCycle
    _policy: EvictionPolicy
    _links: GangLinks

    def plan(self, entity: QueuedEntity) -> PreemptionPlan:
        """The cheapest plan found that makes room for the group."""
        members = list(entity.ready())
        plugin = entity.profile.evicting_plugin
        if plugin is None or not _may_preempt(entity, members):
            return PreemptionPlan()
        own = frozenset(chain.from_iterable(g.memberships for g in entity.gang_group.gangs))
        preemptors = preemptors_of((member.pod for member in members), self._policy)
        candidates = PreemptionCandidates(
            self._cluster, self._nominator, self._policy, self._links, plugin, preemptors, own
        )
        search = _PlanSearch(self._cluster, self._policy, self._links, candidates, members)
        pods, effort = candidates.found(), SearchEffort(MAX_EFFORT)
        with self._cycle.dry_run(entity):
            for row_mask in self._row_masks(entity, pods) if pods else ():
                group = DryPlacement(
                    self._cluster,
                    self._pod_cycle,
                    self._cycle,
                    self._policy,
                    entity,
                    row_mask,
                    effort,
                )
                search.add(group, pods)
        best = search.best
        return PreemptionPlan(
            search.placements,
            best.victims if best is not None else (),
            best is None or best.proven,
            candidates.time_protected,
        )

    def _row_masks(
        self, entity: QueuedEntity, candidates: Sequence[PodInfo]
    ) -> Sequence[RowMask | None]:
        """Where the group could be if all candidates had left: domains, or anywhere (None)."""
        with self._cluster.simulate_without(candidates):
            return list(self._cycle.row_masks(entity))


@dataclass(slots=True, eq=False)
class _PlanSearch:
    """The best plan of those for one domain after the other.

    Attributes:
        placements: where the members go if the ``best`` set of victims leaves.
    """

    _cluster: Cluster
    _policy: EvictionPolicy
    _links: GangLinks
    _candidates: PreemptionCandidates
    _members: Sequence[QueuedPod]
    best: VictimSet | None = None
    placements: Placements = ()

    def add(self, group: DryPlacement, pods: Sequence[PodInfo]) -> None:
        """Look for victims so that the group fits on some rows; the first of equal plans stays."""
        few = len(pods) <= MAX_CANDIDATES
        if few and len(pods) * len(self._members) <= MAX_SEARCH_COST:
            found = self._search(group, pods, proven=True)
        elif self.best is None:
            found = self._search_many(group, pods)
        else:
            return  # another domain for so many is too dear to look at
        if found is None or (self.best is not None and self.best.cost <= found.cost):
            return
        # On paper first, always: nobody leaves unless all members then have a place.
        placements = group.without(found.victims)
        if placements is not None:
            self.best, self.placements = found, placements

    # --- few candidates --------------------------------------------------------------------

    def _search(
        self, group: DryPlacement, pods: Sequence[PodInfo], *, proven: bool
    ) -> VictimSet | None:
        """The best set of victims among these pods, or the best that was found in time."""
        search = VictimSearch(
            pods,
            self._policy,
            tuple(self._cluster.budgets.values()),
            self._candidates.company,
            group.fits_without,
            self._alike,
            attempts=len(pods) + MAX_EFFORT // max(len(self._members), 1),
        )
        found = search.run()
        if found is None:
            return None
        return VictimSet(found.victims, found.cost, found.proven and proven)

    def _alike(self, pod: PodInfo) -> Hashable:
        """Equal for pods of which any may leave in another's place."""
        meta = pod.pod.metadata
        labels = frozenset(meta.labels.items())
        role = self._links.role_of(pod)
        return (self._cluster.node_of(pod.uid), pod.spec_key, meta.namespace, labels, role)

    # --- many ------------------------------------------------------------------------------

    def _search_many(self, group: DryPlacement, pods: Sequence[PodInfo]) -> VictimSet | None:
        """A set of victims in which each is needed, if not the best of all."""
        enough = self._least_important(group, self._candidates.allowed_together(pods))
        if enough is None:
            return None
        whole = self._candidates.breaking_nobody(enough)
        if len(whole) < len(enough) and group.fits_without(whole):
            enough = whole
        like = min(self._members, key=age).pod
        by_node = self._candidates.by_node(enough, like)
        count = _fewest(len(by_node), lambda n: group.fits_without(_first(by_node, n)))
        chosen = self._shrink(group, _first(by_node, count) if count is not None else enough)
        if chosen is None:
            return None
        if len(chosen) <= MAX_CANDIDATES and len(chosen) * len(self._members) <= MAX_EFFORT:
            better = self._search(group, self._candidates.ordered(chosen), proven=False)
            if better is not None:
                return better
        budgets = tuple(self._cluster.budgets.values())
        victims = self._candidates.ordered(chosen)
        return VictimSet(tuple(victims), cost_of(victims, self._policy, budgets), proven=False)

    def _least_important(
        self, group: DryPlacement, pods: Sequence[PodInfo]
    ) -> list[PodInfo] | None:
        """The candidates of as little importance as is enough; None if all are too few."""
        tiers = [
            list(tier)
            for _, tier in groupby(reversed(pods), key=lambda pod: self._policy.importance(pod))
        ]
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


def _may_preempt(entity: QueuedEntity, members: Iterable[QueuedPod]) -> bool:
    if any(member.pod.pod.spec.preemption_policy == "Never" for member in members):
        return False
    return all(gang.settings.may_preempt is not False for gang in entity.gang_group.gangs)
