"""Plans whom to evict for a gang group: nobody, unless all that it needs then fits.

All pods that could be evicted are found; then, for each domain that the group may be in, the set of
victims that costs least; then the group is placed in memory as if just these had left, and only a
plan for which that succeeds is carried out. See ``docs/design/preemption.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.links import GangLinks
from arranger.engine.gang.placement.boards import SearchEffort
from arranger.engine.gang.preemption.candidates import PreemptionCandidates, preemptors_of
from arranger.engine.gang.preemption.dry_placement import Destinations, DryPlacement
from arranger.engine.gang.preemption.plan_search import MAX_EFFORT, PlanSearch
from arranger.engine.gang.scheduling_cycle import GangSchedulingCycle
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy
from arranger.preemption.victim_search import VictimSet


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Whom to evict, and where the members go then; without victims preemption does not help.

    Attributes:
        proven: whether all that would cost less, or all there is, has been ruled out: all sets of
            victims have been compared, and all ways to place the members tried.
        time_protected: whether any pod was no candidate only because time protects it for now.
    """

    destinations: Destinations = ()
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
        takers = [member.pod for member in members]
        policy = self._policy.for_group(takers, max(1, self._cycle.shortfall(entity)))
        preemptors = preemptors_of(takers, policy)
        candidates = PreemptionCandidates(
            self._cluster, self._nominator, policy, self._links, plugin, preemptors, own
        )
        search = PlanSearch(self._cluster, policy, self._links, candidates, members)
        pods = candidates.found()
        plan = self._best(entity, pods, search) if pods else PreemptionPlan()
        return replace(plan, time_protected=candidates.time_protected)

    def fits_without(self, entity: QueuedEntity, leaving: Sequence[PodInfo]) -> bool:
        """Whether all that the group needs fits once these have left."""
        effort = _effort()
        with self._cycle.dry_run(entity):
            return any(
                self._group(entity, row_mask, effort).fits_without(leaving)
                for row_mask in self._row_masks(entity, leaving)
            )

    def _group(
        self, entity: QueuedEntity, row_mask: RowMask | None, effort: SearchEffort
    ) -> DryPlacement:
        return DryPlacement(
            self._cluster,
            self._nominator,
            self._pod_cycle,
            self._cycle,
            self._policy,
            entity,
            row_mask,
            effort,
        )

    def _best(
        self, entity: QueuedEntity, pods: Sequence[PodInfo], search: PlanSearch
    ) -> PreemptionPlan:
        """The best plan of all domains, the first of equals; the first one where pods are many."""
        best, plan, effort = VictimSet(), PreemptionPlan(), _effort()
        with self._cycle.dry_run(entity):
            for row_mask in self._row_masks(entity, pods):
                group = self._group(entity, row_mask, effort)
                if not group.fits_without(pods):
                    continue
                small = search.is_small(pods)
                found = search.best_of(group, pods) if small else search.good_of(group, pods)
                if not found.victims:
                    plan = replace(plan, proven=plan.proven and found.proven)
                elif found.cost < best.cost:
                    # On paper first, always: nobody leaves unless all members then have a place.
                    # With an effort of its own, as that of the search may be used up.
                    group = self._group(entity, row_mask, _effort())
                    destinations = group.without(found.victims)
                    if destinations is None:
                        plan = replace(plan, proven=False)
                        continue
                    proven = plan.proven and found.proven
                    best, plan = found, PreemptionPlan(destinations, found.victims, proven)
                if best.victims and not small:
                    break  # to look at other domains for so many is too dear
        return replace(plan, proven=plan.proven and not effort.bounded)

    def _row_masks(
        self, entity: QueuedEntity, candidates: Sequence[PodInfo]
    ) -> Sequence[RowMask | None]:
        """Where the group could be if all candidates had left: domains, or anywhere (None)."""
        if entity.gang_group.topology is None:
            return [None]
        with self._cluster.simulate_without(candidates):
            return list(self._cycle.row_masks(entity))


def _effort() -> SearchEffort:
    return SearchEffort(MAX_EFFORT, looks=200_000)


def _may_preempt(entity: QueuedEntity, members: Iterable[QueuedPod]) -> bool:
    if any(member.pod.pod.spec.preemption_policy == "Never" for member in members):
        return False
    return all(gang.settings.may_preempt is not False for gang in entity.gang_group.gangs)
