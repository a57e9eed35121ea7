"""The lease is kept while the event loop is busy, and given up when it is stuck for good."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from typing import Any

from arranger.kube.client.transport import Request, RequestTransport, Response
from arranger.kube.leader_election import LeaderElection, LeaseConfig
from arranger.kube.lease_thread import LeaseThread, Wrapper

#: Long enough for any machine: only a test that fails waits for it.
PATIENCE = 60.0


class LeaseServer:
    """One lease, kept in the thread that asks.

    Attributes:
        written: released once for each write.
    """

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.threads: set[int] = set()
        self.written = threading.Semaphore(0)
        self.closed = threading.Event()

    async def send(self, request: Request) -> Response:
        self.threads.add(threading.get_ident())
        if request.method == "GET":
            if self.lease is None:
                return Response(404, b"{}", {})
        else:
            self.lease = json.loads(request.body)
            self.written.release()
        return Response(200, json.dumps(self.lease).encode(), {})

    async def close(self) -> None:
        self.closed.set()


def keeper(server: LeaseServer, led: asyncio.Event, stuck_limit: float = PATIENCE) -> LeaseThread:
    """Keeps the lease at the server; ``led`` is set in the event loop of the test."""

    async def open_transport() -> LeaseServer:
        return server

    def make(transport: RequestTransport, in_main_loop: Wrapper) -> LeaderElection:
        config = LeaseConfig("ns", "name", "me", 30.0, 20.0, 0.05)
        started = in_main_loop(led.set)
        return LeaderElection(
            transport, config, rng=random.Random(1), on_started=lambda _: started()
        )

    return LeaseThread(open_transport, make, stuck_limit)


async def test_the_lease_is_renewed_while_the_event_loop_is_busy_and_released_in_the_end() -> None:
    server, led = LeaseServer(), asyncio.Event()
    lease = keeper(server, led)
    running = asyncio.create_task(lease.run())
    await asyncio.wait_for(led.wait(), PATIENCE)
    for _ in range(5):  # the event loop stands still meanwhile
        assert server.written.acquire(timeout=PATIENCE)
    assert lease.is_leader()
    assert lease.readiness_error() is None
    assert threading.get_ident() not in server.threads
    running.cancel()
    await asyncio.wait({running})
    assert not lease.is_leader()
    assert await lease.release()
    assert server.lease is not None
    assert server.lease["spec"]["holderIdentity"] == ""
    assert server.closed.is_set()


async def test_an_event_loop_that_is_stuck_for_good_does_not_lead_for_ever() -> None:
    server, led = LeaseServer(), asyncio.Event()
    lease = keeper(server, led, stuck_limit=1.0)
    running = asyncio.create_task(lease.run())
    await asyncio.wait_for(led.wait(), PATIENCE)
    while server.written.acquire(timeout=10 * 0.05 + 2.0):
        pass  # stuck, until nobody renews the lease any more
    assert not lease.is_leader()
    await asyncio.wait_for(running, PATIENCE)
    assert await lease.release()
