"""MinFragment: leave no node with CPU and no memory, or memory and no CPU."""

from __future__ import annotations

import numpy as np

from arranger.cluster import BoolArray, IntArray, NodeView, PodInfo
from arranger.framework.status import CycleState
from arranger.plugins.placement.policies import NodeUtilization, UtilizationPolicyPlugin


class MinFragment(UtilizationPolicyPlugin):
    """Prefer full nodes whose CPU and memory are used alike."""

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """``(1 - |cpu - memory|) × BinPack's score``, with the used shares after placement."""
        utilization: NodeUtilization = state[self.name]
        used, offered = utilization.requested(nodes)[:2], utilization.allocatable(nodes)[:2]
        cpu, memory = np.minimum(used / np.maximum(offered, 1), 1.0)
        # The sum of shares that are tenths may be off in the last digit: 59.999… is 60.
        worth = (1.0 - np.abs(cpu - memory)) * utilization.percent(nodes) + 1e-9
        score: IntArray = np.floor(worth).astype(np.int64)
        return score
