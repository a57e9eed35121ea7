"""JobAffinity and JobAntiAffinity: the pods of one job together, or apart."""

from __future__ import annotations

from collections.abc import Hashable

from arranger.cluster import BoolArray, Cluster, IntArray, NodeView, PodInfo
from arranger.cluster.nodes.selector_counts import SelectorCounts
from arranger.framework.status import SKIP, CycleState, Status
from arranger.plugins.helpers.normalize_score import default_normalize_score
from arranger.plugins.placement.policies import PlacementPolicyPlugin


class JobAffinity(PlacementPolicyPlugin):
    """Prefer the nodes with the most pods of the same gang, or of the same controller."""

    def sign_pod(self, pod: PodInfo) -> Hashable:
        """The policies asked for and, where this is one of them, the workload."""
        return super().sign_pod(pod), pod.workload if self.is_requested_by(pod) else ""

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Find the counts of the workload's pods; there is no Filter to skip."""
        if self.is_requested_by(pod) and (key := pod.workload):
            state[self.name] = cluster.selector_counts.get(
                ("job", key),
                frozenset({pod.pod.metadata.namespace}),
                lambda other: other.workload == key,
            )
        return None

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Skip pods that do not ask for it, and those of no workload."""
        return None if self.name in state else SKIP

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """How many of the workload's pods are there."""
        counts: SelectorCounts = state[self.name]
        return counts.by_row()[nodes.rows]

    def normalize_score(self, scores: IntArray, feasible: BoolArray) -> IntArray:
        """The node with the most gets 100, the others in proportion."""
        return default_normalize_score(scores, feasible)


class JobAntiAffinity(JobAffinity):
    """Prefer the nodes with the fewest pods of the same gang, or of the same controller."""

    def normalize_score(self, scores: IntArray, feasible: BoolArray) -> IntArray:
        """The node with the most gets 0, one without gets 100."""
        return default_normalize_score(scores, feasible, reverse=True)
