"""Nodes with cards, pods that want some, and the queues of docs/design/queues.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod

GPU = "nvidia.com/gpu"
CARD = "NVIDIA-GeForce-RTX-4090"
PRIORITIES = (80000, 60000, 40000, 20000)
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def gpu_node(name: str = "n", count: int = 8, card: str = CARD) -> NodeBuilder:
    """A node with whole cards of one kind."""
    labels = {f"{GPU}.product": card, f"{GPU}.count": str(count), f"{GPU}.memory": "24564"}
    return a_node(name).labelled(labels).offers({GPU: count}, cpu=64)


def inference(name: str, cards: int = 1, priority: int = 80000) -> PodBuilder:
    """A pod of the queue ``inference``; its priority is one of :data:`PRIORITIES` on a server."""
    return _pod(name, cards, priority).in_queue("inference").serving("inference")


def training(name: str, cards: int = 1, priority: int = 20000) -> PodBuilder:
    """A pod of the queue ``training``; its priority is one of :data:`PRIORITIES` on a server."""
    return _pod(name, cards, priority).in_queue("training").serving("training")


def _pod(name: str, cards: int, priority: int) -> PodBuilder:
    pod = a_pod(name).needs({GPU: cards}, cpu="100m").with_priority(priority)
    return pod.with_spec(priorityClassName=f"pc-{priority}")


def priority_classes() -> list[dict[str, Any]]:
    """The PriorityClasses of the examples, ``pc-80000`` and so on."""
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**head, "metadata": {"name": f"pc-{n}"}, "value": n} for n in PRIORITIES]


def a_queue_manifest(
    name: str,
    *,
    cards: Mapping[str, int] | None = None,
    notes: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Queue as its owner writes it."""
    annotations = dict(notes or {})
    if cards is not None:
        annotations["volcano.sh/card.quota"] = json.dumps(cards)
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }
