"""Room for a whole gang, on paper first: nobody is evicted unless all that it needs then fits.

As kube-scheduler does it for its own groups, all pods of lower priority leave in thought, and are
spared one after the other, the protected and the important ones first, if the group fits all the
same. Where that would take too long nodes are emptied in thought, those first that cost least for
the room they give, until the group fits, and every pod that it can do without is put back. In both
ways the victims left are all needed. Gangs leave whole or give their surplus.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from arranger.api.effects import PatchPodStatus
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.links import GangLinks
from arranger.engine.gang.scheduling_cycle import GangScheduleResult, GangSchedulingCycle
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy
from arranger.framework.runtime.dry_run import DryRun
from arranger.preemption.disruption_budgets import split_by_pdb_violation
from arranger.preemption.importance import by_importance
from arranger.preemption.victims import allowed_together

#: Members placed in thought at most when pods are spared one by one; each takes about 0.1 ms.
MAX_REPRIEVE_COST: Final = 2048
#: Said of pods that only time protects.
PROTECTED_MESSAGE: Final = "Others have not run their minimum time, or are back from an eviction"
#: How often a plan is tried with fewer victims: each costs as much as placing the group.
MAX_SHRINK_ATTEMPTS: Final = 16
#: Seconds between two evictions for one group at first, and at most.
MIN_EVICTION_INTERVAL: Final = 10.0
MAX_EVICTION_INTERVAL: Final = 300.0


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Where the members go once the victims are gone."""

    placements: tuple[tuple[QueuedPod, str], ...]
    victims: tuple[PodInfo, ...]


@dataclass(frozen=True, slots=True)
class _FitQuery:
    """Which group is to fit, with the members that have a node, and within which rows."""

    entity: QueuedEntity
    held: Sequence[QueuedPod]
    row_mask: RowMask | None


class GangPreemptionPlanner:
    """Plans preemption for gang groups.

    Args:
        cycle: places whole groups.
        pod_cycle: evaluates single pods.
        policy: who may be evicted for whom.
        links: who is in one gang group.
    """

    def __init__(
        self,
        cluster: Cluster,
        nominator: Nominator,
        pod_cycle: SchedulingCycle,
        cycle: GangSchedulingCycle,
        policy: EvictionPolicy,
        links: GangLinks,
    ) -> None:
        self._cluster = cluster
        self._nominator = nominator
        self._pod_cycle = pod_cycle
        self._cycle = cycle
        self._policy = policy
        self._links = links
        self._is_eligible: Callable[[PodInfo], bool] = _nobody
        #: Whether some pods were out of the question last time for the time being only.
        self.spared = False

    def plan(self, entity: QueuedEntity, held: Sequence[QueuedPod]) -> PreemptionPlan | None:
        """The cheapest way found to make room for the group, None if there is none."""
        members = list(entity.ready())
        plugin = entity.profile.evicting_plugin
        if plugin is None:
            return None
        self._is_eligible = plugin.is_preemptable
        if any(m.pod.pod.spec.preemption_policy == "Never" for m in members):
            return None
        if any(gang.settings.may_preempt is False for gang in entity.gang_group.gangs):
            return None
        weakest = min(members, key=lambda member: member.pod.priority)
        rows = self._rows_by_cost(members[0].pod, self._preemptible_by_row(weakest.pod))
        if not rows:
            return None
        with self._cycle.dry_run(entity):
            for within in self._cycle.topology_domains(entity, held):
                query = _FitQuery(entity, held, within)
                everybody = [pod for _, pods in rows for pod in pods]
                if len(everybody) * len(members) <= MAX_REPRIEVE_COST:
                    ordered = by_importance(everybody, self._policy.importance)
                    may = allowed_together(ordered, self._policy)
                    if self._fits_after_evicting(query, may):
                        return self._reprieve_one_by_one(query, may)
                    continue
                count = self._min_nodes(query, [pods for _, pods in rows])
                if count is not None:
                    chosen = [pod for _, pods in rows[:count] for pod in pods]
                    return self._shrink(query, chosen)
        return None

    # --- whom to think away ----------------------------------------------------------------

    def _preemptible_by_row(self, taker: PodInfo) -> dict[int, list[PodInfo]]:
        """Row → the pods there that could be evicted for a pod, and so for its group."""
        table, leaving = self._cluster.table, self._nominator.terminating_victims
        promised = self._nominator
        unbroken: dict[str, bool] = {}

        policy = self._policy
        self.spared = False

        def takes(pod: PodInfo) -> bool:
            if not self._is_eligible(pod):
                return False
            if policy.can_preempt(taker, pod):
                return True
            self.spared |= policy.time_protects and policy.protected_until(taker, pod) > policy.now
            return False

        def may_go(pod: PodInfo) -> bool:
            if pod.uid in promised or not takes(pod):
                return False
            if pod.uid not in unbroken:
                company = self._policy.expand_to_gang([pod])
                whole = all(map(takes, company))
                unbroken.update((each.uid, whole) for each in company)
            return unbroken[pod.uid]

        found: dict[int, list[PodInfo]] = {}
        for row in range(table.size):
            pods = [p for p in table.pods[row].values() if p.uid not in leaving and may_go(p)]
            if pods:
                found[row] = pods
        return found

    def _rows_by_cost(
        self, like: PodInfo, potential: dict[int, list[PodInfo]]
    ) -> list[tuple[int, list[PodInfo]]]:
        """The rows, those first whose pods cost least for each pod like that they make room for."""
        table, budgets = self._cluster.table, tuple(self._cluster.budgets.values())
        columns, wanted = table.request_vector(like)
        weight = self._policy.importance

        def cost(row: int) -> tuple[int, int, float, int]:
            pods = potential[row]
            free = {c: int(table.allocatable[c, row] - table.requested[c, row]) for c in columns}
            for pod in pods:
                for column, amount in zip(*table.request_vector(pod), strict=True):
                    if column in free:
                        free[column] += amount
            room = min(free[c] // n for c, n in zip(columns, wanted, strict=True) if n)
            broken = len(split_by_pdb_violation(by_importance(pods, weight), budgets)[0])
            return broken, max(map(weight, pods)), len(pods) / max(room, 0.01), row

        return [(row, potential[row]) for row in sorted(potential, key=cost)]

    def _min_nodes(self, query: _FitQuery, groups: Sequence[list[PodInfo]]) -> int | None:
        """How many of the nodes must be emptied for the group to fit, roughly; None if all is too
        little."""

        def fits(count: int) -> bool:
            return self._fits_after_evicting(
                query, [pod for pods in groups[:count] for pod in pods]
            )

        high = 1
        while not fits(min(high, len(groups))):
            if high >= len(groups):
                return None
            high *= 2
        low, high = high // 2, min(high, len(groups))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def _fits_after_evicting(self, query: _FitQuery, victims: Sequence[PodInfo]) -> bool:
        with self._cluster.simulate_without(victims):
            decision = self._attempt(query)
            self._cycle.unreserve_all(decision)
        return decision.complete

    # --- whom to spare ---------------------------------------------------------------------

    def _reprieve_one_by_one(
        self, query: _FitQuery, everybody: Sequence[PodInfo]
    ) -> PreemptionPlan | None:
        """The plan left when as many as possible are spared, the most important first.

        The members may go elsewhere with each that is spared (``podGroupPreemption``).
        """
        order = by_importance(everybody, self._policy.importance)
        protected, free = split_by_pdb_violation(order, self._cluster.budgets.values())
        victims = {pod.uid: pod for pod in (*protected, *free)}
        for pod in list(victims.values()):
            partners = self._links.group_uids(pod) or {pod.uid}
            gang = [uid for uid in victims if uid in partners]
            # Of a gang as many as possible; and alone it would be left in pieces.
            for count in range(len(gang) if pod.uid in victims else 0, 0, -1):
                spared = frozenset(gang[:count])
                rest = [each for uid, each in victims.items() if uid not in spared]
                leaving = {each.uid for each in self._policy.expand_to_gang(rest)}
                if leaving.isdisjoint(spared) and self._fits_after_evicting(query, rest):
                    victims = {each.uid: each for each in rest}
                    break
        return self._dry_run(query, list(victims.values()))

    # --- whom to put back ------------------------------------------------------------------

    def _shrink(self, query: _FitQuery, chosen: Sequence[PodInfo]) -> PreemptionPlan | None:
        """The plan that needs the fewest of the pods, roughly.

        Where the members go decides who must leave; so they are placed again with half of the
        victims left alone, with a quarter, and so on, for as long as that is worth its time.
        """
        plan, tries = self._dry_run(query, chosen), MAX_SHRINK_ATTEMPTS
        size = 0 if plan is None else len(plan.victims) // 2
        while plan is not None and size and tries:
            for start in range(0, len(plan.victims), size):
                rest = [*plan.victims[:start], *plan.victims[start + size :]]
                tries -= 1
                other = self._dry_run(query, rest) if rest else None
                if other is not None and len(other.victims) < len(plan.victims):
                    plan = other
                    break
                if not tries:
                    break
            else:
                size //= 2
            size = min(size, len(plan.victims) // 2)
        return plan

    def _attempt(self, query: _FitQuery) -> GangScheduleResult:
        """Place what the group needs; for members beyond that nobody has to leave."""
        return self._cycle.attempt(query.entity, query.held, query.row_mask, surplus=False)

    def _dry_run(self, query: _FitQuery, chosen: Sequence[PodInfo]) -> PreemptionPlan | None:
        node_of = {pod.uid: str(self._cluster.node_of(pod.uid)) for pod in chosen}
        with self._cluster.simulate_without(chosen):
            decision = self._attempt(query)
            if not decision.complete:
                self._cycle.unreserve_all(decision)
                return None
            places = tuple((member, member.node) for member, _ in decision.placed)
            victims = self._reprieve(chosen, node_of, decision)
            self._cycle.unreserve_all(decision)
        leaving = by_importance(self._policy.expand_to_gang(victims), self._policy.importance)
        if leaving and not self._policy.allows(leaving):
            return None
        return PreemptionPlan(places, tuple(leaving))

    def _reprieve(
        self, chosen: Sequence[PodInfo], node_of: dict[str, str], decision: GangScheduleResult
    ) -> list[PodInfo]:
        """Put back whom the group can do without; returns the others."""
        there: dict[str, list[QueuedPod]] = {}
        for member, _ in decision.placed:
            there.setdefault(member.node, []).append(member)
        kinds = _one_per_class(member for member, _ in decision.placed)

        def spared(pod: PodInfo) -> bool:
            node = node_of[pod.uid]
            self._cluster.simulate_add_pod(pod, node)
            if self._still_fit(node, there.get(node, ())) and self._within_quotas(kinds):
                return True
            self._cluster.simulate_remove_pod(pod)
            return False

        protected, free = split_by_pdb_violation(
            by_importance(chosen, self._policy.importance), self._cluster.budgets.values()
        )
        victims = [pod for pod in (*protected, *free) if not spared(pod)]
        # A gang that loses too many leaves whole, which may spare others.
        whole = {pod.uid for pod in self._policy.expand_to_gang(victims)}
        for pod in chosen:
            if pod.uid in whole and pod.uid in self._cluster:
                self._cluster.simulate_remove_pod(pod)
        alone = [pod for pod in victims if len(self._policy.expand_to_gang([pod])) == 1]
        spared_now = {
            pod.uid for pod in by_importance(alone, self._policy.importance) if spared(pod)
        }
        return [pod for pod in victims if pod.uid not in spared_now]

    def _within_quotas(self, members: Iterable[QueuedPod]) -> bool:
        """Whether no quota of placed members is exceeded, which pods on any node count towards."""
        quota = self._policy.quota
        if quota is None:
            return True
        for member in members:
            mine = dict(quota.released_by(member.pod))
            room = quota.remaining(member.pod, member.node)
            if any(left + mine.get(limit, 0) < 0 for limit, left in room.items()):
                return False
        return True

    def _still_fit(self, node: str, members: Collection[QueuedPod]) -> bool:
        """Whether members that were placed on a node would still be, with what is there now."""
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
            return True
        with self._cluster.simulate_without([member.pod]):
            return DryRun(member.profile, self._cluster, member.pod, evaluation).fits(row)


class GangPreemptionExecutor:
    """Carries plans out, and not too often for one group."""

    def __init__(
        self,
        context: EngineContext,
        nominator: Nominator,
        planner: GangPreemptionPlanner,
        preempting: PreemptionExecutor,
    ) -> None:
        self._context = context
        self._nominator = nominator
        self._planner = planner
        self._preempting = preempting

    def preempt_for(self, entity: QueuedEntity, held: Sequence[QueuedPod], now: float) -> bool:
        """Make room for a group that does not fit; whether anybody is evicted.

        Not while its last victims are still leaving, and the more rarely the more often it has
        been done in vain.
        """
        leaving = self._nominator.terminating_victims
        entity.victims &= leaving
        if entity.victims or now < entity.evict_after:
            return False
        plan = self._planner.plan(entity, held)
        if plan is None or not plan.victims:
            if self._planner.spared:
                entity.reason += f" {PROTECTED_MESSAGE}."
            for member in entity.members.values():
                self._preempting.clear_nomination(member, now)  # what it was promised is not enough
            return False
        entity.evictions += 1
        entity.evict_after = now + min(
            MIN_EVICTION_INTERVAL * 2.0**entity.evictions, MAX_EVICTION_INTERVAL
        )
        for member, node in plan.placements:
            self._preempting.nominate(member, node, (), now)
            self._context.outbox.append(
                PatchPodStatus(pod_events.pod_key(member.pod.pod), nominated_node=node)
            )
        for victim in plan.victims:
            node = self._context.cluster.node_of(victim.uid) or ""
            self._preempting.evict(
                victim, entity.representative, node, now, group=entity.gang_group.name
            )
            entity.victims.add(victim.uid)
        self._context.outbox.append(pod_events.preempting(entity.representative, plan.victims))
        return True


def _nobody(pod: PodInfo) -> bool:
    del pod
    return False


def _one_per_class(members: Iterable[QueuedPod]) -> list[QueuedPod]:
    """One member of each class: the others fare alike."""
    seen: dict[object, QueuedPod] = {}
    for member in members:
        seen.setdefault(member.signature if member.signature is not None else member.uid, member)
    return list(seen.values())
