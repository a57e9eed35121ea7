"""BinPack: fill nodes that are in use before touching empty ones."""

from __future__ import annotations

from arranger.cluster import BoolArray, IntArray, NodeView, PodInfo
from arranger.framework.status import CycleState
from arranger.plugins.placement.policies import NodeUtilization, UtilizationPolicyPlugin


class BinPack(UtilizationPolicyPlugin):
    """Prefer the nodes that are fullest with the pod on them."""

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """The weighted mean of requested / allocatable after placement, in per cent."""
        utilization: NodeUtilization = state[self.name]
        return utilization.percent(nodes)
