"""Reads the queues of a cluster, and what is in them, from its API server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from arranger.api.types.core import Node, Pod
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.controllers.queue.cache import (
    QUEUE_API_VERSION,
    QUEUES_PATH,
    ObservedQueue,
    QueueCache,
)
from arranger.kube.client.status import parse_status
from arranger.kube.client.transport import Request, Transport
from arranger.kube.watch.decoder import Page

T = TypeVar("T")

#: Objects a list request.
_PAGE: Final = 500


async def load_queue_cache(
    transport: Transport, schedulers: Iterable[str] = ("arranger",)
) -> QueueCache:
    """All queues of a cluster and what is in them, as of now.

    Raises:
        LookupError: the server refused to show them.
        TransportError: there was no answer.
    """
    cache = QueueCache(schedulers)
    for queue in await _list_all(transport, QUEUES_PATH, ObservedQueue):
        cache.on_queue_updated(queue)
    for node in await _list_all(transport, "/api/v1/nodes", Node):
        cache.on_node_updated(node)
    pod_groups = f"/apis/{QUEUE_API_VERSION}/podgroups"
    for group in await _list_all(transport, pod_groups, VolcanoPodGroup):
        cache.on_pod_group_updated(group)
    for pod in await _list_all(transport, "/api/v1/pods", Pod):
        cache.on_pod_updated(pod)
    return cache


async def _list_all(transport: Transport, path: str, kind: type[T]) -> list[T]:
    """Every object of a collection; none where the server does not know it."""
    found: list[T] = []
    query = {"limit": str(_PAGE)}
    while True:
        answer = await transport.send(Request("GET", path, query=query))
        if answer.status == 404:
            return found
        if answer.status != 200:
            raise LookupError(f"{path}: {parse_status(answer.body, answer.status).message}")
        page = msgspec.json.decode(answer.body, type=Page[kind])  # type: ignore[valid-type]
        found += page.items or []
        if not page.metadata.continue_:
            return found
        query = {"limit": str(_PAGE), "continue": page.metadata.continue_}
