"""Scores by how full nodes would be with the pod on them.

Exact in upstream's integer arithmetic (``noderesources/{least,most}_allocated.go``,
``requested_to_capacity_ratio.go``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field, model_validator

from arranger.cluster import CPU, MEMORY, IntArray, NodeView
from arranger.cluster.nodes.resource_shares import EXACT, FloatArray, ResourceShares
from arranger.plugins.helpers.args import CPU_AND_MEMORY, ArgsSection, ResourceSpec


class ShapePoint(ArgsSection):
    """The score (0–10) of a utilisation (per cent)."""

    utilization: Annotated[int, Field(ge=0, le=100)]
    score: Annotated[int, Field(ge=0, le=10)]


class RatioParams(ArgsSection):
    """``requestedToCapacityRatio``: a function of utilisation, linear between its points."""

    shape: Annotated[tuple[ShapePoint, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _increasing(self) -> RatioParams:
        used = [point.utilization for point in self.shape]
        if any(a >= b for a, b in pairwise(used)):
            raise ValueError("utilization values must be sorted in increasing order")
        return self


class ScoringStrategy(ArgsSection):
    """``scoringStrategy`` of NodeResourcesFit."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: Annotated[tuple[ResourceSpec, ...], Field(min_length=1)] = CPU_AND_MEMORY
    requested_to_capacity_ratio: RatioParams | None = None

    @model_validator(mode="after")
    def _shape_if_needed(self) -> ScoringStrategy:
        needed = self.type == "RequestedToCapacityRatio"
        if needed != (self.requested_to_capacity_ratio is not None):
            must = "must" if needed else "must not"
            raise ValueError(f"requestedToCapacityRatio {must} be given when type is {self.type}")
        return self


#: Scores 0–100 by what is requested and what is allocatable, both ``[resource, row]``: one a row.
#: A resource that a node does not have does not count there.
ResourceScorer = Callable[[IntArray, IntArray], IntArray]


def is_scalar(resource: str) -> bool:
    """Whether a resource counts only for pods that request it: extended ones, hugepages."""
    return "/" in resource or resource.startswith(("hugepages-", "attachable-volumes-"))


def stack_rows(rows: Sequence[IntArray]) -> IntArray:
    """One row a resource."""
    return np.stack(rows) if rows else np.zeros((0, 0), dtype=np.int64)


def allocatable_matrix(resources: list[str], nodes: NodeView) -> IntArray:
    """``[resource, row]`` of what is allocatable."""
    table = nodes.table
    if resources == ["cpu", "memory"]:
        return table.allocatable[CPU : MEMORY + 1, nodes.rows]
    return stack_rows([nodes.allocatable(table.resource_column(name)) for name in resources])


def requested_matrix(resources: list[str], nodes: NodeView, *, nonzero: bool = False) -> IntArray:
    """``[resource, row]`` of what is requested.

    ``nonzero`` counts cpu and memory with upstream's defaults for containers that state none.
    """
    table = nodes.table
    if resources == ["cpu", "memory"]:
        source = table.nonzero_requested if nonzero else table.requested
        return source[CPU : MEMORY + 1, nodes.rows]
    special = {"cpu": CPU, "memory": MEMORY} if nonzero else {}
    return stack_rows(
        [
            table.nonzero_requested[special[name]][nodes.rows]
            if name in special
            else nodes.requested(table.resource_column(name))
            for name in resources
        ]
    )


def usable_shares(resources: list[str], nodes: NodeView, asked: IntArray) -> ResourceShares | None:
    """What the table keeps for scores of all nodes, if it does for pods that ask so much more."""
    shares = nodes.table.shares
    if nodes.length != nodes.table.size or not isinstance(nodes.rows, slice):
        return None
    if resources != ["cpu", "memory"] or max(asked.item(0), asked.item(1)) >= EXACT:
        return None
    return shares if shares.refresh() else None


def shares_everywhere(nodes: NodeView) -> ResourceShares | None:
    """What the table keeps of all nodes, if those are meant; of it ``free`` and its least."""
    if nodes.length != nodes.table.size or not isinstance(nodes.rows, slice):
        return None
    nodes.table.shares.refresh()
    return nodes.table.shares


def least_allocated_everywhere(shares: ResourceShares, extra: IntArray) -> IntArray:
    """What ``LeastAllocated`` says of all nodes, where cpu and memory weigh the same."""
    sum_of_percents = _free_percent(shares, 0, extra.item(0))
    sum_of_percents += _free_percent(shares, 1, extra.item(1))
    mean = sum_of_percents.astype(np.int64)
    mean >>= 1
    return mean


def _free_percent(shares: ResourceShares, resource: int, extra: int) -> FloatArray:
    """The free share with so much more in use, in whole per cent.

    Multiplied by what is kept, as division takes several times as long; exact nonetheless: see
    :mod:`arranger.cluster.nodes.resource_shares`.
    """
    parts: FloatArray = shares.percent[resource] * -extra
    parts += shares.free_percent[resource]
    if extra > shares.least_counted[resource]:
        np.maximum(parts, 0.0, out=parts)
    np.floor(parts, out=parts)
    return parts


def make_scorer(strategy: ScoringStrategy) -> ResourceScorer:
    """The scoring function of a strategy."""
    weights = np.array([[resource.weight] for resource in strategy.resources], dtype=np.int64)
    if strategy.requested_to_capacity_ratio is not None:
        return _RequestedToCapacityRatio(weights[:, 0], strategy.requested_to_capacity_ratio.shape)

    def least_allocated(requested: IntArray, allocatable: IntArray) -> IntArray:
        """The free share, in per cent."""
        return _weighted_mean(np.maximum(allocatable - requested, 0), weights, allocatable)

    def most_allocated(requested: IntArray, allocatable: IntArray) -> IntArray:
        """The used share, in per cent."""
        return _weighted_mean(np.minimum(requested, allocatable), weights, allocatable)

    return most_allocated if strategy.type == "MostAllocated" else least_allocated


def score_one_row(
    strategy: ScoringStrategy, requested: Sequence[int], allocatable: Sequence[int]
) -> int | None:
    """What the scorer of a strategy says of one row, for much less; None where that is not done."""
    if strategy.type == "RequestedToCapacityRatio":
        return None
    points = weights = 0
    for resource, used, whole in zip(strategy.resources, requested, allocatable, strict=True):
        if whole > 0:
            most = strategy.type == "MostAllocated"
            part = min(used, whole) if most else max(whole - used, 0)
            points += resource.weight * (100 * part // whole)
            weights += resource.weight
    return points // max(weights, 1)


def _weighted_mean(parts: IntArray, weights: IntArray, allocatable: IntArray) -> IntArray:
    """The mean percentage that ``parts`` make of what is allocatable, over what the node has."""
    mean: IntArray
    if allocatable.min(initial=1) > 0:  # the usual case, in half the time
        shares = percentages(parts, allocatable)
        if len(weights) == 2 and weights[0, 0] == weights[1, 0]:
            mean = shares[0] + shares[1]
            mean >>= 1
            return mean
        mean = (shares * weights).sum(axis=0) // int(weights.sum())
        return mean
    shares = parts * 100 // np.maximum(allocatable, 1)
    counted = (weights * (allocatable > 0)).sum(axis=0)
    mean = (shares * weights).sum(axis=0) // np.maximum(counted, 1)
    return mean


#: Integers below are what they are as floating-point numbers, too.
_EXACT: Final = 2**53


def percentages(parts: IntArray, wholes: IntArray) -> IntArray:
    """``100 * parts // wholes`` of parts that are not negative, and wholes above 0.

    Floating-point division is several times as fast, and rounded down it is exact: a quotient of
    integers below 2**53 that is no integer is further from the next one than it is rounded.
    """
    hundredfold = parts * 100
    if hundredfold.max(initial=0) >= _EXACT or wholes.max(initial=0) >= _EXACT:
        exact: IntArray = hundredfold // wholes
        return exact
    shares: IntArray = (hundredfold / wholes).astype(np.int64)
    return shares


class _RequestedToCapacityRatio:
    """The configured function of the used share; resources that score 0 do not count."""

    def __init__(self, weights: IntArray, shape: Sequence[ShapePoint]) -> None:
        self._weights = weights
        self._worth = np.array([_shape_score(used, shape) for used in range(101)], dtype=np.int64)

    def __call__(self, requested: IntArray, allocatable: IntArray) -> IntArray:
        used = np.minimum(requested, allocatable) * 100 // np.maximum(allocatable, 1)
        worth = np.where(allocatable > 0, self._worth[used], 0)
        total = (worth * self._weights[:, None]).sum(axis=0)
        counted = np.maximum(((worth > 0) * self._weights[:, None]).sum(axis=0), 1)
        rounded: IntArray = (2 * total + counted) // (2 * counted)  # halves go up
        return rounded


def _shape_score(used: int, shape: Sequence[ShapePoint]) -> int:
    """The function at ``used`` per cent, on a scale of 0–100, rounded towards the left point."""
    left = shape[0]
    for point in shape:
        if used <= point.utilization:
            if point is left:
                return 10 * left.score
            rise = 10 * (point.score - left.score) * (used - left.utilization)
            return 10 * left.score + int(rise / (point.utilization - left.utilization))
        left = point
    return 10 * left.score
