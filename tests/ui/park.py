"""A park of machines to look at: zones, two kinds of cards, a tree of queues, gangs that wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests import builders
from tests.builders import Manifest, PodBuilder
from tests.queueing import GPU, a_queue_manifest

CARDS = ("A100-SXM4-80GB", "H100-SXM5-80GB")
_ZONES = 4
_GPUS = 8


def a_park(nodes: int = 64, pods: int = 200) -> list[Manifest]:
    """So many nodes, a quarter of them without cards, and so many pods on them; and what waits."""
    return [*_nodes(nodes), *_queues(nodes), *_placed(nodes, pods), *_waiting()]


def a_node(name: str, zone: str, card: str = "") -> Manifest:
    """One node, with eight cards of a model if one is given."""
    node = builders.a_node(name).in_zone(zone).offers(cpu=128, memory="1024Gi")
    node = node.with_status(conditions=[{"type": "Ready", "status": "True"}])
    if card:
        node = node.labelled({"nvidia.com/gpu.product": card}).offers({GPU: _GPUS})
    return node.manifest()


def a_pod(name: str, *, node: str = "", gpus: int = 0, cpu: str = "4") -> Manifest:
    """One pod; with a node it runs there."""
    pod = builders.a_pod(name).created("2026-01-01T00:00:00Z").needs(cpu=cpu, memory="16Gi")
    if gpus:
        pod = pod.needs({GPU: gpus})
    return (pod.on(node) if node else pod).manifest()


def a_member(name: str, gang: str, least: int, **more: Any) -> Manifest:
    """A pod of a gang."""
    return PodBuilder(a_pod(name, **more)).in_gang(gang, least).manifest()


def in_queue(pod: Manifest, queue: str) -> Manifest:
    """The pod, in a queue."""
    return PodBuilder(pod).in_queue(queue).manifest()


def in_job(pod: Manifest, job: str) -> Manifest:
    """The pod, controlled by a Job."""
    return PodBuilder(pod).owned_by("Job", job, api_version="batch/v1").manifest()


def a_queue(name: str, parent: str = "", **spec: Any) -> Manifest:
    """One Queue."""
    above = {"parent": parent} if parent else {}
    return {**a_queue_manifest(name, **above, **spec), "status": {"state": "Open"}}


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
    yield a_queue("research", capability={GPU: str(cards // 2)}, deserved={GPU: str(cards // 3)})
    yield a_queue("vision", "research", capability={GPU: str(cards // 4)})
    yield a_queue("language", "research", guarantee={"resource": {GPU: str(cards // 8)}})
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
            pod = in_job(pod, f"job-{n // 50}")
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
