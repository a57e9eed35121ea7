"""The embedded server over a real socket, spoken to with our own client."""

from __future__ import annotations

import asyncio
import json
import random

from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.http import serve
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.credentials import ApiServerConfig
from arranger.kube.client.transport import Request
from tests.builders import a_node

NODES = "/api/v1/nodes"


async def test_what_is_created_over_http_is_seen_by_a_watch_over_http() -> None:
    cluster = EmbeddedCluster(rng=random.Random(1))
    async with serve(cluster) as url:
        transport = HttpTransport(ApiServerConfig(url))
        try:
            async with transport.stream(Request("GET", NODES, {"watch": "1"})) as stream:
                assert stream.status == 200
                body = json.dumps(a_node("n1").manifest()).encode()
                made = await transport.send(Request("POST", NODES, body=body))
                assert made.status == 201
                async with asyncio.timeout(5):
                    event = json.loads(await anext(stream.frames()))
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "n1")
        finally:
            await transport.close()


async def test_a_refused_watch_answers_with_its_status() -> None:
    async with serve(EmbeddedCluster(rng=random.Random(1))) as url:
        transport = HttpTransport(ApiServerConfig(url))
        try:
            query = {"watch": "1", "fieldSelector": "spec.nope=1"}
            async with transport.stream(Request("GET", NODES, query)) as stream:
                assert stream.status == 400
                assert json.loads(await stream.body())["reason"] == "BadRequest"
        finally:
            await transport.close()


async def test_health_is_plain_text() -> None:
    async with serve(EmbeddedCluster(rng=random.Random(1))) as url:
        transport = HttpTransport(ApiServerConfig(url))
        try:
            assert (await transport.send(Request("GET", "/readyz"))).body == b"ok"
        finally:
            await transport.close()
