"""NodeUnschedulable: cordoned nodes take no pods but those that tolerate the cordon."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from arranger.api.selectors import tolerates
from arranger.api.types.core import Taint
from arranger.cluster import NodeView, PodInfo
from arranger.framework import ActionType, ClusterEvent, DependsOn, QueueingHint, SpecOnlyPlugin
from arranger.framework.filter_result import FilterResult, Rejection, all_pass
from arranger.framework.status import Code, CycleState

CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
REASON: Final = Rejection(("node(s) were unschedulable",), Code.UNRESOLVABLE)


def _tolerates_cordon(pod: PodInfo) -> bool:
    return any(tolerates(toleration, CORDONED) for toleration in pod.pod.spec.tolerations)


def _became_schedulable(_pod: PodInfo, event: ClusterEvent) -> bool:
    if event.node is None or event.node.spec.unschedulable:
        return False
    return event.node_before is None or event.node_before.spec.unschedulable


def _now_tolerates(_pod: PodInfo, event: ClusterEvent) -> bool:
    return event.pod is None or _tolerates_cordon(PodInfo(event.pod))


class NodeUnschedulable(SpecOnlyPlugin):
    """Reject nodes with ``spec.unschedulable``."""

    depends_on = DependsOn.NODE
    queueing_hints = (
        QueueingHint(ActionType.NODE_ADDED | ActionType.NODE_TAINTS, _became_schedulable),
        QueueingHint(ActionType.OWN_UPDATE, _now_tolerates),
    )

    def sign_pod_for_nodes(self, pod: PodInfo) -> Hashable:
        """Whether the pod tolerates the cordon."""
        return bool(pod.pod.spec.tolerations) and _tolerates_cordon(pod)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes that are not cordoned."""
        if pod.pod.spec.tolerations and _tolerates_cordon(pod):
            return all_pass(nodes.length)
        return FilterResult(~nodes.unschedulable, REASON)
