"""NodeName: a pod that names its node runs there or nowhere."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from arranger.cluster import NodeView, PodInfo
from arranger.framework import ActionType, ClusterEvent, DependsOn, Plugin, QueueingHint
from arranger.framework.filter_result import FilterResult, Rejection, all_pass
from arranger.framework.status import Code, CycleState

REASON: Final = Rejection(("node(s) didn't match the requested node name",), Code.UNRESOLVABLE)


def _is_that_node(pod: PodInfo, event: ClusterEvent) -> bool:
    return event.node is not None and event.node.metadata.name == pod.pod.spec.node_name


class NodeName(Plugin):
    """Reject nodes other than the one that the pod names in ``spec.nodeName``."""

    depends_on = DependsOn.NODE
    queueing_hints = (QueueingHint(ActionType.NODE_ADDED, _is_that_node),)

    def sign_pod(self, pod: PodInfo) -> Hashable:
        """``spec.nodeName``, which the key of a spec leaves out."""
        return pod.pod.spec.node_name

    def sign_pod_for_nodes(self, pod: PodInfo) -> Hashable:
        """The node that the spec names."""
        return pod.pod.spec.node_name

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass the named node, or all if none is named."""
        name = pod.pod.spec.node_name
        if not name:
            return all_pass(nodes.length)
        return FilterResult(nodes.row_numbers() == nodes.table.index.get(name, -1), REASON)
