"""Which pods could be evicted for a gang group, and on which nodes that costs least."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.queue.nominator import Nominator
from arranger.framework.interface import Plugin
from arranger.framework.preemption import EvictionPolicy
from arranger.preemption.disruption_budgets import split_by_pdb_violation
from arranger.preemption.importance import by_importance


@dataclass(slots=True, eq=False)
class PreemptionCandidates:
    """The pods that could be evicted for each of the preemptors, and so for their group.

    Args:
        plugin: the profile's plugin that evicts pods, which may exclude some.

    Attributes:
        time_protected: whether any pod was found that only time protects for now.
    """

    _cluster: Cluster
    _nominator: Nominator
    _policy: EvictionPolicy
    _plugin: Plugin
    _preemptors: Sequence[PodInfo]
    #: uid → whether the pod and all that would have to leave with it could be evicted.
    _gang_evictable: dict[str, bool] = field(default_factory=dict)
    time_protected: bool = False

    def by_node(self, like: PodInfo) -> list[list[PodInfo]]:
        """Those of each node, first where they cost least per pod ``like`` that gets room there."""
        table, budgets = self._cluster.table, tuple(self._cluster.budgets.values())
        columns, requested = like.request_vector(table.resource_column)
        importance = self._policy.importance
        candidates = (list(filter(self._is_candidate, pods.values())) for pods in table.pods)
        rows = {row: pods for row, pods in enumerate(candidates) if pods}

        def cost(row: int) -> tuple[int, int, float, int]:
            pods = rows[row]
            free = {c: int(table.allocatable[c, row] - table.requested[c, row]) for c in columns}
            for pod in pods:
                for column, amount in zip(*pod.request_vector(table.resource_column), strict=True):
                    if column in free:
                        free[column] += amount
            capacity = min(free[c] // n for c, n in zip(columns, requested, strict=True) if n)
            violating, _ = split_by_pdb_violation(by_importance(pods, importance), budgets)
            per_pod = len(pods) / max(capacity, 0.01)
            return len(violating), max(map(importance, pods)), per_pod, row

        return [rows[row] for row in sorted(rows, key=cost)]

    def _is_candidate(self, pod: PodInfo) -> bool:
        if pod.uid in self._nominator.terminating_victims or pod.uid in self._nominator:
            return False
        if not self._is_evictable(pod):
            return False
        if pod.uid not in self._gang_evictable:
            together = self._policy.expand_to_gang([pod])
            evictable = all(map(self._is_evictable, together))
            self._gang_evictable.update((each.uid, evictable) for each in together)
        return self._gang_evictable[pod.uid]

    def _is_evictable(self, pod: PodInfo) -> bool:
        policy = self._policy
        if not self._plugin.is_preemptable(pod):
            return False
        kept_from = [each for each in self._preemptors if not policy.can_preempt(each, pod)]
        if not kept_from:
            return True
        if policy.time_protects and all(
            policy.protected_until(each, pod) > policy.now for each in kept_from
        ):
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
