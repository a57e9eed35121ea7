from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from arranger.api.parsing.protobuf import MEDIA_TYPE
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.connection_pool import ConnectionPool
from arranger.kube.client.credentials import ApiServerConfig, Credential, CredentialSource
from arranger.kube.client.transport import (
    RefusedConnectionError,
    Request,
    Transport,
    TransportError,
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Make = Callable[[ApiServerConfig], Transport]
CLIENTS: dict[str, Make] = {"aiohttp": HttpTransport, "raw pool": ConnectionPool}

each_client = pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS.keys())


@asynccontextmanager
async def serving(
    handler: Handler,
    make: Make,
    *,
    access: ApiServerConfig | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Transport]:
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", handler)
    server = TestServer(app, host="localhost" if tls else "127.0.0.1")
    await server.start_server(ssl=tls)
    url = str(server.make_url("")).rstrip("/")
    credentials = access.credentials if access else CredentialSource()
    client = make(ApiServerConfig(url, credentials))
    try:
        yield client
    finally:
        await client.close()
        await server.close()


async def echo(request: web.Request) -> web.Response:
    return web.json_response(
        {
            "method": request.method,
            "path": request.raw_path,
            "query": dict(request.query),
            "body": (await request.read()).decode(),
            "type": request.headers.get("Content-Type", ""),
            "authorization": request.headers.get("Authorization", ""),
            "agent": request.headers["User-Agent"],
        },
        status=201,
        headers={"Retry-After": "7"},
    )


@each_client
async def test_a_request_arrives_whole_and_its_answer_comes_back(make: Make) -> None:
    access = ApiServerConfig("", CredentialSource(Credential(authorization="Bearer one")))
    async with serving(echo, make, access=access) as client:
        for body in (b'{"a":1}', b"x" * 300_000):
            answer = await client.send(
                Request(
                    "PATCH",
                    "/api/v1/pods/a-pod/status",
                    query={"fieldManager": "me & you", "limit": "5"},
                    body=body,
                    content_type="application/merge-patch+json",
                )
            )
            assert answer.status == 201
            assert answer.headers["retry-after"] == "7"
            seen = json.loads(answer.body)
            assert seen["method"] == "PATCH"
            assert seen["path"].startswith("/api/v1/pods/a-pod/status?")
            assert seen["query"] == {"fieldManager": "me & you", "limit": "5"}
            assert seen["body"] == body.decode()
            assert seen["type"] == "application/merge-patch+json"
            assert seen["authorization"] == "Bearer one"
            assert seen["agent"].startswith("arranger/")


@each_client
async def test_nobody_listening_is_a_refusal(make: Make) -> None:
    client = make(ApiServerConfig(f"http://127.0.0.1:{unused_port()}"))
    with pytest.raises(RefusedConnectionError):
        await client.send(Request("GET", "/livez", timeout=2.0))
    await client.close()


async def kill(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def half_a_body(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"half")
    assert request.transport is not None
    request.transport.abort()
    return response


async def never(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


DOUBTS = {
    "the server dies before it answers": kill,
    "the server dies in the middle of its answer": half_a_body,
    "the server never answers": never,
}


@each_client
@pytest.mark.parametrize("handler", DOUBTS.values(), ids=DOUBTS.keys())
async def test_a_lost_answer_to_a_write_is_doubt_not_refusal(handler: Handler, make: Make) -> None:
    async with serving(handler, make) as client:
        with pytest.raises(TransportError) as caught:
            await client.send(Request("POST", "/binding", body=b"{}", timeout=0.2))
        assert not isinstance(caught.value, RefusedConnectionError)


@each_client
async def test_a_connection_survives_the_server_closing_the_one_before(make: Make) -> None:
    async def close_each(request: web.Request) -> web.Response:
        return web.Response(text="bye", headers={"Connection": "close"})

    async with serving(close_each, make) as client:
        for _ in range(3):
            assert (await client.send(Request("POST", "/x", body=b"{}"))).body == b"bye"


@each_client
async def test_a_401_is_tried_again_with_the_new_token_only(make: Make) -> None:
    seen: list[str] = []
    clock = iter(range(0, 1000, 2))

    async def strict(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(status=200 if seen[-1] == "Bearer new" else 401)

    async def load(rejected: bool) -> Credential:
        assert rejected
        return Credential(authorization="Bearer new")

    credentials = CredentialSource(
        Credential(authorization="Bearer old"), load, now=lambda: float(next(clock))
    )
    async with serving(strict, make, access=ApiServerConfig("", credentials)) as client:
        assert (await client.send(Request("POST", "/x", body=b"{}"))).status == 200
        assert seen == ["Bearer old", "Bearer new"]
        assert (await client.send(Request("POST", "/x", body=b"{}"))).status == 200
        assert len(seen) == 3


@each_client
async def test_tls_is_verified_against_the_given_authority(
    make: Make, throwaway_certificate: tuple[Path, Path]
) -> None:
    certificate, key = throwaway_certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = ApiServerConfig("", CredentialSource(Credential(ca_file=str(certificate))))
    async with serving(echo, make, access=trusting, tls=context) as client:
        assert (await client.send(Request("POST", "/x", body=b"{}"))).status == 201
    async with serving(echo, make, access=ApiServerConfig(""), tls=context) as client:
        with pytest.raises(RefusedConnectionError):
            await client.send(Request("POST", "/x", body=b"{}"))


async def test_a_rotated_certificate_gives_a_new_tls_context(
    throwaway_certificate: tuple[Path, Path],
) -> None:
    certificate, _ = throwaway_certificate
    now = 0.0
    credentials = CredentialSource(Credential(ca_file=str(certificate)), now=lambda: now)
    first = credentials.ssl_context()
    now += 10
    assert credentials.ssl_context() is first
    os.utime(certificate, (1, 1))
    now += 10
    assert credentials.ssl_context() is not first


async def test_a_watch_yields_huge_lines_and_drops_a_half_one() -> None:
    huge = b"x" * 3_000_000

    async def watch(request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "identity"
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b"one\ntw", b"o\n", huge, b"\nhalf"):
            await response.write(part)
        return response

    async with (
        serving(watch, HttpTransport) as client,
        client.stream(Request("GET", "/watch")) as stream,
    ):
        assert stream.status == 200
        assert [line async for line in stream.frames()] == [b"one", b"two", huge]


async def test_a_watch_cut_off_raises_after_the_whole_lines() -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\ntwo\nhal")
        # The client must have read before the reset throws the buffers away.
        await got_two.wait()
        assert request.transport is not None
        request.transport.abort()
        return response

    got_two = asyncio.Event()
    got: list[bytes] = []

    async def read() -> None:
        async for line in stream.frames():
            got.append(line)
            if line == b"two":
                got_two.set()

    async with (
        serving(watch, HttpTransport) as client,
        client.stream(Request("GET", "/watch")) as stream,
    ):
        with pytest.raises(TransportError):
            await read()
    assert got == [b"one", b"two"]


async def test_a_silent_watch_ends_after_the_inactivity_limit() -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    async with (
        serving(watch, HttpTransport) as client,
        client.stream(Request("GET", "/watch"), inactivity=0.1) as stream,
    ):
        with pytest.raises(TransportError):
            await anext(aiter(stream.frames()))


async def test_a_refused_watch_gives_its_status_and_body() -> None:
    async def watch(request: web.Request) -> web.Response:
        return web.Response(status=410, text="too old")

    async with (
        serving(watch, HttpTransport) as client,
        client.stream(Request("GET", "/watch")) as stream,
    ):
        assert (stream.status, await stream.body()) == (410, b"too old")


async def test_a_watch_in_binary_form_yields_messages() -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": f"{MEDIA_TYPE};stream=watch"})
        await response.prepare(request)
        for part in (b"\0\0\0", b"\x03one\0\0\0\x04t\n", b"wo\0\0\0\x05half"):
            await response.write(part)
        return response

    async with (
        serving(watch, HttpTransport) as client,
        client.stream(Request("GET", "/watch")) as stream,
    ):
        assert [frame async for frame in stream.frames()] == [b"one", b"t\nwo"]


async def test_a_message_that_no_object_can_have_ends_the_watch() -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": MEDIA_TYPE})
        await response.prepare(request)
        await response.write(b"\0\0\0\x03one\xff\xff\xff\xff")
        await asyncio.sleep(60)
        return response

    async with (
        serving(watch, HttpTransport) as client,
        client.stream(Request("GET", "/watch")) as stream,
    ):
        with pytest.raises(TransportError, match="a frame of 4294967295 bytes"):
            [frame async for frame in stream.frames()]


#: What a tenant may write where a name should be → what it must not become a request for.
STRANGE_NAMES = {
    "the way to all pods": "x/../../../../../../../api/v1/pods",
    "the way to a neighbour's object": "../../../../../../api/v1/namespaces/neighbour/configmaps/c",
    "a watch": "../jobs?watch=true",
    "a query": "j?pretty=true",
    "a fragment": "j#x",
    "letters that are written with percent signs": "..%2f..%2fpods",
    "nothing": "",
    "the collection": ".",
    "what is above": "..",
    "a line more": "j\r\nX-Evil: 1",
    "a space": "j HTTP/1.1",
    "a letter of another alphabet": "j\u0661",
    "more than a name has letters": "j" * 254,
}


@each_client
@pytest.mark.parametrize("name", STRANGE_NAMES.values(), ids=STRANGE_NAMES)
async def test_nothing_is_asked_for_by_what_is_no_name(make: Make, name: str) -> None:
    asked = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path_qs)
        return web.Response(text="{}")

    path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/culprit/jobs/{name}"
    async with serving(handler, make) as client:
        answer = await client.send(Request("GET", path))
        assert (answer.status, json.loads(answer.body)["reason"]) == (404, "NotFound")
        assert asked == []
        assert (
            await client.send(Request("GET", path[: -len(name) or None] + "j.0_a:b"))
        ).status == 200
