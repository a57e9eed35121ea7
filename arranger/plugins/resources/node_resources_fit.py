"""NodeResourcesFit: a pod goes where what it requests is free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

import numpy as np
from pydantic import Field

from arranger.api.resource_requests import NONZERO_DEFAULTS, parse_resource_list, pod_requests
from arranger.api.types.core import Node
from arranger.cluster import PODS, BoolArray, IntArray, NodeTable, NodeView, PodInfo
from arranger.cluster.columns import CPU, MEMORY, NOT_OFFERED
from arranger.framework import ActionType, ClusterEvent, DependsOn, QueueingHint, SpecOnlyPlugin
from arranger.framework.filter_result import FilterResult, GroupedRejections, Rejection
from arranger.framework.status import Code, CycleState, Status
from arranger.plugins.helpers.args import PluginArgs
from arranger.plugins.helpers.resource_scoring import (
    ScoringStrategy,
    allocatable_matrix,
    is_scalar,
    least_allocated_everywhere,
    make_scorer,
    requested_matrix,
    score_one_row,
    shares_everywhere,
    usable_shares,
)

ResourceGroup = Annotated[str, Field(pattern=r"^[^/]+$")]


class NodeResourcesFitArgs(PluginArgs):
    """Which extended resources not to look at, and how to score."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[ResourceGroup, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()


def _allocatable_increased(pod: PodInfo, event: ClusterEvent) -> bool:
    """The pod would fit the node if it were empty, and something it requests has increased."""
    if event.node is None or not _could_fit(pod, event):
        return False
    offers = _allocatable(event.node)
    needs = {**pod.requests, "pods": 1}
    if any(amount > offers.get(name, 0) for name, amount in needs.items() if amount):
        return False
    if event.node_before is None:
        return True
    before = _allocatable(event.node_before)
    return any(offers.get(name, 0) > before.get(name, 0) for name, n in needs.items() if n)


def _scaled_down(pod: PodInfo, event: ClusterEvent) -> bool:
    """A placed pod requests less of what this one requests, or this one requests less."""
    if event.pod is None or event.pod_before is None:
        return True
    before, after = pod_requests(event.pod_before), pod_requests(event.pod)
    requested = before if event.pod.metadata.uid == pod.uid else pod.requests
    return any(before.get(name, 0) > after.get(name, 0) for name, n in requested.items() if n)


def _could_fit(pod: PodInfo, event: ClusterEvent) -> bool:
    return event.could_fit is None or event.could_fit(pod)


def _allocatable(node: Node) -> Mapping[str, int]:
    return parse_resource_list(node.status.allocatable)


#: Base-3 digits that are told apart at a time: so many fit into 64 bits.
_MAX_DIGITS: Final = 30
#: In :func:`_lack`: not even without any pods.
_NEVER: Final = 2
#: Resources that no node offers and that a message names.
_MAX_NAMED: Final = 16


@dataclass(slots=True)
class _PreFilterState:
    """What the class of pods requests.

    Attributes:
        wanted: (column, amount) in the resource matrices.
        unmet: why it cannot have those that no node offers.
        extra: ``[resource, 1]``: what the pod adds to each scored resource.
    """

    wanted: list[tuple[int, int]]
    unmet: list[str]
    extra: IntArray = field(default_factory=lambda: np.zeros((0, 1), dtype=np.int64))


class NodeResourcesFit(SpecOnlyPlugin):
    """Reject nodes without enough free resources; score by how full they would be."""

    depends_on = DependsOn.USAGE
    monotone = counts_resources = True
    Args = NodeResourcesFitArgs
    queueing_hints = (
        QueueingHint(ActionType.POD_REMOVED, _could_fit),
        QueueingHint(ActionType.POD_SCALED_DOWN | ActionType.OWN_UPDATE, _scaled_down),
        QueueingHint(ActionType.NODE_ADDED | ActionType.NODE_ALLOCATABLE, _allocatable_increased),
    )

    def __init__(self, args: NodeResourcesFitArgs | None = None) -> None:
        args = args or NodeResourcesFitArgs()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        if args.ignored_resources or args.ignored_resource_groups:
            self.ignores = self._is_ignored
            # The usual hint looks at resources that are ignored here.
            wakes = (QueueingHint(ActionType.CAPACITY_FREED | ActionType.OWN_UPDATE),)
            self.queueing_hints = wakes  # type: ignore[assignment,misc]
            # Nor is it counting alone that decides.
            self.counts_resources = False  # type: ignore[misc]
        self._resources = [resource.name for resource in args.scoring_strategy.resources]
        self._scalar = [place for place, name in enumerate(self._resources) if is_scalar(name)]
        self._scorer = make_scorer(args.scoring_strategy)
        self._strategy = args.scoring_strategy
        weights = {resource.weight for resource in self._strategy.resources}
        self._is_plain = self._strategy.type == "LeastAllocated" and len(weights) == 1

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes with a pod slot and every resource requested."""
        data = self._requests(state, pod, nodes.table)
        passes: BoolArray | None = None
        row, table = nodes.only_row, nodes.table
        if row >= 0:  # after each placement
            offered, requested = table.allocatable.item, table.requested.item
            enough = all(offered(at, row) - requested(at, row) >= n for at, n in data.wanted)
            return FilterResult(np.array([enough]), lambda: _explain(data, nodes))
        shares = shares_everywhere(nodes)
        for column, amount in data.wanted:
            if shares is not None and column < len(shares.free):
                if amount <= shares.least_free[column]:
                    continue  # no node has less
                fits = shares.free[column] >= amount
            else:
                fits = nodes.allocatable(column) - nodes.requested(column) >= amount
            passes = fits if passes is None else passes & fits
        if passes is None:
            passes = nodes.full_mask()
        return FilterResult(passes, lambda: _explain(data, nodes))

    def _requests(self, state: CycleState, pod: PodInfo, table: NodeTable) -> _PreFilterState:
        data = state.get(self.name)
        if data is None:
            columns, wanted = pod.request_vector(table.resource_column)
            names, unmet = table.resources.values, list[str]()
            if NOT_OFFERED in columns:
                asked = [name for name, n in pod.requests.items() if n]
                unmet = [n for n in asked if table.resource_column(n) == NOT_OFFERED]
                unmet = [name for name in unmet if not self._is_ignored(name)]
            data = state[self.name] = _PreFilterState(
                [
                    (column, amount)
                    for column, amount in sorted(zip(columns, wanted, strict=True), key=_pods_first)
                    if (unmet if column == NOT_OFFERED else not self._is_ignored(names[column]))
                ],
                _unmet_reasons(unmet),
            )
        assert isinstance(data, _PreFilterState)
        return data

    def _is_ignored(self, resource: str) -> bool:
        extended = "/" in resource and "kubernetes.io/" not in resource
        group = resource.split("/")[0]
        return extended and (resource in self._ignored or group in self._ignored_groups)

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Work out what the pod adds to each resource that counts.

        Upstream's scorer, unlike its filter, ignores pod-level requests.
        """
        data = self._requests(state, pod, nodes.table)
        if self._resources == ["cpu", "memory"] and pod.pod.spec.resources is None:
            cpu, memory = pod.nonzero_requests  # the usual case: the same amounts
            data.extra = np.array([[cpu], [memory]], dtype=np.int64)
            return None
        names = {*self._resources, *NONZERO_DEFAULTS}
        counted = pod_requests(pod.pod, defaults=NONZERO_DEFAULTS, pod_level=False, only=names)
        extra = [[counted.get(name, 0)] for name in self._resources]
        data.extra = np.array(extra, dtype=np.int64)
        return None

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """By the strategy: emptiest, fullest, or a function of how full."""
        extra = self._requests(state, pod, nodes.table).extra
        row, table = nodes.only_row, nodes.table
        if row >= 0 and self._resources == ["cpu", "memory"]:
            offered, used = table.allocatable.item, table.nonzero_requested.item
            requested = used(CPU, row) + extra.item(0, 0), used(MEMORY, row) + extra.item(1, 0)
            whole = offered(CPU, row), offered(MEMORY, row)
            score = score_one_row(self._strategy, requested, whole)
            if score is not None:
                return np.array([score], dtype=np.int64)
        if self._is_plain and (shares := usable_shares(self._resources, nodes, extra)) is not None:
            return least_allocated_everywhere(shares, extra)
        allocatable = allocatable_matrix(self._resources, nodes)
        for place in self._scalar:
            if not extra[place, 0]:
                allocatable[place] = 0
        in_use = requested_matrix(self._resources, nodes, nonzero=True)
        return self._scorer(in_use + extra, allocatable)


def _pods_first(wanted: tuple[int, int]) -> tuple[bool, int]:
    return wanted[0] != PODS, wanted[0]


def _explain(data: _PreFilterState, nodes: NodeView) -> GroupedRejections:
    """Group the rows by which resources they lack, and whether they could ever have them."""
    states = [_lack(column, amount, nodes) for column, amount in data.wanted]
    groups = np.zeros(nodes.length, dtype=np.int64)
    for n, state in enumerate(reversed(states), start=1):
        groups = 3 * groups + state
        if n % _MAX_DIGITS == 0:
            _, groups = np.unique(groups, return_inverse=True)
    _, places, kind_of = np.unique(groups, return_index=True, return_inverse=True)
    kinds: list[Rejection] = []
    number_of: list[int] = []
    names = nodes.table.resources.values
    for place in places.tolist():
        found = zip(data.wanted, (state.item(place) for state in states), strict=True)
        lacking = [(column, state) for (column, _), state in found if state]
        number_of.append(len(kinds) if lacking else -1)
        if lacking:
            reasons: list[str] = []
            for column, _ in lacking:
                if column == NOT_OFFERED:
                    reasons += data.unmet
                else:
                    name = names[column]
                    reasons.append("Too many pods" if name == "pods" else f"Insufficient {name}")
            hopeless = any(state == _NEVER for _, state in lacking)
            code = Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
            kinds.append(Rejection(tuple(reasons), code))
    return kinds, np.array(number_of, dtype=np.int64)[kind_of]


def _lack(column: int, amount: int, nodes: NodeView) -> IntArray:
    """0 where there is enough, 1 where pods must go first, 2 where there is never enough."""
    offer = nodes.allocatable(column)
    lacks = (amount > offer - nodes.requested(column)).astype(np.int64)
    return lacks if column == PODS else lacks + (amount > offer)


def _unmet_reasons(unmet: list[str]) -> list[str]:
    """Why a pod fits nowhere that asks for what no node has."""
    reasons = [f"Insufficient {name}" for name in sorted(unmet)[:_MAX_NAMED]]
    more = len(unmet) - len(reasons)
    return [*reasons, *([f"Insufficient resources of {more} other names"] if more else [])]
