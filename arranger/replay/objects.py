"""Nodes and pods of a trace as the objects that the engine reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from arranger.api.types.core import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Requirement,
    ResourceRequirements,
)
from arranger.replay.trace import TraceNode, TracePod

GPU: Final = "nvidia.com/gpu"
#: Node label of NVIDIA's GPU feature discovery.
MODEL: Final = "nvidia.com/gpu.product"
SCHEDULER: Final = "arranger"
_NAMESPACE: Final = "trace"
#: Pods a node allows: more than fit by their requests, as traces have no limit.
_PODS: Final = 1000


def to_node(node: TraceNode) -> Node:
    """The node, labelled with the model of its GPUs."""
    labels = {"kubernetes.io/hostname": node.name}
    offers: dict[str, str | int | float] = {
        "cpu": f"{node.cpu}m",
        "memory": f"{node.memory}Mi",
        "pods": _PODS,
    }
    if node.gpus:
        labels[MODEL] = node.model
        offers[GPU] = node.gpus
    meta = ObjectMeta(name=node.name, uid=f"node-{node.name}", labels=labels)
    return Node(metadata=meta, status=NodeStatus(allocatable=offers))


def key_of(pod: TracePod) -> str:
    """``namespace/name`` of the pod."""
    return f"{_NAMESPACE}/{pod.name}"


def to_pod(pod: TracePod, annotations: Mapping[str, str]) -> Pod:
    """The pod, pending; the models it may run on are a required node affinity."""
    asks: dict[str, str | int | float] = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"}
    if pod.gpus:
        asks[GPU] = pod.gpus
    container = Container(name="main", resources=ResourceRequirements(requests=asks))
    return Pod(
        metadata=ObjectMeta(
            name=pod.name, namespace=_NAMESPACE, uid=pod.name, annotations=dict(annotations)
        ),
        spec=PodSpec(
            containers=[container], scheduler_name=SCHEDULER, affinity=_affinity(pod.models)
        ),
        status=PodStatus(phase="Pending"),
    )


def _affinity(models: tuple[str, ...]) -> Affinity | None:
    if not models:
        return None
    on_model = Requirement(key=MODEL, operator="In", values=list(models))
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[on_model])])
    required = NodeAffinity(required_during_scheduling_ignored_during_execution=selector)
    return Affinity(node_affinity=required)
