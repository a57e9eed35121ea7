"""NodeResourcesBalancedAllocation: use the resources of a node evenly."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from arranger.cluster.columns import CPU, MEMORY, BoolArray, IntArray
from arranger.cluster.pod_info import PodInfo
from arranger.cluster.view import NodeView
from arranger.framework.plugin import Reads
from arranger.framework.profile import SpecPlugin
from arranger.framework.status import SKIP, CycleState, Status
from arranger.plugins.args import CPU_AND_MEMORY, PluginArgs, ResourceSpec
from arranger.plugins.resource_scoring import is_scalar, offered, stacked


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    """Which resources to balance; their weights mean nothing, as upstream."""

    resources: Annotated[tuple[ResourceSpec, ...], Field(min_length=1)] = CPU_AND_MEMORY


class NodeResourcesBalancedAllocation(SpecPlugin):
    """Prefer nodes whose resources the pod brings closer to equal use."""

    reads = Reads.USAGE
    wake_on = ()
    Args = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        args = args or NodeResourcesBalancedAllocationArgs()
        self._resources = [resource.name for resource in args.resources]

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Skip pods that ask for none of the resources: every node would look perfect."""
        asked = np.array([[pod.requests.get(name, 0)] for name in self._resources], dtype=np.int64)
        if not asked.any():
            return SKIP
        state[self.name] = asked
        return None

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """50–100: 75 if nothing changes, more if the pod evens the node out."""
        asked: IntArray = state[self.name]
        allocatable = offered(self._resources, nodes)
        for place, name in enumerate(self._resources):
            if is_scalar(name) and not asked[place, 0]:
                allocatable[place] = 0
        requested = self._requested(nodes)
        after = _evenness(requested + asked, allocatable)
        before = _evenness(requested, allocatable)
        score: IntArray = 50 + (50 + after - before) // 2
        return score

    def _requested(self, nodes: NodeView) -> IntArray:
        table = nodes.table
        if self._resources == ["cpu", "memory"]:
            return table.requested[CPU : MEMORY + 1, nodes.rows]
        return stacked([nodes.requested(table.column_of(name)) for name in self._resources])


def _evenness(requested: IntArray, allocatable: IntArray) -> IntArray:
    """100 × (1 − the standard deviation of the used shares), as upstream computes it."""
    counted = allocatable > 0
    used = np.minimum(requested / np.maximum(allocatable, 1), 1.0) * counted
    deviation: npt.NDArray[np.float64]
    if len(used) == 2:
        deviation = np.abs((used[0] - used[1]) / 2) * counted.all(axis=0)
    else:
        deviation = _deviation(used, counted)
    return ((1 - deviation) * 100).astype(np.int64)


def _deviation(used: npt.NDArray[np.float64], counted: BoolArray) -> npt.NDArray[Any]:
    """The general case: any number of resources, of which a node may lack some."""
    count = counted.sum(axis=0)
    mean = _sum_in_order(used) / np.maximum(count, 1)
    squares = np.where(counted, (used - mean) * (used - mean), 0.0)
    deviation = np.sqrt(_sum_in_order(squares) / np.maximum(count, 1))
    # Of two shares upstream takes half the difference, which may differ in the last digit.
    high = np.where(counted, used, -np.inf).max(axis=0, initial=-np.inf)
    low = np.where(counted, used, np.inf).min(axis=0, initial=np.inf)
    half = np.where(count == 2, high - low, 0.0) / 2
    return np.where(count > 2, deviation, half)


def _sum_in_order(terms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Adding in another order than upstream could change the last digit."""
    total = np.zeros(terms.shape[1])
    for row in terms:
        total = total + row
    return total
