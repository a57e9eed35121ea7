"""NodeResourcesFit: a pod goes where what it asks for is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import numpy as np
from pydantic import Field

from arranger.api.resource_requests import NON_ZERO_DEFAULTS, amounts, pod_requests
from arranger.api.types.core import Node
from arranger.cluster.columns import CPU, MEMORY, PODS, BoolArray, IntArray
from arranger.cluster.node_table import NodeTable
from arranger.cluster.node_view import NodeView
from arranger.cluster.pod_info import PodInfo
from arranger.framework.cluster_event import ClusterEvent, EventKind, WakeUp
from arranger.framework.filter_result import Grouped, Rejection, Verdicts
from arranger.framework.interface import Reads
from arranger.framework.runtime.profile import SpecPlugin
from arranger.framework.status import Code, CycleState, Status
from arranger.plugins.helpers.args import PluginArgs
from arranger.plugins.helpers.resource_scoring import (
    ScoringStrategy,
    is_scalar,
    make_scorer,
    offered,
    stacked,
)

ResourceGroup = Annotated[str, Field(pattern=r"^[^/]+$")]


class NodeResourcesFitArgs(PluginArgs):
    """Which extended resources to leave to others, and how to score."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[ResourceGroup, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()


def _has_grown(pod: PodInfo, event: ClusterEvent) -> bool:
    """The pod would fit the node if it were empty, and something it asks for has grown."""
    if event.node is None:
        return False
    offers = _offers(event.node)
    needs = {**pod.requests, "pods": 1}
    if any(amount > offers.get(name, 0) for name, amount in needs.items() if amount):
        return False
    if event.node_before is None:
        return True
    before = _offers(event.node_before)
    return any(
        offers.get(name, 0) > before.get(name, 0) for name, amount in needs.items() if amount
    )


def _has_shrunk(pod: PodInfo, event: ClusterEvent) -> bool:
    """A placed pod gave up some of what this one asks for, or this one asks for less."""
    if event.pod is None or event.pod_before is None:
        return True
    before, after = pod_requests(event.pod_before), pod_requests(event.pod)
    asked = before if event.pod.metadata.uid == pod.uid else pod.requests
    return any(before.get(name, 0) > after.get(name, 0) for name, n in asked.items() if n)


def _has_room(pod: PodInfo, event: ClusterEvent) -> bool:
    """The pod might fit where one has left."""
    return event.room is None or event.room(pod)


def _offers(node: Node) -> Mapping[str, int]:
    return amounts(node.status.allocatable)


class _Asked:
    """What the class of pods asks for, as columns of the resource matrices."""

    __slots__ = ("extra", "wanted")

    def __init__(self, wanted: list[tuple[int, int]]) -> None:
        self.wanted = wanted
        #: ``[resource, 1]``: what the pod adds to each scored resource.
        self.extra: IntArray = np.zeros((0, 1), dtype=np.int64)


class NodeResourcesFit(SpecPlugin):
    """Reject nodes without room; score by how full they would be."""

    reads = Reads.USAGE
    Args = NodeResourcesFitArgs
    wake_on = (
        WakeUp(EventKind.POD_REMOVED, _has_room),
        WakeUp(EventKind.POD_SHRUNK | EventKind.OWN_UPDATE, _has_shrunk),
        WakeUp(EventKind.NODE_ADDED | EventKind.NODE_ALLOCATABLE, _has_grown),
    )

    def __init__(self, args: NodeResourcesFitArgs | None = None) -> None:
        args = args or NodeResourcesFitArgs()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        if args.ignored_resources or args.ignored_resource_groups:
            # Room that is ignored here must not keep a pod asleep.
            wakes = (WakeUp(EventKind.POD_REMOVED), *type(self).wake_on[1:])
            self.wake_on = wakes  # type: ignore[misc]
        self._resources = [resource.name for resource in args.scoring_strategy.resources]
        self._scalar = [place for place, name in enumerate(self._resources) if is_scalar(name)]
        self._scorer = make_scorer(args.scoring_strategy)

    # --- filtering -------------------------------------------------------------------------

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> Verdicts:
        """Pass nodes with a pod slot and every resource asked for."""
        wanted = self._asked(state, pod, nodes.table).wanted
        passes: BoolArray | None = None
        for column, amount in wanted:
            enough = nodes.allocatable(column) - nodes.requested(column) >= amount
            passes = enough if passes is None else passes & enough
        assert passes is not None, "every pod asks for a pod slot"
        return Verdicts(passes, lambda: _explain(wanted, nodes))

    def _asked(self, state: CycleState, pod: PodInfo, table: NodeTable) -> _Asked:
        asked = state.get(self.name)
        if asked is None:
            columns, wanted = table.vector(pod)
            names = table.resources.values
            asked = state[self.name] = _Asked(
                [
                    (column, amount)
                    for column, amount in sorted(zip(columns, wanted, strict=True), key=_pods_first)
                    if not self._is_ignored(names[column])
                ]
            )
        assert isinstance(asked, _Asked)
        return asked

    def _is_ignored(self, resource: str) -> bool:
        if resource not in self._ignored and not self._ignored_groups:
            return False
        extended = "/" in resource and "kubernetes.io/" not in resource
        return extended and (
            resource in self._ignored or resource.split("/")[0] in self._ignored_groups
        )

    # --- scoring ---------------------------------------------------------------------------

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Work out what the pod adds to each resource that counts.

        Upstream's scorer, unlike its filter, does not know of pod-level requests.
        """
        counted = pod_requests(pod.pod, defaults=NON_ZERO_DEFAULTS, pod_level=False)
        asked = self._asked(state, pod, nodes.table)
        extra = [[counted.get(name, 0)] for name in self._resources]
        asked.extra = np.array(extra, dtype=np.int64)
        return None

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """By the strategy: emptiest, fullest, or a function of how full."""
        extra = self._asked(state, pod, nodes.table).extra
        allocatable = offered(self._resources, nodes)
        for place in self._scalar:
            if not extra[place, 0]:
                allocatable[place] = 0
        return self._scorer(_in_use(self._resources, nodes) + extra, allocatable)


def _pods_first(wanted: tuple[int, int]) -> tuple[bool, int]:
    return wanted[0] != PODS, wanted[0]


def _in_use(resources: list[str], nodes: NodeView) -> IntArray:
    """``[resource, row]`` of what is requested, as the scores count it."""
    table = nodes.table
    if resources == ["cpu", "memory"]:
        return table.non_zero[CPU : MEMORY + 1, nodes.rows]
    special: Final = {"cpu": nodes.non_zero_cpu, "memory": nodes.non_zero_memory}
    return stacked(
        [
            special[name]() if name in special else nodes.requested(table.column_of(name))
            for name in resources
        ]
    )


def _explain(wanted: list[tuple[int, int]], nodes: NodeView) -> Grouped:
    """Group the rows by which resources they lack, and whether they could ever have them."""
    signature = np.zeros(nodes.length, dtype=np.int64)
    for bit, (column, amount) in enumerate(wanted):
        offer = nodes.allocatable(column)
        lacks = amount > offer - nodes.requested(column)
        signature |= lacks.astype(np.int64) << (2 * bit)
        if column != PODS:
            signature |= (amount > offer).astype(np.int64) << (2 * bit + 1)
    found, kind_of = np.unique(signature, return_inverse=True)
    kinds: list[Rejection] = []
    place_of: list[int] = []
    names = nodes.table.resources.values
    for bits in found.tolist():
        lacking = [
            (names[column], bits >> (2 * bit + 1) & 1)
            for bit, (column, _) in enumerate(wanted)
            if bits >> (2 * bit) & 1
        ]
        place_of.append(len(kinds) if lacking else -1)
        if lacking:
            reasons = tuple(
                "Too many pods" if name == "pods" else f"Insufficient {name}" for name, _ in lacking
            )
            hopeless = any(never for _, never in lacking)
            code = Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
            kinds.append(Rejection(reasons, code))
    return kinds, np.array(place_of, dtype=np.int64)[kind_of]
