"""MinFragment: leave no node with CPU and no memory, or memory and no CPU (seed 003)."""

from __future__ import annotations

import numpy as np

from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.node_view import NodeView
from arranger.cluster.pod_info import PodInfo
from arranger.framework.status import SKIP, CycleState, Status
from arranger.plugins.placement.policies import NodeUtilization, PlacementPolicyPlugin, WeightsArgs


class MinFragment(PlacementPolicyPlugin):
    """Prefer full nodes whose CPU and memory are used alike."""

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
        """``(1 - |cpu - memory|) × BinPack's score``, with the used shares after placement."""
        utilization: NodeUtilization = state[self.name]
        used, offered = utilization.requested(nodes)[:2], utilization.allocatable(nodes)[:2]
        cpu, memory = np.minimum(used / np.maximum(offered, 1), 1.0)
        # The sum of shares that are tenths may be off in the last digit: 59.999… is 60.
        worth = (1.0 - np.abs(cpu - memory)) * utilization.utilization(nodes) + 1e-9
        score: IntArray = np.floor(worth).astype(np.int64)
        return score
