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
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle
from arranger.engine.gang.attempt.suspended_members import MemberSuspension
from arranger.engine.gang.links import GangLinks
from arranger.engine.gang.placement.boards import SearchEffort
from arranger.engine.gang.preemption.candidates import PreemptionCandidates, preemptors_of
from arranger.engine.gang.preemption.dry_placement import (
    MANY_GONE,
    Destinations,
    DryPlacement,
)
from arranger.engine.gang.preemption.leaving_requests import LeavingRequests
from arranger.engine.gang.preemption.plan_search import MAX_EFFORT, PlanSearch
from arranger.engine.gang.preemption.trial import Between, PlanSteps, Trial, VoidTrialError
from arranger.engine.gang.steps import at_once
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.interface import Plugin
from arranger.framework.preemption import EvictionPolicy
from arranger.preemption.victim_search import VictimSet


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Whom to evict, and where the members go then; without victims preemption does not help.

    Attributes:
        proven: whether all that would cost less, or all there is, has been ruled out: all sets of
            victims have been compared, and all ways to place the members tried.
        time_protected: whether any pod was no candidate only because time protects it for now.
        waits: whether the room of pods that are leaving anyway is enough, so that nobody else has
            to.
        domain: where the members go; None for anywhere.
        given_up: whether nobody leaves only because it takes too long to find out who has to.
        rejected_by: where nobody is to leave, the plugins that reject members although others have.
        outdated: whether nothing was found because, perhaps, pods came while it was looked for that
            the group may evict.
    """

    destinations: Destinations = ()
    victims: tuple[PodInfo, ...] = ()
    proven: bool = True
    time_protected: bool = False
    waits: bool = False
    domain: RowMask | None = None
    given_up: bool = False
    rejected_by: frozenset[str] = frozenset()
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class GangPreemptionPlanner:
    """Plans preemption for gang groups; changes nothing but in memory, and undoes that.

    Args:
        cycle: places whole groups.
        pod_cycle: evaluates single pods.
        policy: who may be evicted for whom.
        links: who is in one gang group.
        suspension: takes members off between two steps.
    """

    _cluster: Cluster
    _nominator: Nominator
    _pod_cycle: SchedulingCycle
    _cycle: GangSchedulingCycle
    _policy: EvictionPolicy
    _links: GangLinks
    _suspension: MemberSuspension

    def plan(self, entity: QueuedEntity) -> PreemptionPlan:
        """The cheapest plan found that makes room for the group, at once."""
        with self._cycle.dry_run(entity), self._cluster.work.unlimited():
            plan = at_once(self.steps(entity, Between()))
        assert plan is not None, "nothing has come between"
        return plan

    def steps(self, entity: QueuedEntity, between: Between) -> PlanSteps[PreemptionPlan | None]:
        """The cheapest plan found that makes room for the group; None if it is void.

        Where things have changed between two steps it is a plan for what is there at the end, if
        perhaps not the cheapest.

        It waits where the room of those is enough that are being evicted for others already.
        """
        trials = _Trials(self, entity, between)
        if self._nominator.terminating_victims and (yield from trials.fits_without(())):
            return PreemptionPlan(waits=True)
        members = list(entity.ready())
        for member in members:
            self._nominator.clear(member.uid)  # where they cannot all be; the caller puts it back
        plugin = entity.profile.evicting_plugin
        if plugin is None or not _may_preempt(entity, members):
            return PreemptionPlan()
        candidates = self._candidates(entity, members, plugin)
        takers = [member.pod for member in members]
        leaving_requests = LeavingRequests(self._cluster, self._nominator, self._policy, takers)
        search = PlanSearch(
            self._cluster,
            candidates.policy,
            self._links,
            candidates,
            members,
            leaving_requests,
            between,
        )
        pods = yield from candidates.found()
        plan = (yield from trials.best(pods, search)) if pods else PreemptionPlan()
        plan = replace(plan, time_protected=candidates.time_protected)
        if len(plan.victims) > MANY_GONE:
            yield  # to carry it out is a step of its own, where nothing has changed
        if not plan.victims:
            come = between.moved and (yield from self._have_come(entity, members, plugin, pods))
            return replace(plan, rejected_by=between.rejected_by, outdated=come)
        if not between.disturbed:
            return plan
        cost = candidates.cost(plan.victims)
        if (yield from trials.fits_without(())):
            return None  # it needs nobody's room any more
        destinations = yield from trials.group(plan.domain, _effort()).without(plan.victims)
        if destinations is None:
            return None
        now = self._candidates(entity, members, plugin)
        if not now.may_leave(plan.victims) or now.cost(plan.victims) > cost:
            return None
        return replace(plan, destinations=destinations)

    def _candidates(
        self, entity: QueuedEntity, members: Sequence[QueuedPod], plugin: Plugin
    ) -> PreemptionCandidates:
        own = frozenset(chain.from_iterable(g.memberships for g in entity.gang_group.gangs))
        takers = [member.pod for member in members]
        policy = self._policy.for_group(takers, max(1, self._cycle.shortfall(entity)))
        preemptors = preemptors_of(takers, policy)
        return PreemptionCandidates(
            self._cluster, self._nominator, policy, self._links, plugin, preemptors, own
        )

    def _have_come(
        self,
        entity: QueuedEntity,
        members: Sequence[QueuedPod],
        plugin: Plugin,
        known: Sequence[PodInfo],
    ) -> PlanSteps[bool]:
        """Whether there are pods that could leave, beside those that are known."""
        uids = {pod.uid for pod in known}
        there = yield from self._candidates(entity, members, plugin).found()
        return any(pod.uid not in uids for pod in there)

    def dry_placement(
        self,
        entity: QueuedEntity,
        row_mask: RowMask | None,
        effort: SearchEffort,
        between: Between,
    ) -> DryPlacement:
        """Places the group there in memory."""
        return DryPlacement(
            self._cluster,
            self._nominator,
            self._pod_cycle,
            self._cycle,
            self._policy,
            entity,
            row_mask,
            effort,
            self._suspension,
            between,
        )

    def row_masks(
        self, entity: QueuedEntity, candidates: Sequence[PodInfo], between: Between
    ) -> PlanSteps[Sequence[RowMask | None]]:
        """Where the group could be if all candidates had left: domains, or anywhere (None)."""
        if entity.gang_group.topology is None:
            return [None]
        while True:
            trial = Trial(self._cluster, self._nominator, self._suspension, between, candidates)
            try:
                yield from trial.begin()
                steps = self._cycle.row_mask_steps(entity)
                while True:
                    try:
                        next(steps)
                    except StopIteration as end:
                        return list(end.value)
                    yield from trial.rest(())
            except VoidTrialError:
                between.on_void()
            finally:
                trial.end()


@dataclass(frozen=True, slots=True)
class _Trials:
    """What is asked about one group."""

    _planner: GangPreemptionPlanner
    _entity: QueuedEntity
    _between: Between

    def group(self, row_mask: RowMask | None, effort: SearchEffort) -> DryPlacement:
        """Places the group there in memory."""
        return self._planner.dry_placement(self._entity, row_mask, effort, self._between)

    def fits_without(self, leaving: Sequence[PodInfo]) -> PlanSteps[bool]:
        """Whether all that the group needs fits once these have left."""
        effort = _effort()
        for row_mask in (yield from self._row_masks(leaving)):
            if (yield from self.group(row_mask, effort).fits_without(leaving)):
                return True
        return False

    def best(self, pods: Sequence[PodInfo], search: PlanSearch) -> PlanSteps[PreemptionPlan]:
        """The best plan of all domains, the first of equals; the first one where pods are many."""
        best, plan, effort = VictimSet(), PreemptionPlan(), _effort()
        for row_mask in (yield from self._row_masks(pods)):
            group = self.group(row_mask, effort)
            small = search.is_small(pods)
            enough = group.fits_without(pods) if small else search.may_do(group, pods)
            if not (yield from enough):
                continue
            found = yield from (search.best_of if small else search.good_of)(group, pods)
            if not found.victims:
                plan = replace(plan, proven=plan.proven and found.proven)
            elif found.cost < best.cost:
                # On paper first, always: nobody leaves unless all members then have a place.
                # With an effort of its own, as that of the search may be used up.
                group = self.group(row_mask, _effort())
                destinations = yield from group.without(found.victims)
                if destinations is None:
                    plan = replace(plan, proven=False)
                    continue
                proven = plan.proven and found.proven
                best = found
                plan = PreemptionPlan(destinations, found.victims, proven, domain=row_mask)
            if best.victims and not small:
                break  # to look at other domains for so many is too dear
        return replace(plan, proven=plan.proven and not effort.bounded)

    def _row_masks(self, leaving: Sequence[PodInfo]) -> PlanSteps[Sequence[RowMask | None]]:
        return self._planner.row_masks(self._entity, leaving, self._between)


def _effort() -> SearchEffort:
    return SearchEffort(MAX_EFFORT, looks=200_000)


def _may_preempt(entity: QueuedEntity, members: Iterable[QueuedPod]) -> bool:
    if any(member.pod.pod.spec.preemption_policy == "Never" for member in members):
        return False
    return all(gang.settings.may_preempt is not False for gang in entity.gang_group.gangs)
