"""What the placement policies have in common.

Any pod may ask for them, by the annotation ``arranger.io/placement``; without it they do nothing,
and cost a look at the pod's annotations. Why there are these: docs/design/tyjob.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from arranger.api.annotations import PLACEMENT, ROLE
from arranger.api.bounded_cache import bounded_cache
from arranger.api.types.core import Pod
from arranger.cluster import ABSENT, BoolArray, IntArray, NodeTable, NodeView, PodInfo
from arranger.framework import SKIP, CycleState, DependsOn, Plugin, Status
from arranger.plugins.helpers.args import PluginArgs, ResourceSpec
from arranger.plugins.helpers.resource_scoring import (
    ResourceScorer,
    ScoringStrategy,
    allocatable_matrix,
    make_scorer,
    requested_matrix,
)

#: Weight of these plugins' scores: one point of theirs counts as much as all points of a plugin of
#: weight 1. The default plugins spread pods, and BinPack often separates two nodes by a point or
#: two; so the policy asked for decides, and the others choose among nodes that it scores equally.
#: Only what the pod's owner asked for as well (node affinity, tolerations) outweighs a few points.
PLACEMENT_WEIGHT = 100


class PlacementPolicyPlugin(Plugin):
    """A score for the pods that name the plugin in the annotation."""

    # JobAffinity counts pods on the node itself.
    depends_on = DependsOn.USAGE
    queueing_hints = ()

    def sign_pod(self, pod: PodInfo) -> Hashable:
        """The policies asked for."""
        return pod.pod.metadata.annotations.get(PLACEMENT, "")

    def is_requested_by(self, pod: PodInfo) -> bool:
        """Whether the pod asks for this policy."""
        text = pod.pod.metadata.annotations.get(PLACEMENT)
        return text is not None and self.name in policy_names(text)


@bounded_cache(256)
def policy_names(text: str) -> frozenset[str]:
    """The names in the annotation; unknown ones have no effect."""
    return frozenset(part.strip() for part in text.split(","))


def is_leader(pod: Pod) -> bool:
    """Whether the pod is its job's leader: by annotation or, without one, by label."""
    metadata = pod.metadata
    return (metadata.annotations.get(ROLE) or metadata.labels.get(ROLE)) == "leader"


class NodeUtilization:
    """How full nodes are with one more of a class of pods.

    CPU and memory count for every pod, with upstream's defaults for containers that state nothing;
    extended resources that a node offers count for pods that request them.

    Args:
        weights: resource → weight; 1 for one that is not named.
        extended_weight: weight of extended resources that ``weights`` does not name.
    """

    __slots__ = ("_names", "_pod_requests", "_scorer")

    def __init__(
        self,
        pod: PodInfo,
        table: NodeTable,
        weights: dict[str, int],
        *,
        extended_weight: int = 1,
    ) -> None:
        offered = table.resources
        asked = sorted(
            name
            for name, amount in pod.requests.items()
            if "/" in name and amount and offered.find(name) != ABSENT
        )
        self._names = ["cpu", "memory", *asked]
        amounts = [*pod.nonzero_requests, *(pod.requests[name] for name in asked)]
        self._pod_requests: IntArray = np.array([[amount] for amount in amounts], dtype=np.int64)
        resources = tuple(
            ResourceSpec(name=name, weight=weights.get(name, extended_weight if "/" in name else 1))
            for name in self._names
        )
        strategy = ScoringStrategy(type="MostAllocated", resources=resources)
        self._scorer: ResourceScorer = make_scorer(strategy)

    def percent(self, nodes: NodeView) -> IntArray:
        """The weighted mean of the used shares, in whole per cent, 0–100."""
        return self._scorer(self.requested(nodes), self.allocatable(nodes))

    def requested(self, nodes: NodeView) -> IntArray:
        """``[resource, row]`` of what is requested, the pod's own requests included."""
        return requested_matrix(self._names, nodes, nonzero=True) + self._pod_requests

    def allocatable(self, nodes: NodeView) -> IntArray:
        """``[resource, row]`` of what is allocatable."""
        return allocatable_matrix(self._names, nodes)


class WeightsArgs(PluginArgs):
    """The weights of resources; one that is not named has weight 1."""

    resources: tuple[ResourceSpec, ...] = ()


class UtilizationPolicyPlugin(PlacementPolicyPlugin):
    """A policy that goes by how full nodes would be with the pod on them."""

    Args: ClassVar[type[PluginArgs]] = WeightsArgs

    def __init__(self, args: WeightsArgs | None = None) -> None:
        self._weights = {r.name: r.weight for r in (args or WeightsArgs()).resources}

    def utilization(self, pod: PodInfo, table: NodeTable) -> NodeUtilization:
        """What to go by for a pod."""
        return NodeUtilization(pod, table, self._weights)

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Skip pods that do not ask for it."""
        if not self.is_requested_by(pod):
            return SKIP
        state[self.name] = self.utilization(pod, nodes.table)
        return None
