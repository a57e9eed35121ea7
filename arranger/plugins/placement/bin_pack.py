"""BinPack: fill nodes that are in use before touching empty ones (seed 003)."""

from __future__ import annotations

from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.node_view import NodeView
from arranger.cluster.pod_info import PodInfo
from arranger.framework.status import SKIP, CycleState, Status
from arranger.plugins.placement.policies import NodeUtilization, PlacementPolicyPlugin, WeightsArgs


class BinPack(PlacementPolicyPlugin):
    """Prefer the nodes that are fullest with the pod on them."""

    Args = WeightsArgs

    def __init__(self, args: WeightsArgs | None = None) -> None:
        self._weights = {r.name: r.weight for r in (args or WeightsArgs()).resources}

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Skip pods that do not ask for it."""
        if not self.is_requested_by(pod):
            return SKIP
        state[self.name] = NodeUtilization(pod, self._weights)
        return None

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """The weighted mean of requested / allocatable after placement, in per cent."""
        utilization: NodeUtilization = state[self.name]
        return utilization.utilization(nodes)
