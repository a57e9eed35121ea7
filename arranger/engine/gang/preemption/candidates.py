"""Which pods could be evicted for a gang group, and on which nodes that costs least."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Final

from arranger.cluster.attempt_work import UnfinishedError
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.gang.links import GangLinks
from arranger.engine.gang.preemption.trial import PlanSteps
from arranger.engine.queue.nominator import Nominator
from arranger.framework.interface import Plugin
from arranger.framework.preemption import EvictionPolicy, Losses
from arranger.preemption.allowed_together import AllowedTogether
from arranger.preemption.disruption_budgets import (
    DisruptionBudgetCounter,
    split_by_pdb_violation,
)
from arranger.preemption.importance import by_importance, place_in_order
from arranger.preemption.victim_search import Cost, cost_of

#: Units of :mod:`~arranger.cluster.attempt_work` for a pod: to find out whether it could leave, and
#: to put it in order.
_ASKING: Final = 5
_SORTING: Final = 3
#: Pods that are looked at at once, where little is asked of each; of these so many are one unit.
_SLICE: Final = 1000
#: The same, where budgets are asked about each.
_FEW: Final = 50
_KNOWN_PER_UNIT: Final = 2
#: A pod and its place among victims.
_Placed = tuple[tuple[int, float, float, str], PodInfo]


@dataclass(slots=True, eq=False)
class PreemptionCandidates:
    """The pods that could be evicted for each of the preemptors, and so for their group.

    Args:
        plugin: the profile's plugin that evicts pods, which may exclude some.
        own: uids of the group, which evicts nobody of its own.

    Attributes:
        policy: who may be evicted for whom.
        time_protected: whether any pod was found that only time protects for now.
    """

    _cluster: Cluster
    _nominator: Nominator
    policy: EvictionPolicy
    _links: GangLinks
    _plugin: Plugin
    _preemptors: Sequence[PodInfo]
    _own: frozenset[str]
    #: uid → whether the pod could be evicted, if nobody else had to leave with it.
    _evictable: dict[str, bool] = field(default_factory=dict)
    #: The same of all pods of a class, where time protects nobody.
    _evictable_kinds: dict[Hashable, bool] = field(default_factory=dict)
    #: uids of the gangs that could leave whole, as far as they have been found.
    _in_whole_gang: set[str] = field(default_factory=set)
    time_protected: bool = False
    #: What queues lose already, as it was at the beginning of this step or of an earlier one.
    _losses: Losses = field(init=False)

    def __post_init__(self) -> None:
        self._losses = self.policy.losses(self._preemptors)

    def found(self) -> PlanSteps[list[PodInfo]]:
        """All that could leave, each with those that would have to leave with it.

        Those first whose eviction breaks a PodDisruptionBudget, then the most important.
        """
        cluster, work = self._cluster, self._cluster.work
        rows, found = (yield from self._evictable_rows()), list[PodInfo]()
        for row in rows:
            if work.is_spent:
                yield from self._rest()
            pods = list(cluster.table.pods[row].values())
            found += filter(self._is_candidate, pods)
            work.count(_ASKING * len(pods))
        there = list[PodInfo]()
        for start in range(0, len(found), _SLICE):
            yield from self.may_rest(_SLICE // _KNOWN_PER_UNIT)
            # Some may have left while others were asked about.
            there += [pod for pod in found[start : start + _SLICE] if pod.uid in cluster]
        return (yield from self.ordered(there))

    def _evictable_rows(self) -> PlanSteps[Iterable[int]]:
        policy, cluster = self.policy, self._cluster
        while True:
            try:
                rows = policy.evictable_rows(self._preemptors, cluster.work)
            except UnfinishedError:
                yield from self._rest()
                continue
            return range(cluster.table.size) if rows is None else sorted(rows)

    def ordered(self, pods: Iterable[PodInfo]) -> PlanSteps[list[PodInfo]]:
        """Those first that are to be spared first."""
        ordered, budgets = (yield from self._by_importance(list(pods))), self._cluster.budgets
        if not budgets:
            return ordered
        counter = DisruptionBudgetCounter(budgets)
        violating, others = list[PodInfo](), list[PodInfo]()
        for start in range(0, len(ordered), _SLICE):
            yield from self.may_rest(_SORTING * _SLICE)
            for n, pod in enumerate(ordered[start : start + _SLICE]):
                if not n % _FEW:
                    yield from self.may_rest(0)  # what it takes to ask about budgets is counted
                (violating if counter.count_eviction(pod) else others).append(pod)
        return [*violating, *others]

    def _by_importance(self, pods: Sequence[PodInfo]) -> PlanSteps[list[PodInfo]]:
        """As :func:`by_importance`, in steps: slices are put in order, and then merged."""
        importance, slices = self.policy.importance, list[list[_Placed]]()
        for start in range(0, len(pods), _SLICE):
            yield from self.may_rest(_SORTING * _SLICE)
            some = pods[start : start + _SLICE]
            placed = [(place_in_order(pod, importance), pod) for pod in some]
            slices.append(sorted(placed, key=itemgetter(0)))
        while len(slices) > 1:
            pairs, slices = slices, []
            for start in range(0, len(pairs), 2):
                merged = list(chain.from_iterable(pairs[start : start + 2]))
                yield from self.may_rest(len(merged) // _KNOWN_PER_UNIT)
                slices.append(sorted(merged, key=itemgetter(0)))
        yield from self.may_rest(len(pods) // _KNOWN_PER_UNIT)
        return [pod for _, pod in slices[0]] if slices else []

    def may_rest(self, units: int) -> PlanSteps[None]:
        """Go on in the next step if so many units are not left."""
        self._cluster.work.count(units)
        if self._cluster.work.is_spent:
            yield from self._rest()

    def _rest(self) -> PlanSteps[None]:
        yield
        self._losses = self.policy.losses(self._preemptors)

    def violating(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Those whose eviction would break a PodDisruptionBudget if all of them left."""
        ordered = by_importance(pods, self.policy.importance)
        return split_by_pdb_violation(ordered, self._cluster.budgets)[0]

    def company(self, pods: Sequence[PodInfo]) -> list[PodInfo] | None:
        """These and all that must leave with them; None where they may not be evicted together.

        Those that are leaving already, or have no node but a nomination, need not be evicted.
        """
        together = self.policy.expand_to_gang(pods)
        if not all(map(self._is_evictable, together)):
            return None
        evicted = [pod for pod in together if not self._is_leaving(pod)]
        if evicted and not self._losses.may_add(evicted):
            return None
        return evicted

    def may_leave(self, victims: Sequence[PodInfo]) -> bool:
        """Whether these are all there, and may be evicted without anybody else."""
        known = [self._cluster.pod(pod.uid) for pod in victims]
        there = [pod for pod in known if pod is not None]
        together = self.company(there) if len(there) == len(victims) else None
        return together is not None and len(together) == len(there)

    def cost(self, victims: Sequence[PodInfo]) -> Cost:
        """What it costs that they leave."""
        return cost_of(victims, self.policy, self._cluster.budgets)

    def allowed_together(self, pods: Sequence[PodInfo]) -> PlanSteps[list[PodInfo]]:
        """As many of the candidates as may leave together, tried from the last one on.

        Of a gang that cannot leave whole only as many as it can spare; no queue falls below its
        guarantee.
        """
        yield from self.may_rest(2 * len(pods))
        if not pods or self.company(pods) is not None:
            return list(pods)
        allowed = AllowedTogether(
            self.policy, self._losses.copy(), self._is_evictable, self._is_leaving
        )
        for pod in reversed(pods):
            yield from self.may_rest(_ASKING)
            allowed.add(pod)
        return allowed.chosen[::-1]

    def breaking_nobody(self, pods: Sequence[PodInfo]) -> PlanSteps[list[PodInfo]]:
        """Those without which every gang has its minimum, the least important of each gang."""
        departures, chosen = self.policy.departures(), set[str]()
        for pod in reversed(pods):
            yield from self.may_rest(_ASKING)
            if not departures.breaks_gang(pod):
                departures.add(pod)
                chosen.add(pod.uid)
        return [pod for pod in pods if pod.uid in chosen]

    def by_node(self, pods: Iterable[PodInfo], like: PodInfo) -> PlanSteps[list[list[PodInfo]]]:
        """Those of each node, first where they cost least per pod ``like`` that gets room there."""
        table, budgets = self._cluster.table, self._cluster.budgets
        columns, requested = like.request_vector(table.resource_column)
        importance = self.policy.importance
        rows: dict[int, list[PodInfo]] = {}
        for n, pod in enumerate(pods):
            if n % _SLICE == 0:
                yield from self.may_rest(_SLICE)
            row = table.index.get(self._cluster.node_of(pod.uid) or "")
            if row is not None:
                rows.setdefault(row, []).append(pod)

        def cost(row: int) -> tuple[int, int, float, int]:
            pods = rows[row]
            free = dict(zip(columns, table.free(row, columns), strict=True))
            for pod in pods:
                for column, amount in zip(*pod.request_vector(table.resource_column), strict=True):
                    if column in free:
                        free[column] += amount
            capacity = min(free[c] // n for c, n in zip(columns, requested, strict=True) if n)
            violating, _ = split_by_pdb_violation(by_importance(pods, importance), budgets)
            per_pod = len(pods) / max(capacity, 0.01)
            return len(violating), max(map(importance, pods)), per_pod, row

        costs: dict[int, tuple[int, int, float, int]] = {}
        for row in rows:
            yield from self.may_rest(_ASKING * (1 + len(rows[row])))
            costs[row] = cost(row)
        return [rows[row] for row in sorted(rows, key=costs.__getitem__)]

    def _is_candidate(self, pod: PodInfo) -> bool:
        if self._is_leaving(pod) or not self._is_evictable(pod):
            return False
        if not self.policy.in_gang(pod):
            return self._losses.may_add((pod,))
        if pod.uid not in self._in_whole_gang:
            together = self.company([pod])
            if together is None:
                return False
            if len(together) > 1:
                self._in_whole_gang.update(each.uid for each in together)
        return True

    def _is_leaving(self, pod: PodInfo) -> bool:
        nominator = self._nominator
        return pod.uid in nominator.terminating_victims or pod.uid in nominator

    def _is_evictable(self, pod: PodInfo) -> bool:
        known = self._evictable.get(pod.uid)
        if known is None:
            known = self._evictable[pod.uid] = self._may_be_evicted(pod)
        return known

    def _may_be_evicted(self, pod: PodInfo) -> bool:
        policy = self.policy
        if pod.uid in self._own or not self._plugin.is_preemptable(pod):
            return False
        if not policy.time_protects:
            kind = policy.victim_class(pod)
            if (known := self._evictable_kinds.get(kind)) is None:
                known = all(policy.can_preempt(each, pod) for each in self._preemptors)
                self._evictable_kinds[kind] = known
            return known
        kept_from = [each for each in self._preemptors if not policy.can_preempt(each, pod)]
        if not kept_from:
            return True
        if all(policy.protected_until(each, pod) > policy.now for each in kept_from):
            self.time_protected = True
        return False


def preemptors_of(members: Iterable[PodInfo], policy: EvictionPolicy) -> Sequence[PodInfo]:
    """Those members of a group that may evict the fewest: what these may, all of them may."""
    weakest: dict[Hashable, PodInfo] = {}
    for pod in members:
        other = weakest.setdefault(policy.preemptor_class(pod), pod)
        if pod.priority < other.priority:
            weakest[policy.preemptor_class(pod)] = pod
    return list(weakest.values())
