"""A park of machines to look at: zones, two kinds of cards, a tree of queues, gangs that wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Manifest = dict[str, Any]

CARDS = ("A100-SXM4-80GB", "H100-SXM5-80GB")
_ZONES = 4
_GPUS = 8


def a_park(nodes: int = 64, pods: int = 200) -> list[Manifest]:
    """So many nodes, a quarter of them without cards, and so many pods on them; and what waits."""
    return [*_nodes(nodes), *_queues(nodes), *_placed(nodes, pods), *_waiting()]


def a_node(name: str, zone: str, card: str = "", **status: Any) -> Manifest:
    """One node, with eight cards of a model if one is given."""
    offered = {"cpu": "128", "memory": "1024Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    if card:
        offered["nvidia.com/gpu"] = str(_GPUS)
        labels["nvidia.com/gpu.product"] = card
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"capacity": offered, "allocatable": offered, "conditions": ready, **status},
    }


def a_pod(name: str, *, node: str = "", gpus: int = 0, cpu: str = "4", **notes: str) -> Manifest:
    """One pod; with a node it runs there."""
    requests = {"cpu": cpu, "memory": "16Gi"}
    if gpus:
        requests["nvidia.com/gpu"] = str(gpus)
    resources = {"requests": requests, "limits": dict(requests)}
    placed = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": notes,
        },
        "spec": {
            "schedulerName": "arranger",
            "containers": [{"name": "main", "image": "main", "resources": resources}],
            **placed,
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def a_member(name: str, gang: str, least: int, **more: Any) -> Manifest:
    """A pod of a gang."""
    pod = a_pod(name, **more)
    prefix = "gang.scheduling.koordinator.sh"
    notes = {f"{prefix}/name": gang, f"{prefix}/min-available": str(least)}
    pod["metadata"]["annotations"] |= notes
    return pod


def in_queue(pod: Manifest, queue: str) -> Manifest:
    """The pod, in a queue."""
    pod["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = queue
    return pod


def a_queue(name: str, parent: str = "", **spec: Any) -> Manifest:
    """One Queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**({"parent": parent} if parent else {}), **spec},
        "status": {"state": "Open"},
    }


def _nodes(count: int) -> Iterator[Manifest]:
    for n in range(count):
        card = "" if n % 4 == 3 else CARDS[n // 2 % 2]
        node = a_node(f"node-{n:04d}", f"zone-{'abcd'[n % _ZONES]}", card)
        if n % 17 == 5:
            node["spec"] = {"unschedulable": True}
        if n % 29 == 11:
            node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        yield node


def _queues(nodes: int) -> Iterator[Manifest]:
    cards = nodes * 3 // 4 * _GPUS
    gpu = "nvidia.com/gpu"
    yield a_queue("research", capability={gpu: str(cards // 2)}, deserved={gpu: str(cards // 3)})
    yield a_queue("vision", "research", capability={gpu: str(cards // 4)})
    yield a_queue("language", "research", guarantee={"resource": {gpu: str(cards // 8)}})
    yield a_queue("production", priority=100, reclaimable=False, capability={"cpu": "2000"})
    yield a_queue("default")


def _placed(nodes: int, count: int) -> Iterator[Manifest]:
    each = 2 if count <= 4 * nodes else 1
    for n in range(count):
        at = (n * 7 + n // nodes) % nodes
        queue = ("vision", "language", "production", "default")[n % 4]
        gpus = 0 if at % 4 == 3 or queue == "production" or n >= 8 * nodes else each
        name, cpu = f"{queue}-{n:05d}", f"{1 + n % 8}"
        if n % 3 == 0:
            gang = f"train-{n // 24:04d}"
            pod = a_member(name, gang, 4, node=f"node-{at:04d}", gpus=gpus, cpu=cpu)
        else:
            pod = a_pod(name, node=f"node-{at:04d}", gpus=gpus, cpu=cpu)
        if n % 5 == 0:
            owner = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": f"job-{n // 50}",
                "uid": f"j{n // 50}",
            }
            pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        yield in_queue(pod, queue)


def _waiting() -> Iterator[Manifest]:
    for n in range(6):
        yield in_queue(a_member(f"large-{n}", "large", 8, gpus=8, cpu="32"), "language")
    for n in range(4):
        yield in_queue(a_member(f"huge-{n}", "huge", 4, gpus=8, cpu="127"), "vision")
    yield in_queue(a_pod("too-big", cpu="640"), "default")
    gated = in_queue(a_pod("gated"), "default")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/approval"}]
    yield gated
