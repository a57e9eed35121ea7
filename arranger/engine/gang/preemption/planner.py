"""Plans whom to evict for a gang group: nobody, unless all that it needs then fits.

As in kube-scheduler's preemption for pod groups, all candidates are taken away in memory and then
reprieved one by one, the most important first, if the group fits all the same. Where there are too
many for that, nodes are emptied in memory, the cheapest first, until the group fits, and every pod
that it can do without is put back. Either way all victims left are needed. A gang among the victims
gives up its surplus or leaves as a whole. See ``docs/design/preemption.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.links import GangLinks
from arranger.engine.gang.preemption.candidates import PreemptionCandidates, preemptors_of
from arranger.engine.gang.scheduling_cycle import GangScheduleResult, GangSchedulingCycle
from arranger.engine.gang.topology import age
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy
from arranger.framework.runtime.dry_run import DryRun
from arranger.preemption.disruption_budgets import split_by_pdb_violation
from arranger.preemption.importance import by_importance
from arranger.preemption.victims import allowed_together

#: Candidates times members, up to which candidates are reprieved one by one: each reprieve places
#: the members again, at about 0.1 ms a member.
MAX_REPRIEVE_COST: Final = 2048
#: How often a plan is tried with fewer victims; each try costs as much as placing the group.
MAX_SHRINK_ATTEMPTS: Final = 16


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Whom to evict, and where the members go then; without victims preemption does not help.

    Attributes:
        time_protected: whether any pod was no candidate only because time protects it for now.
    """

    placements: tuple[tuple[QueuedPod, str], ...] = ()
    victims: tuple[PodInfo, ...] = ()
    time_protected: bool = False


@dataclass(frozen=True, slots=True)
class _FitQuery:
    """Which group has to fit, and on which rows."""

    entity: QueuedEntity
    row_mask: RowMask | None


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
        preemptors = preemptors_of((member.pod for member in members), self._policy)
        candidates = PreemptionCandidates(
            self._cluster, self._nominator, self._policy, plugin, preemptors
        )
        pods_by_node = candidates.by_node(min(members, key=age).pod)
        plan = self._search(entity, pods_by_node, len(members)) if pods_by_node else None
        return replace(plan or PreemptionPlan(), time_protected=candidates.time_protected)

    def _search(
        self, entity: QueuedEntity, pods_by_node: Sequence[list[PodInfo]], members: int
    ) -> PreemptionPlan | None:
        everybody = list(chain.from_iterable(pods_by_node))
        one_by_one = len(everybody) * members <= MAX_REPRIEVE_COST
        with self._cycle.dry_run(entity):
            for row_mask in self._cycle.row_masks(entity):
                query = _FitQuery(entity, row_mask)
                if one_by_one:
                    allowed = allowed_together(self._by_importance(everybody), self._policy)
                    if self._fits_after_evicting(query, allowed):
                        return self._reprieve_one_by_one(query, allowed)
                    continue
                count = self._min_nodes(query, pods_by_node)
                if count is not None:
                    return self._shrink(query, list(chain.from_iterable(pods_by_node[:count])))
        return None

    # --- few candidates: reprieve one by one -----------------------------------------------

    def _reprieve_one_by_one(
        self, query: _FitQuery, candidates: Sequence[PodInfo]
    ) -> PreemptionPlan | None:
        """The plan left when as many candidates as possible are reprieved.

        With each reprieve the members may be placed elsewhere, as in ``podGroupPreemption``.
        """
        victims = {pod.uid: pod for pod in self._reprieve_order(candidates)}
        for pod in list(victims.values()):
            partners = self._links.group_uids(pod) or {pod.uid}
            gang = [uid for uid in victims if uid in partners]
            # As many of the gang as possible at once: a single one would keep too little of it.
            for count in range(len(gang) if pod.uid in victims else 0, 0, -1):
                reprieved = frozenset(gang[:count])
                rest = [each for uid, each in victims.items() if uid not in reprieved]
                leaving = {each.uid for each in self._policy.expand_to_gang(rest)}
                if leaving.isdisjoint(reprieved) and self._fits_after_evicting(query, rest):
                    victims = {each.uid: each for each in rest}
                    break
        return self._plan_from(query, list(victims.values()))

    # --- many candidates: empty nodes, then shrink -----------------------------------------

    def _min_nodes(self, query: _FitQuery, pods_by_node: Sequence[list[PodInfo]]) -> int | None:
        """How many nodes must be emptied for the group to fit; None if all are too few.

        Found by doubling and bisection, as if more empty nodes were never worse.
        """

        def fits(count: int) -> bool:
            evicted = chain.from_iterable(pods_by_node[:count])
            return self._fits_after_evicting(query, list(evicted))

        high = 1
        while not fits(min(high, len(pods_by_node))):
            if high >= len(pods_by_node):
                return None
            high *= 2
        low, high = high // 2, min(high, len(pods_by_node))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def _shrink(self, query: _FitQuery, candidates: Sequence[PodInfo]) -> PreemptionPlan | None:
        """The plan with the fewest victims that is found in :data:`MAX_SHRINK_ATTEMPTS`.

        Which victims are needed depends on where the members go. So these are placed again with
        half of the victims left alone, then with a quarter, and so on.
        """
        plan, attempts = self._plan_from(query, candidates), MAX_SHRINK_ATTEMPTS
        size = 0 if plan is None else len(plan.victims) // 2
        while plan is not None and size and attempts:
            for start in range(0, len(plan.victims), size):
                rest = [*plan.victims[:start], *plan.victims[start + size :]]
                attempts -= 1
                other = self._plan_from(query, rest) if rest else None
                if other is not None and len(other.victims) < len(plan.victims):
                    plan = other
                    break
                if not attempts:
                    break
            else:
                size //= 2
            size = min(size, len(plan.victims) // 2)
        return plan

    # --- dry runs --------------------------------------------------------------------------

    def _fits_after_evicting(self, query: _FitQuery, victims: Sequence[PodInfo]) -> bool:
        with self._cluster.simulate_without(victims):
            result = self._place(query)
            self._cycle.unreserve_all(result)
        return result.complete

    def _place(self, query: _FitQuery) -> GangScheduleResult:
        """Place what the group needs; nobody is evicted for members beyond that."""
        return self._cycle.place_group(query.entity, query.row_mask, surplus=False)

    def _plan_from(self, query: _FitQuery, candidates: Sequence[PodInfo]) -> PreemptionPlan | None:
        """Place the group as if the candidates were gone, and put back those it does not need."""
        node_of = {pod.uid: str(self._cluster.node_of(pod.uid)) for pod in candidates}
        with self._cluster.simulate_without(candidates):
            result = self._place(query)
            if not result.complete:
                self._cycle.unreserve_all(result)
                return None
            placements = tuple((member, member.node) for member, _ in result.placed)
            victims = self._reprieve(candidates, node_of, [member for member, _ in result.placed])
            self._cycle.unreserve_all(result)
        leaving = self._by_importance(self._policy.expand_to_gang(victims))
        if leaving and not self._policy.allows(leaving):
            return None
        return PreemptionPlan(placements, tuple(leaving))

    def _reprieve(
        self, candidates: Sequence[PodInfo], node_of: dict[str, str], placed: Sequence[QueuedPod]
    ) -> list[PodInfo]:
        """Put back the pods without which the members fit where they are; returns the others."""
        placed_on: dict[str, list[QueuedPod]] = {}
        for member in placed:
            placed_on.setdefault(member.node, []).append(member)
        classes = _one_per_class(placed)

        def reprieve(pod: PodInfo) -> bool:
            node = node_of[pod.uid]
            self._cluster.simulate_add_pod(pod, node)
            if self._still_fit(node, placed_on.get(node, ())) and self._within_quotas(classes):
                return True
            self._cluster.simulate_remove_pod(pod)
            return False

        victims = [pod for pod in self._reprieve_order(candidates) if not reprieve(pod)]
        # A gang that loses too many leaves as a whole, after which others may not be needed.
        leaving = {pod.uid for pod in self._policy.expand_to_gang(victims)}
        for pod in candidates:
            if pod.uid in leaving and pod.uid in self._cluster:
                self._cluster.simulate_remove_pod(pod)
        alone = [pod for pod in victims if len(self._policy.expand_to_gang([pod])) == 1]
        reprieved = {pod.uid for pod in self._by_importance(alone) if reprieve(pod)}
        return [pod for pod in victims if pod.uid not in reprieved]

    def _reprieve_order(self, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """Those first whose eviction violates a PodDisruptionBudget, then by importance."""
        violating, others = split_by_pdb_violation(
            self._by_importance(pods), self._cluster.budgets.values()
        )
        return [*violating, *others]

    def _by_importance(self, pods: Iterable[PodInfo]) -> list[PodInfo]:
        return by_importance(pods, self._policy.importance)

    def _within_quotas(self, members: Iterable[QueuedPod]) -> bool:
        """Whether the placed members exceed no quota, to which pods on all nodes count."""
        quota = self._policy.quota
        if quota is None:
            return True
        for member in members:
            own = dict(quota.released_by(member.pod))
            remaining = quota.remaining(member.pod, member.node)
            if any(left + own.get(limit, 0) < 0 for limit, left in remaining.items()):
                return False
        return True

    def _still_fit(self, node: str, members: Collection[QueuedPod]) -> bool:
        """Whether members that were placed on a node still fit with the pods there now."""
        table = self._cluster.table
        row = table.index[node]
        if not members:
            return True
        if (table.requested[:, row] > table.allocatable[:, row]).any():
            return False
        return all(self._member_fits(member, row) for member in _one_per_class(members))

    def _member_fits(self, member: QueuedPod, row: int) -> bool:
        evaluation = self._pod_cycle.evaluate(member.profile, member.pod, member.signature)
        if evaluation.pod_dependent_filters <= member.profile.node_resource_filters:
            return True  # the sum of the requests has been compared already
        with self._cluster.simulate_without([member.pod]):
            return DryRun(member.profile, self._cluster, member.pod, evaluation).fits(row)


def _may_preempt(entity: QueuedEntity, members: Iterable[QueuedPod]) -> bool:
    if any(member.pod.pod.spec.preemption_policy == "Never" for member in members):
        return False
    return all(gang.settings.may_preempt is not False for gang in entity.gang_group.gangs)


def _one_per_class(members: Iterable[QueuedPod]) -> list[QueuedPod]:
    """One member of each equivalence class: what holds for it holds for the others."""
    first: dict[object, QueuedPod] = {}
    for member in members:
        first.setdefault(member.equivalence_key, member)
    return list(first.values())
