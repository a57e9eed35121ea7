"""How the benchmarks see what was bound, whatever becomes of their watch."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

import aiohttp
import pytest

from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.http import serve
from arranger.kube.client.transport import Request
from tests.benchmarks import comparison
from tests.benchmarks.comparison import watch_bindings
from tests.builders import a_pod
from tests.controlplane.harness import ControlPlane
from tests.faults.injector import READS, WATCHES, FaultInjector, RequestMatcher
from tests.faults.kinds import Reply, RequestFault, WatchCut, WatchExpiry, WatchFault


class Plane:
    """The embedded server, as the benchmarks know a control plane."""

    token = "any"

    def __init__(self, url: str, cluster: EmbeddedCluster) -> None:
        self.url = url
        self.cluster = cluster

    async def get(self, path: str) -> Any:
        return self.cluster.handle(Request("GET", path.partition("?")[0])).body

    def ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context()


def bind(cluster: EmbeddedCluster, *names: str) -> None:
    """Pods that are bound as they come."""
    for name in names:
        manifest = a_pod(name).manifest()
        del manifest["metadata"]["uid"]
        manifest["spec"]["nodeName"] = "n1"
        cluster.create(manifest)


#: What goes wrong → where, and how.
TROUBLES: dict[str, list[tuple[RequestMatcher, RequestFault | WatchFault]]] = {
    "nothing": [],
    "the watch ends": [(WATCHES, WatchCut())],
    "the watch is cut within a line": [(WATCHES, WatchCut(within_line=True))],
    "the connection is reset": [(WATCHES, WatchCut(reset=True))],
    "the version is forgotten while it watches": [(WATCHES, WatchExpiry())],
    "the version is forgotten before it watches": [(WATCHES, Reply(410, "Expired"))],
    "the server is busy": [(WATCHES, Reply(429, retry_after=1))],
    "the server fails": [(WATCHES, Reply(500))],
    "the new list fails, too": [(WATCHES, WatchExpiry()), (READS, Reply(503))],
}


@pytest.mark.parametrize("troubles", TROUBLES.values(), ids=TROUBLES)
async def test_each_pod_is_seen_once(
    troubles: list[tuple[RequestMatcher, RequestFault | WatchFault]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "WATCH_INTERVAL", 0.0)
    faults = FaultInjector()
    rules = [faults.inject(where, fault, times=2) for where, fault in troubles]
    cluster = EmbeddedCluster()
    async with serve(cluster, hook=faults) as url:
        plane = cast("ControlPlane", Plane(url, cluster))
        async with watch_bindings(plane, "p") as bindings:
            for n in range(6):
                bind(cluster, f"other-{n}", f"p{n}")
                if n % 2:
                    for _ in range(2):
                        await asyncio.wait_for(anext(bindings), 10)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(bindings), 0.1)
    assert all(len(rule.matched) == 2 for rule in rules)


async def test_a_refusal_for_good_is_raised() -> None:
    faults = FaultInjector()
    faults.inject(WATCHES, Reply(403, "Forbidden"))
    cluster = EmbeddedCluster()
    async with serve(cluster, hook=faults) as url:
        plane = cast("ControlPlane", Plane(url, cluster))
        async with watch_bindings(plane, "p") as bindings:
            with pytest.raises(aiohttp.ClientResponseError):
                await asyncio.wait_for(anext(bindings), 10)
