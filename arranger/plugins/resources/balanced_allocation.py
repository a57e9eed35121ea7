"""NodeResourcesBalancedAllocation: use the resources of a node evenly."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from arranger.cluster import BoolArray, IntArray, NodeTable, NodeView, PodInfo
from arranger.cluster.columns import CPU, MEMORY
from arranger.cluster.nodes.resource_shares import evenness, evenness_of_rows
from arranger.framework import SKIP, CycleState, DependsOn, SpecOnlyPlugin, Status
from arranger.plugins.helpers.args import CPU_AND_MEMORY, PluginArgs, ResourceSpec
from arranger.plugins.helpers.resource_scoring import (
    allocatable_matrix,
    is_scalar,
    requested_matrix,
    usable_shares,
)


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    """Which resources to balance; as upstream, their weights have no effect."""

    resources: Annotated[tuple[ResourceSpec, ...], Field(min_length=1)] = CPU_AND_MEMORY


class NodeResourcesBalancedAllocation(SpecOnlyPlugin):
    """Prefer nodes whose resources the pod brings closer to equal use."""

    depends_on = DependsOn.USAGE
    queueing_hints = ()
    Args = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        args = args or NodeResourcesBalancedAllocationArgs()
        self._resources = [resource.name for resource in args.resources]
        self._scalar = [place for place, name in enumerate(self._resources) if is_scalar(name)]

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Skip pods that request none of the resources: every node would look perfect."""
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
        if nodes.only_row >= 0 and self._resources == ["cpu", "memory"]:
            score = _score_one_row(asked, nodes.table, nodes.only_row)
            if score is not None:
                return np.array([score], dtype=np.int64)
        shares = usable_shares(self._resources, nodes, asked)
        if shares is not None:
            cpu = shares.requested[0] + asked.item(0)
            memory = shares.requested[1] + asked.item(1)
            cpu /= shares.whole[0]
            memory /= shares.whole[1]
            least = shares.least_free
            fits = asked.item(0) <= least[CPU] and asked.item(1) <= least[MEMORY]
            scores = evenness_of_rows(cpu, memory, cap=not fits)
            scores += shares.unevenness  # 150 less: as below, in two steps
            scores >>= 1
            return scores
        allocatable = allocatable_matrix(self._resources, nodes)
        for place in self._scalar:
            if not asked[place, 0]:
                allocatable[place] = 0
        requested = requested_matrix(self._resources, nodes)
        change = _balance(requested + asked, allocatable) - _balance(requested, allocatable)
        general: IntArray = 50 + (50 + change) // 2
        return general


def _score_one_row(asked: IntArray, table: NodeTable, row: int) -> int | None:
    """The same for one row, as after each placement; None where a resource is not offered."""
    offered, used = table.allocatable.item, table.requested.item
    cpu, memory = offered(CPU, row), offered(MEMORY, row)
    if cpu <= 0 or memory <= 0:
        return None
    now_cpu, now_memory = used(CPU, row), used(MEMORY, row)
    now = evenness(now_cpu / cpu, now_memory / memory)
    after_cpu, after_memory = now_cpu + asked.item(0, 0), now_memory + asked.item(1, 0)
    change = evenness(after_cpu / cpu, after_memory / memory) - now
    return 50 + (50 + change) // 2


def _balance(requested: IntArray, allocatable: IntArray) -> IntArray:
    """100 × (1 − the standard deviation of the used shares), as upstream computes it."""
    if len(allocatable) == 2 and allocatable.min(initial=1) > 0:
        return evenness_of_rows(*(requested / allocatable))  # the usual case, in half the time
    counted = allocatable > 0
    used = np.minimum(requested / np.maximum(allocatable, 1), 1.0)
    general: IntArray = ((1 - _deviation(used, counted)) * 100).astype(np.int64)
    return general


def _deviation(used: npt.NDArray[np.float64], counted: BoolArray) -> npt.NDArray[Any]:
    """The general case: any number of resources, some of which a node may lack."""
    count = counted.sum(axis=0)
    mean = _sum_in_order(np.where(counted, used, 0.0)) / np.maximum(count, 1)
    squares = np.where(counted, (used - mean) * (used - mean), 0.0)
    deviation = np.sqrt(_sum_in_order(squares) / np.maximum(count, 1))
    # Of two shares upstream takes half the difference, which may differ in the last digit.
    high = np.where(counted, used, -np.inf).max(axis=0, initial=-np.inf)
    low = np.where(counted, used, np.inf).min(axis=0, initial=np.inf)
    half = np.where(count == 2, high - low, 0.0) / 2  # one resource alone is even
    return np.where(count > 2, deviation, half)


def _sum_in_order(terms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Adding in another order than upstream could change the last digit."""
    total = np.zeros(terms.shape[1])
    for row in terms:
        total = total + row
    return total
