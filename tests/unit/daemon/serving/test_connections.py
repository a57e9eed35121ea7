"""What strangers do to a port: whatever they do, the next probe is answered."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from contextlib import ExitStack, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arranger.daemon.serving.connections import (
    PLACES,
    Connection,
    Connections,
    Listener,
    network_of,
)
from tests.unit.daemon.serving.servers import ask, own_certificate, serving, trusting_all

NETWORKS = {
    "an IPv4 address is a network": ("10.0.0.7", "10.0.0.7"),
    "one in an IPv6 address is the same": ("::ffff:10.0.0.7", "10.0.0.7"),
    "IPv6 addresses come by the /64": ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
    "a zone does not matter": ("fe80::1%eth0", "fe80::/64"),
    "anything else is itself": ("somewhere", "somewhere"),
}


@pytest.mark.parametrize("case", NETWORKS.values(), ids=NETWORKS.keys())
def test_networks(case: tuple[str, str]) -> None:
    address, network = case
    assert network_of(address) == network


@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(1, 6))
def test_the_network_that_has_most_makes_way(networks: list[str], places: int) -> None:
    open_, made = Connections(places), []
    try:
        counts: dict[str, int] = dict.fromkeys("abc", 0)
        alive: list[Connection] = []
        for network in networks:
            made.append(Connection(socket.socket(), network, 0.0))
            alive.append(made[-1])
            counts[network] += 1
            leaving = open_.admit(made[-1])
            assert len(leaving) == (len(alive) > places)
            for each in leaving:
                most = max(counts.values())
                assert counts[each.network] == most
                assert each == next(a for a in alive if counts[a.network] == most)
                alive.remove(each)
                counts[each.network] -= 1
            assert len(open_) == len(alive) <= places
    finally:
        for each in made:
            each.sock.close()


def test_closed_ones_take_no_place() -> None:
    open_, first, second = Connections(1), socket.socket(), socket.socket()
    open_.admit(Connection(first, "a", 0.0))
    first.close()
    assert open_.admit(Connection(second, "a", 1.0)) == []
    second.close()
    assert open_.expire(100.0) == []


def test_one_lives_as_long_as_it_may() -> None:
    open_ = Connections(lifetime=30.0)
    with socket.socket() as old, socket.socket() as young:
        first, second = Connection(old, "a", 0.0), Connection(young, "a", 1.0)
        open_.admit(first)
        open_.admit(second)
        assert open_.expire(30.0) == [first]
        assert open_.expire(30.0) == []
        assert open_.leave() == [second]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def hello(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


#: What each of a thousand connections sends before it falls silent.
SILENT = {
    "nothing at all": b"",
    "half a TLS hello": bytes.fromhex("1603010200010001fc0303"),
    "HTTP without TLS": b"GET /livez HTTP/1.1\r\n",
    "rubbish": b"\xff" * 4096,
}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files by /proc")
@pytest.mark.parametrize("first", SILENT.values(), ids=SILENT.keys())
async def test_1100_silent_connections_leave_room_for_a_probe(first: bytes) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    async with serving() as port:
        with ExitStack() as stack:
            before = open_files()
            for n in range(1100):
                client = await asyncio.to_thread(hello, port)
                stack.enter_context(client)
                if first:
                    with suppress(OSError):  # cut already
                        client.send(first)
                if n % 100 == 50:
                    assert await ask(port, "/livez") == (200, "ok")
            await asyncio.sleep(0)
            # Ours are the clients' ends; the server's are the rest.
            assert open_files() - before - 1100 <= PLACES + 10
            assert await ask(port, "/livez") == (200, "ok")


async def test_heads_that_never_end_leave_room_for_a_probe() -> None:
    async with serving() as port:
        slow = [
            await asyncio.open_connection("127.0.0.1", port, ssl=trusting_all())
            for _ in range(PLACES + 40)
        ]
        for _, writer in slow:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: ")
        assert await ask(port, "/livez") == (200, "ok")
        ended = 0
        for reader, _ in slow[:40]:
            # The oldest have made way.
            ended += await asyncio.wait_for(reader.read(1), 10) == b""
        assert ended == 40
        for _, writer in slow:
            writer.transport.abort()


HEADS = {
    "a line of 64 KiB": (b"GET /" + b"a" * 65_536 + b" HTTP/1.1\r\n\r\n", b"400"),
    "a field of 64 KiB": (b"GET /livez HTTP/1.1\r\nA: " + b"a" * 65_536 + b"\r\n\r\n", b"400"),
    "1,000 fields": (
        b"GET /livez HTTP/1.1\r\n" + b"".join(b"A%d: b\r\n" % n for n in range(1000)) + b"\r\n",
        b"400",
    ),
    "no HTTP": (b"\x00\x01\x02\r\n\r\n", b"400"),
    "two lengths": (
        b"GET /livez HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"400",
    ),
    "one that is in order": (b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"200"),
}


@pytest.mark.parametrize("case", HEADS.values(), ids=HEADS.keys())
async def test_heads(case: tuple[bytes, bytes]) -> None:
    head, status = case
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting_all())
        writer.write(head)
        answer = await asyncio.wait_for(reader.read(), 10)
        assert answer.split(b" ", 2)[1] == status
        writer.transport.abort()
        assert await ask(port, "/livez") == (200, "ok")


async def test_a_connection_carries_one_request() -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting_all())
        writer.write(request * 3)
        answer = await asyncio.wait_for(reader.read(), 10)
        assert answer.count(b"HTTP/1.1 200") == 1
        writer.transport.abort()


async def test_who_speaks_no_tls_is_cut_in_time() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    listener = Listener(
        listening, asyncio.Protocol, own_certificate().context, handshake_seconds=0.2
    )
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    await listener.close()


async def test_who_lives_too_long_is_cut() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    listener = Listener(
        listening,
        asyncio.Protocol,
        own_certificate().context,
        connections=Connections(lifetime=0.1),
    )
    reader, writer = await asyncio.open_connection(*listening.getsockname(), ssl=trusting_all())
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(reader.readexactly(1), 10)
    writer.transport.abort()
    await listener.close()


async def test_who_does_not_read_the_answer_is_cut() -> None:
    flood = Flood()
    listening = socket.create_server(("127.0.0.1", 0))
    listener = Listener(
        listening,
        lambda: flood,
        own_certificate().context,
        connections=Connections(lifetime=0.5),
    )
    _, writer = await asyncio.open_connection(*listening.getsockname(), ssl=trusting_all())
    assert isinstance(writer.transport, asyncio.Transport)
    writer.transport.pause_reading()
    await asyncio.wait_for(flood.gone.wait(), 10)
    writer.transport.abort()
    await listener.close()


class Flood(asyncio.Protocol):
    """Answers with more than buffers hold."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(b"x" * (32 << 20))

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
