"""Which pods could be evicted for a gang group, and on which nodes that costs least."""

from __future__ import annotations

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.queue.nominator import Nominator
from arranger.framework.interface import Plugin
from arranger.framework.preemption import EvictionPolicy
from arranger.preemption.disruption_budgets import split_by_pdb_violation
from arranger.preemption.importance import by_importance


class PreemptionCandidates:
    """The pods that could be evicted for a pod, and so for its group, by row of the node table.

    Args:
        plugin: the profile's plugin that evicts pods, which may exclude some.

    Attributes:
        rows: row → the pods there that could be evicted, for rows that have any.
        time_protected: whether any pod is missing only because time protects it for now.
    """

    def __init__(
        self,
        cluster: Cluster,
        nominator: Nominator,
        policy: EvictionPolicy,
        plugin: Plugin,
        preemptor: PodInfo,
    ) -> None:
        self._cluster = cluster
        self._nominator = nominator
        self._policy = policy
        self._plugin = plugin
        self._preemptor = preemptor
        #: uid → whether the pod and all that would have to leave with it could be evicted.
        self._gang_evictable: dict[str, bool] = {}
        self.time_protected = False
        self.rows: dict[int, list[PodInfo]] = {}
        table = cluster.table
        for row in range(table.size):
            if pods := [pod for pod in table.pods[row].values() if self._is_candidate(pod)]:
                self.rows[row] = pods

    def rows_by_cost(self, like: PodInfo) -> list[tuple[int, list[PodInfo]]]:
        """The rows, those first whose pods cost least per pod ``like`` that they make room for."""
        table, budgets = self._cluster.table, tuple(self._cluster.budgets.values())
        columns, requested = like.request_vector(table.resource_column)
        importance = self._policy.importance

        def cost(row: int) -> tuple[int, int, float, int]:
            pods = self.rows[row]
            free = {c: int(table.allocatable[c, row] - table.requested[c, row]) for c in columns}
            for pod in pods:
                for column, amount in zip(*pod.request_vector(table.resource_column), strict=True):
                    if column in free:
                        free[column] += amount
            capacity = min(free[c] // n for c, n in zip(columns, requested, strict=True) if n)
            violating, _ = split_by_pdb_violation(by_importance(pods, importance), budgets)
            per_pod = len(pods) / max(capacity, 0.01)
            return len(violating), max(map(importance, pods)), per_pod, row

        return [(row, self.rows[row]) for row in sorted(self.rows, key=cost)]

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
        policy, preemptor = self._policy, self._preemptor
        if not self._plugin.is_preemptable(pod):
            return False
        if policy.can_preempt(preemptor, pod):
            return True
        if policy.time_protects and policy.protected_until(preemptor, pod) > policy.now:
            self.time_protected = True
        return False
