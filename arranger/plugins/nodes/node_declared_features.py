"""NodeDeclaredFeatures: pods that need a feature of the kubelet go where a node declares it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from arranger.api.types.core import Node, PodSpec
from arranger.cluster import NodeView, PodInfo
from arranger.framework import ActionType, ClusterEvent, DependsOn, QueueingHint, SpecOnlyPlugin
from arranger.framework.filter_result import FilterResult, Rejection, all_pass
from arranger.framework.status import Code, CycleState

RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
USERS_ON_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
REASON: Final = Rejection(("node(s) didn't match Pod's required features",), Code.UNRESOLVABLE)


def required_features(spec: PodSpec) -> frozenset[str]:
    """The features that a pod cannot start without (KEP-5328, kube-scheduler 1.36)."""
    required = set()
    containers = (*spec.containers, *spec.init_containers)
    if any(r.action == "RestartAllContainers" for c in containers for r in c.restart_policy_rules):
        required.add(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        required.add(USERS_ON_HOST_NETWORK)
    return frozenset(required)


def _has_them(pod: PodInfo, event: ClusterEvent) -> bool:
    return event.node is not None and required_features(pod.pod.spec) <= _declared(event.node)


def _declared(node: Node) -> frozenset[str]:
    return frozenset(node.status.declared_features)


class NodeDeclaredFeatures(SpecOnlyPlugin):
    """Reject nodes whose kubelet lacks a feature that the pod needs."""

    depends_on = DependsOn.NODE
    queueing_hints = (
        QueueingHint(ActionType.NODE_ADDED | ActionType.NODE_FEATURES, _has_them),
        QueueingHint(ActionType.OWN_UPDATE),
    )

    def sign_pod_for_nodes(self, pod: PodInfo) -> Hashable:
        """The features that the pod needs."""
        return required_features(pod.pod.spec)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass the nodes that declare all features needed."""
        required = required_features(pod.pod.spec)
        if not required:
            return all_pass(nodes.length)
        table = nodes.table
        passed = [
            (node := table.nodes[row]) is not None and required <= _declared(node)
            for row in nodes.row_numbers().tolist()
        ]
        return FilterResult(np.array(passed, dtype=np.bool_), REASON)
