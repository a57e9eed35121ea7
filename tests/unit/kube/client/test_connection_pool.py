from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from arranger.kube.client.connection_pool import IDLE_LIMIT, ConnectionPool, write_transport
from arranger.kube.client.credentials import ApiServerConfig
from arranger.kube.client.transport import RefusedConnectionError, Request, Response, TransportError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A server made of bytes, which counts its connections."""

    def __init__(self, serve: Serve) -> None:
        self.serve = serve
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            await self.serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def pooled(
    serve: Serve, connections: int = 8
) -> AsyncIterator[tuple[ConnectionPool, Server]]:
    server = Server(serve)
    listener = await asyncio.start_server(server, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    pool = ConnectionPool(
        ApiServerConfig(f"http://127.0.0.1:{port}/prefix"), connections=connections
    )
    try:
        yield pool, server
    finally:
        await pool.close()
        for writer in server.writers:
            writer.close()
        listener.close()
        await listener.wait_closed()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().rsplit(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
    return head + await reader.readexactly(length)


def answering(*answers: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers * 1000:
            await read_request(reader)
            writer.write(answer)

    return serve


async def post(pool: ConnectionPool, seconds: float = 5.0) -> Response:
    return await pool.send(Request("POST", "/x", body=b"{}", timeout=seconds))


async def noticed(pool: ConnectionPool) -> None:
    """Until the pool has seen what the server did to its idle connection."""
    while pool._idle[0].keep_alive:  # noqa: ASYNC110 — the pool has no event for it
        await asyncio.sleep(0)


ANSWERS = {
    "a length": OK,
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
    "an interim answer first": b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
async def test_answers_with(answer: bytes) -> None:
    async with pooled(answering(answer)) as (pool, server):
        for _ in range(5):
            response = await post(pool)
            assert (response.status, response.body) == (200, b"ok")
        assert server.connections == 1


async def test_an_answer_in_drops_is_put_together() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for place in range(len(OK)):
            writer.write(OK[place : place + 1])
            await writer.drain()

    async with pooled(serve) as (pool, _):
        assert (await post(pool)).body == b"ok"


async def test_the_request_names_prefix_host_and_length() -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(OK)

    async with pooled(serve) as (pool, _):
        await pool.send(Request("POST", "/a:b", body=b"{}", query={"q": "1 2"}))
    lines = seen[0].split(b"\r\n")
    assert lines[0] == b"POST /prefix/a:b?q=1+2 HTTP/1.1"
    assert lines[1].startswith(b"Host: 127.0.0.1:")
    assert b"Content-Length: 2" in lines
    assert seen[0].endswith(b"\r\n\r\n{}")


async def test_a_delete_without_a_body_says_so() -> None:
    async with pooled(answering(OK)) as (pool, _):
        assert (await pool.send(Request("DELETE", "/x"))).status == 200


async def test_connections_are_bounded_and_shared() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            await asyncio.sleep(0)
            writer.write(OK)

    async with pooled(serve, connections=3) as (pool, server):
        answers = await asyncio.gather(*(post(pool) for _ in range(50)))
        assert [answer.status for answer in answers] == [200] * 50
        assert server.connections == 3


async def test_waiting_for_a_connection_ends_in_time_as_a_refusal() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with pooled(serve, connections=1) as (pool, _):
        results = await asyncio.gather(post(pool, 0.2), post(pool, 0.1), return_exceptions=True)
    assert type(results[0]) is TransportError
    assert type(results[1]) is RefusedConnectionError


async def test_a_connection_closed_while_idle_is_not_used() -> None:
    async with pooled(answering(OK)) as (pool, server):
        await post(pool)
        server.writers[0].close()
        await noticed(pool)
        assert (await post(pool)).status == 200
        assert server.connections == 2


async def test_words_nobody_asked_for_end_the_connection() -> None:
    async with pooled(answering(OK)) as (pool, server):
        await post(pool)
        server.writers[0].write(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n")
        await server.writers[0].drain()
        await noticed(pool)
        assert (await post(pool)).status == 200
        assert server.connections == 2


async def test_a_connection_idle_for_long_is_replaced() -> None:
    async with pooled(answering(OK)) as (pool, server):
        await post(pool)
        pool._idle[0].idle_since -= IDLE_LIMIT + 1
        await post(pool)
        assert server.connections == 2


async def test_a_cancelled_request_takes_its_connection_with_it() -> None:
    arrived = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        if not arrived.is_set():
            arrived.set()
            await reader.read()
        writer.write(OK)

    async with pooled(serve, connections=1) as (pool, server):
        first = asyncio.create_task(post(pool))
        await arrived.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await post(pool)).body == b"ok"
        assert server.connections == 2


async def test_garbage_is_doubt_and_the_next_request_is_well() -> None:
    first = True

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal first
        await read_request(reader)
        writer.write(b"garbage\r\n\r\n" if first else OK)
        first = False
        await reader.read()

    async with pooled(serve, connections=1) as (pool, _):
        with pytest.raises(TransportError, match="not HTTP"):
            await post(pool)
        assert (await post(pool)).status == 200


async def test_a_closed_pool_refuses_and_fails_what_is_in_flight() -> None:
    arrived = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await reader.read()

    async with pooled(serve, connections=1) as (pool, _):
        flying = asyncio.create_task(post(pool))
        waiting = asyncio.create_task(post(pool))
        await arrived.wait()
        await pool.close()
        with pytest.raises(TransportError):
            await flying
        for late in (waiting, asyncio.create_task(post(pool))):
            with pytest.raises(RefusedConnectionError, match="closed"):
                await late


async def test_behind_a_proxy_the_other_transport_is_used() -> None:
    access = ApiServerConfig("http://api", proxy="http://proxy")
    fallback = ConnectionPool(ApiServerConfig("http://api"))
    assert write_transport(access, fallback) is fallback
    with pytest.raises(ValueError, match="proxies"):
        ConnectionPool(access)
