"""Extenders on a local port, and a client that asks them."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from arranger.api.effects import (
    Ambiguous,
    Bind,
    ExtenderQuery,
    ObjectKey,
    Outcome,
)
from arranger.kube.client.transport import (
    Request,
    Response,
    TransportError,
)
from arranger.kube.extenders.caller import ExtenderTransport
from arranger.kube.extenders.client import ExtenderClient
from arranger.kube.extenders.http import HttpExtenderTransport
from arranger.kube.watch.decoder import PartialMetadata
from arranger.kube.watch.raw_objects import RawObject, RawObjectStore
from tests.builders import a_node, a_pod

POD = ObjectKey("default", "p", "uid-default-p")
VICTIM = ObjectKey("default", "v", "uid-default-v")
NODES = ("n0", "n1", "n2")


class ReceivedRequest:
    """An answer of the test's extender: a body as JSON, bytes, or an HTTP status."""

    def __init__(self, body: Any = None, status: int = 200) -> None:
        self.status = status
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()


class FakeExtender:
    """Answers verbs as told, and keeps what it has been sent: (path, content type, JSON)."""

    def __init__(self, answers: Mapping[str, ReceivedRequest]) -> None:
        self.answers = answers
        self.calls: list[tuple[str, str, Any]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        kind = request.headers["Content-Type"]
        self.calls.append((request.path, kind, await request.json()))
        said = self.answers[request.path.rsplit("/", 1)[-1]]
        return web.Response(status=said.status, body=said.body)


class Cluster:
    """The API server, as far as it is read: pods by name."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}
        self.lost = False

    async def send(self, request: Request) -> Response:
        assert request.method == "GET", request
        if self.lost:
            raise TransportError("lost")
        pod = self.pods.get(request.path.removeprefix("/api/v1/namespaces/default/pods/"))
        return Response(404, b"{}") if pod is None else Response(200, json.dumps(pod).encode())


def whole_nodes() -> RawObjectStore:
    nodes = RawObjectStore()
    for name in NODES:
        manifest = a_node(name).labelled(hidden="yes").manifest()
        nodes.applied(RawObject(PartialMetadata(name), json.dumps(manifest).encode()))
    return nodes


def consultant(
    port: ExtenderTransport, cluster: Cluster | None = None, *, may_write: bool = True
) -> ExtenderClient:
    cluster = cluster or Cluster(a_pod().manifest(), a_pod("v").manifest())
    return ExtenderClient(
        port,
        cluster,  # type: ignore[arg-type]  # it is only ever read from
        whole_nodes(),
        may_write=lambda: may_write,
        rng=random.Random(1),
    )


@asynccontextmanager
async def serving(*fakes: FakeExtender, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    servers = []
    for fake in fakes:
        app = web.Application()
        app.router.add_post("/{path:.*}", fake.handle)
        server = TestServer(app, host="localhost" if tls else "127.0.0.1")
        await server.start_server(ssl=tls)
        fake.url = str(server.make_url("/scheduler"))
        servers.append(server)
    try:
        yield
    finally:
        for server in servers:
            await server.close()


async def outcomes(asker: ExtenderClient, effect: ExtenderQuery | Bind) -> list[Outcome]:
    """Everything that an effect ends with."""
    told: list[Outcome] = []
    final = asyncio.Event()

    def done(outcome: Outcome) -> None:
        told.append(outcome)
        if not isinstance(outcome, Ambiguous):
            final.set()

    asker.submit(effect, done)
    await final.wait()
    return told


async def ask(effect: ExtenderQuery | Bind, cluster: Cluster | None = None) -> Outcome:
    asker = consultant(HttpExtenderTransport(), cluster)
    try:
        (outcome,) = await outcomes(asker, effect)
    finally:
        await asker.close()
    return outcome
