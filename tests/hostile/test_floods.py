"""Much at once: of one tenant's objects, and of a stranger's connections.

A twentieth of it by default; ``HOSTILE_PART=1`` plays all.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from contextlib import suppress
from functools import cache
from typing import Final

import pytest

from tests.hostile.attack import Attack
from tests.hostile.cluster import BOUND_WITHIN, HostileCluster
from tests.hostile.play import assert_harmless
from tests.hostile.slowness import slowness
from tests.hostile.tables.floods import floods

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT: Final = 3000 // min(int(os.environ.get("HOSTILE_PART", "24")), 20)
#: Idle connections: more than a process has file descriptors where the limit is the usual 1,024.
CONNECTIONS: Final = 1100
#: Handshakes that strangers begin in all, and how many of them do so at a time.
HANDSHAKES: Final = 1000
STRANGERS: Final = 100
#: Seconds within which a probe must be answered, as kubelets wait by default.
ANSWERED_WITHIN: Final = 1.0


@pytest.mark.parametrize("flood", list(floods(COUNT)), ids=lambda flood: flood.name)
async def test_a_flood_is_paid_by_whoever_makes_it(cluster: HostileCluster, flood: Attack) -> None:
    await assert_harmless(cluster, [flood])


@pytest.mark.parametrize("process", ["run", "controllers"])
async def test_probes_are_answered_among_idle_connections(
    cluster: HostileCluster, process: str
) -> None:
    async with asyncio.TaskGroup() as group:
        idle = [group.create_task(_hold(cluster.ports[process])) for _ in range(CONNECTIONS)]
        await asyncio.sleep(0.5)  # as many as are let in have been
        waits = await _waits_for_answers(cluster, process)
        for task in idle:
            task.cancel()
    assert sorted(waits)[len(waits) // 2] < ANSWERED_WITHIN, waits
    assert not cluster.dead()


async def test_pods_are_bound_and_probes_answered_while_strangers_begin_to_speak_tls(
    cluster: HostileCluster,
) -> None:
    begun = 0
    async with asyncio.TaskGroup() as group:

        async def begin_often() -> None:
            nonlocal begun
            while True:
                await _begin_tls(cluster.ports["run"])
                begun += 1

        strangers = [group.create_task(begin_often()) for _ in range(STRANGERS)]
        while begun < HANDSHAKES:
            bound = await cluster.seconds_until_bound()
            waits = await _waits_for_answers(cluster, "run")
            assert bound < BOUND_WITHIN
            assert sorted(waits)[len(waits) // 2] < ANSWERED_WITHIN, waits
        for task in strangers:
            task.cancel()
    assert not cluster.dead()


async def _waits_for_answers(cluster: HostileCluster, process: str) -> list[float]:
    """How long probes wait, in seconds of a machine that does nothing else."""
    waits = []
    for _ in range(10):
        slow, began = slowness(), time.monotonic()
        assert "ok" in await cluster.get(process, "/healthz")
        waits.append((time.monotonic() - began) / slow)
    return waits


@cache
def _client_hello() -> bytes:
    """What begins a handshake; the answer to it costs the server a signature."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    to_server = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), to_server).do_handshake()
    return to_server.read()


async def _begin_tls(port: int) -> None:
    """Begin a handshake, read the answer, and be gone."""
    with suppress(OSError):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, local_addr=("127.0.0.2", 0)
        )
        try:
            writer.write(_client_hello())
            await reader.read(1)
        finally:
            writer.transport.abort()


async def _hold(port: int) -> None:
    """Keep a connection that says nothing, and open another whenever it is cut."""
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, local_addr=("127.0.0.2", 0)
            )
            try:
                await reader.read()
            finally:
                writer.transport.abort()
        await asyncio.sleep(0.5)
