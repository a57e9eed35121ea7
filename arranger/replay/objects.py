"""Nodes and pods of a trace as the objects that the engine reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from arranger.api.types.core import Node, Pod
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
    if node.gpus:
        labels[MODEL] = node.model
    metadata = {"name": node.name, "uid": f"node-{node.name}", "labels": labels}
    allocatable = {**_amounts(node), "pods": _PODS}
    return msgspec.convert({"metadata": metadata, "status": {"allocatable": allocatable}}, Node)


def key_of(pod: TracePod) -> str:
    """``namespace/name`` of the pod."""
    return f"{_NAMESPACE}/{pod.name}"


def to_pod(pod: TracePod, annotations: Mapping[str, str]) -> Pod:
    """The pod, pending; the models it may run on are a required node affinity."""
    metadata = {"name": pod.name, "namespace": _NAMESPACE, "uid": pod.name}
    container = {"name": "main", "resources": {"requests": _amounts(pod)}}
    spec: dict[str, Any] = {"containers": [container], "schedulerName": SCHEDULER}
    if pod.models:
        on_model = {"key": MODEL, "operator": "In", "values": list(pod.models)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [on_model]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec["affinity"] = {"nodeAffinity": required}
    manifest = {
        "metadata": {**metadata, "annotations": dict(annotations)},
        "spec": spec,
        "status": {"phase": "Pending"},
    }
    return msgspec.convert(manifest, Pod)


def _amounts(of: TraceNode | TracePod) -> dict[str, str | int]:
    amounts: dict[str, str | int] = {"cpu": f"{of.cpu}m", "memory": f"{of.memory}Mi"}
    return {**amounts, GPU: of.gpus} if of.gpus else amounts
