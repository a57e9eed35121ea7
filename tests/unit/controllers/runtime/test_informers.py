"""What controllers hear of watches."""

from __future__ import annotations

import asyncio
import random

import pytest

from arranger.api.types.core import Pod
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.informers import CacheHandler, MultiNamespaceInformer
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.kube.client.transport import Request
from tests.builders import PodBuilder, a_pod

pytestmark = pytest.mark.looptime(noop_cycles=0)


class Heard:
    """A cache that notes what it is told."""

    def __init__(self) -> None:
        self.pods: set[str] = set()
        self.keys: set[str] = set()

    def on_updated(self, pod: Pod) -> set[str]:
        self.pods.add(f"{pod.metadata.namespace}/{pod.metadata.name}")
        return {pod.metadata.name}

    def on_deleted(self, pod: Pod) -> set[str]:
        self.pods.discard(f"{pod.metadata.namespace}/{pod.metadata.name}")
        return {pod.metadata.name}

    @property
    def handler(self) -> CacheHandler[Pod]:
        return CacheHandler(self.on_updated, self.on_deleted, self.keys.update)


def create(cluster: EmbeddedCluster, *pods: PodBuilder) -> None:
    for pod in pods:
        manifest = pod.manifest()
        del manifest["metadata"]["uid"]
        cluster.create(manifest)


async def test_all_handlers_hear_of_the_namespaces_that_were_named() -> None:
    cluster, first, second = EmbeddedCluster(rng=random.Random(1)), Heard(), Heard()
    for name in ("near", "far"):
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    create(cluster, a_pod("a").in_namespace("near"), a_pod("b").in_namespace("far"), a_pod("c"))
    informer = MultiNamespaceInformer(
        InProcessTransport(cluster),
        ControllerOptions(rng=random.Random(1), namespaces=["near", "default"]),
        "/api/v1",
        "pods",
        Pod,
        first.handler,
        second.handler,
    )
    tasks = [asyncio.create_task(task) for task in informer.tasks()]
    await asyncio.gather(*(event.wait() for event in informer.synced))
    assert first.pods == second.pods == {"near/a", "default/c"}
    cluster.handle(Request("DELETE", "/api/v1/namespaces/near/pods/a", {}))
    await asyncio.sleep(60)
    assert first.pods == second.pods == {"default/c"}
    assert first.keys == second.keys == {"a", "c"}
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_what_we_have_created_and_no_watch_has_shown_is_missed_when_it_is_gone() -> None:
    cluster, heard = EmbeddedCluster(rng=random.Random(1)), Heard()
    informer = MultiNamespaceInformer(
        InProcessTransport(cluster),
        ControllerOptions(rng=random.Random(1)),
        "/api/v1",
        "pods",
        Pod,
        heard.handler,
    )
    created = a_pod("a").build()
    heard.on_updated(created)
    informer.record(created)
    (task,) = (asyncio.create_task(task) for task in informer.tasks())
    await informer.synced[0].wait()
    assert not heard.pods
    assert heard.keys == {"a"}
    task.cancel()
    await asyncio.wait({task})
