"""Nodes that are added in thought: like one that is there, or the first one of all."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec

from arranger.api.types.core import Node, NodeStatus, ObjectMeta, Pod
from arranger.api.types.resource_claims import ResourceSlice
from arranger.api.types.storage import CSINode
from arranger.shadow.forecasts.changes import (
    LONG_AGO,
    ClusterChange,
    MalformedChangeError,
    node_of,
    uncordoned,
)
from arranger.shadow.inputs.daemon_pods import daemon_pod_for, daemon_pods_on
from arranger.shadow.inputs.objects import ClusterObjects
from arranger.shadow.inputs.pod_claims import put_with_claims

#: Nodes that one change may add.
MAX_NODES: Final = 100_000
_HOST: Final = "kubernetes.io/hostname"


def add_nodes(count: int, template: str) -> ClusterChange:
    """So many more nodes like one that is there, with the drivers of its volumes and its devices.

    Nothing else runs on them than what DaemonSets have on the node that they are like.

    Raises:
        MalformedChangeError: so many cannot be added.
    """
    if not 0 < count <= MAX_NODES:
        raise MalformedChangeError(f"{count} nodes: between 1 and {MAX_NODES} may be added")

    def apply(objects: ClusterObjects) -> None:
        like = node_of(objects, template)
        spec = uncordoned(like)
        slices = [each for each in objects.of(ResourceSlice) if each.spec.node_name == template]
        drivers = objects.get(CSINode, f"/{template}")
        daemon_pods = daemon_pods_on(objects, template)
        created = max(
            (each.metadata.creation_timestamp or LONG_AGO for each in objects.of(Node)),
            default=LONG_AGO,
        )
        made = 0
        while made < count:
            name = f"{template}-like-{made + 1}"
            while objects.get(Node, f"/{name}") is not None:
                name += "x"
            labels = dict(like.metadata.labels)
            if _HOST in labels:
                labels[_HOST] = name
            metadata = ObjectMeta(
                name=name,
                uid=f"Node//{name}",
                labels=labels,
                creation_timestamp=created + timedelta(seconds=1),
            )
            node = Node(metadata, spec, like.status)
            objects.put(node)
            if drivers is not None:
                objects.put(_csi_node_of(drivers, name))
            for each in slices:
                objects.put(_slice_of(each, name))
            for there in daemon_pods:
                _add_daemon_pod(objects, there, node)
            made += 1

    return ClusterChange(f"{count} more node{'s' * (count > 1)} like {template}", apply)


def _add_daemon_pod(objects: ClusterObjects, like: Pod, node: Node) -> None:
    pod = daemon_pod_for(like, node)
    if pod is not None and objects.get(Pod, pod.key) is None:
        put_with_claims(objects, pod, like)


def _csi_node_of(like: CSINode, node: str) -> CSINode:
    """The drivers of another node, with their limits of volumes and topology."""
    kept = like.metadata.annotations  # names the plugins whose volumes the drivers serve
    return CSINode(ObjectMeta(name=node, uid=f"CSINode//{node}", annotations=kept), like.spec)


def _slice_of(like: ResourceSlice, node: str) -> ResourceSlice:
    """The devices of another node: a pool of their own."""
    pool = msgspec.structs.replace(like.spec.pool, name=f"{like.spec.pool.name}-{node}")
    name = f"{like.metadata.name}-{node}"
    metadata = ObjectMeta(name=name, uid=f"ResourceSlice//{name}")
    spec = msgspec.structs.replace(like.spec, node_name=node, pool=pool)
    return ResourceSlice(metadata, spec)


def first_node(labels: Mapping[str, str], amounts: Mapping[str, int], text: str) -> ClusterChange:
    """A node with these labels that offers so much: resource → amount, cpu in thousandths."""

    def apply(objects: ClusterObjects) -> None:
        name = "new-node"
        while objects.get(Node, f"/{name}") is not None:
            name += "x"
        offered = {key: f"{n}m" if key == "cpu" else n for key, n in amounts.items()}
        metadata = ObjectMeta(
            name=name,
            uid=f"Node//{name}",
            labels={_HOST: name, **labels},
            creation_timestamp=LONG_AGO,
        )
        status = NodeStatus(capacity=dict(offered), allocatable=dict(offered))
        objects.put(Node(metadata, status=status))

    return ClusterChange(text, apply)
