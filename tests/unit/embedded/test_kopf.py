"""A kopf operator on the embedded cluster: what operators ask of an API server, it has."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import kopf

from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.http import serve
from arranger.kube.client.transport import Request

Object = dict[str, Any]

GROUP = "tests.arranger.io"
MERGE = "application/merge-patch+json"
HANDLED = "kopf.zalando.org/last-handled-configuration"
PATH = f"/apis/{GROUP}/v1/namespaces/default/parcels"
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"parcels.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "parcels", "singular": "parcel", "kind": "Parcel"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"weight": {"type": "integer"}},
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}


def a_parcel(weight: int) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Parcel",
        "metadata": {"name": "p"},
        "spec": {"weight": weight},
    }


@asynccontextmanager
async def an_operator(url: str, seen: asyncio.Queue[tuple[str, int]]) -> AsyncIterator[None]:
    """Run an operator that tells what it sees of parcels, and writes their status.

    It has a thread and a loop of its own, because kopf ends every task it finds on its loop.
    """
    loop = asyncio.get_running_loop()
    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    settings.peering.standalone = True
    # How long its tasks wait for more work, which its end waits for in turn.
    settings.queueing.idle_timeout = settings.posting.idle_timeout = 0.1

    def tell(reason: str, weight: int) -> None:
        loop.call_soon_threadsafe(seen.put_nowait, (reason, weight))

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=url)

    @kopf.on.create(GROUP, "parcels", registry=registry)
    @kopf.on.update(GROUP, "parcels", registry=registry)
    async def weigh(
        reason: str, body: kopf.Body, spec: kopf.Spec, patch: kopf.Patch, **_: Any
    ) -> None:
        patch.status["weighed"] = spec["weight"]
        kopf.info(body, reason="Weighed", message=f"It weighs {spec['weight']} kg.")
        tell(reason, spec["weight"])

    @kopf.on.delete(GROUP, "parcels", registry=registry)
    async def gone(spec: kopf.Spec, **_: Any) -> None:
        tell("delete", spec["weight"])

    stop = threading.Event()
    operator = kopf.operator(registry=registry, settings=settings, clusterwide=True, stop_flag=stop)
    running = asyncio.create_task(asyncio.to_thread(asyncio.run, operator))
    try:
        yield
    finally:
        stop.set()
        await running


async def until(lines: AsyncIterator[bytes], what: Callable[[str, Object], bool]) -> Object:
    """The object of the first event of a watch that is as wanted."""
    async for line in lines:
        event = json.loads(line)
        if what(event["type"], event["object"]):
            return dict(event["object"])
    raise AssertionError("the watch ended")


def weighed(weight: int) -> Callable[[str, Object], bool]:
    """Whether the operator is through with a parcel of this weight."""

    def through(_: str, parcel: Object) -> bool:
        handled = parcel["metadata"].get("annotations", {}).get(HANDLED, "")
        return parcel.get("status", {}).get("weighed") == weight and f":{weight}" in handled

    return through


def request(cluster: EmbeddedCluster, method: str, body: Object | None = None) -> int:
    content = b"" if body is None else json.dumps(body).encode()
    return cluster.handle(Request(method, f"{PATH}/p", {}, content, MERGE)).status


async def test_an_operator_follows_an_object_from_its_creation_to_its_end() -> None:
    cluster = EmbeddedCluster(rng=random.Random(1))
    cluster.create(DEFINITION)
    seen: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
    lines = cluster.watch(PATH, {}).lines()

    async with asyncio.timeout(20), serve(cluster) as url, an_operator(url, seen):
        cluster.create(a_parcel(3))
        assert await seen.get() == ("create", 3)
        parcel = await until(lines, weighed(3))
        assert parcel["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        assert parcel["metadata"]["generation"] == 1

        assert request(cluster, "PATCH", {"spec": {"weight": 5}}) == 200
        assert await seen.get() == ("update", 5)
        await until(lines, weighed(5))

        assert request(cluster, "DELETE") == 200
        assert await seen.get() == ("delete", 5)
        await until(lines, lambda kind, _: kind == "DELETED")
        assert request(cluster, "GET") == 404

    # It has told people about its work in events of the older form.
    told = cluster.objects("events", "events.k8s.io")
    assert {(e["regarding"]["name"], e["reason"], e["note"]) for e in told} == {
        ("p", "Weighed", "It weighs 3 kg."),
        ("p", "Weighed", "It weighs 5 kg."),
    }
