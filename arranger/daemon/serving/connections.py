"""A listening port that strangers may connect to: connections are few, short-lived and shared out.

Every connection counts from the moment it is accepted, before TLS is spoken, and serves one
request. When all places are taken, the oldest connection of the network that has most of them makes
way: who opens thousands competes with itself, and a probe from elsewhere is always let in.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Final

import structlog

log = structlog.get_logger(__name__)

#: Connections at a time.
PLACES: Final = 128
#: Seconds until TLS is spoken, and until the answer has been read to its end.
HANDSHAKE_SECONDS: Final = 5.0
LIFETIME_SECONDS: Final = 30.0
#: Seconds between two looks for connections that have lived too long, and between two attempts to
#: accept one when the system refused that.
_SWEEP: Final = 1.0
_RETRY: Final = 0.1

ProtocolFactory = Callable[[], asyncio.Protocol]


def network_of(address: str) -> str:
    """Whom a connection counts for: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed, 64), strict=False))


@dataclass(eq=False, slots=True)
class Connection:
    """One that was accepted.

    Attributes:
        network: whom it counts for.
        since: when it was accepted, in seconds of the event loop's clock.
        opening: speaks TLS, and ends when that is done.
        transport: what bytes go through once that is done.
    """

    sock: socket.socket
    network: str
    since: float
    opening: asyncio.Task[None] | None = None
    transport: asyncio.BaseTransport | None = None

    @property
    def is_open(self) -> bool:
        """Whether it still has a file descriptor."""
        return self.sock.fileno() != -1

    def cut(self) -> None:
        """End it, whatever it is doing."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


@dataclass(eq=False)
class Connections:
    """The open ones, oldest first."""

    places: int = PLACES
    lifetime: float = LIFETIME_SECONDS
    _open: dict[Connection, None] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection) -> list[Connection]:
        """Count a new one; returns those that have to make way for it."""
        self._forget_closed()
        self._open[connection] = None
        leaving: list[Connection] = []
        while len(self._open) > self.places:
            counts = Counter(each.network for each in self._open)
            most = max(counts.values())
            oldest = next(each for each in self._open if counts[each.network] == most)
            del self._open[oldest]
            leaving.append(oldest)
        return leaving

    def expire(self, now: float) -> list[Connection]:
        """Those that have lived too long; they no longer count."""
        self._forget_closed()
        expired = [each for each in self._open if now - each.since >= self.lifetime]
        for each in expired:
            del self._open[each]
        return expired

    def leave(self) -> list[Connection]:
        """All of them; none counts any more."""
        left, self._open = [each for each in self._open if each.is_open], {}
        return left

    def _forget_closed(self) -> None:
        for closed in [each for each in self._open if not each.is_open]:
            del self._open[closed]


class Listener:
    """Accepts connections, and hands each to a protocol once TLS is spoken.

    Args:
        listening: a socket that listens; closed by :meth:`close`.
        protocol: makes what serves a connection.
        tls: the context to speak TLS with, asked for each connection.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: ProtocolFactory,
        tls: Callable[[], ssl.SSLContext],
        *,
        connections: Connections | None = None,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._protocol = protocol
        self._tls = tls
        self._connections = Connections() if connections is None else connections
        self._handshake_seconds = handshake_seconds
        self._loop = asyncio.get_running_loop()
        # One that was told to make way is left here until it has.
        self._opening: set[asyncio.Task[None]] = set()
        self._work = [
            asyncio.create_task(self._accept(), name="accept connections"),
            asyncio.create_task(self._sweep(), name="cut slow connections"),
        ]

    async def close(self) -> None:
        """Listen no more, and cut what is open."""
        for task in self._work:
            task.cancel()
        for connection in self._connections.leave():
            connection.cut()
        await asyncio.gather(*self._work, *self._opening, return_exceptions=True)
        self._listening.close()
        # Cut transports close their sockets in the loop's next turn.
        await asyncio.sleep(0)

    async def _accept(self) -> None:
        while True:
            try:
                sock, address = await self._loop.sock_accept(self._listening)
            except OSError as error:
                # Out of file descriptors, or gone before it was accepted.
                log.warning("server.accept_failed", error=error.strerror or str(error))
                await asyncio.sleep(_RETRY)
                continue
            connection = Connection(sock, network_of(str(address[0])), self._loop.time())
            connection.opening = asyncio.create_task(self._open(connection))
            self._opening.add(connection.opening)
            connection.opening.add_done_callback(self._opening.discard)
            for leaving in self._connections.admit(connection):
                leaving.cut()
            # However many there are, everything else in the loop has its turn between two.
            await asyncio.sleep(0)

    async def _open(self, connection: Connection) -> None:
        transport: asyncio.BaseTransport | None = None
        try:
            # Who does not speak TLS, or not in time: ssl.SSLError and TimeoutError are OSErrors.
            with suppress(OSError):
                transport, _ = await self._loop.connect_accepted_socket(
                    self._protocol,
                    connection.sock,
                    ssl=self._tls(),
                    ssl_handshake_timeout=self._handshake_seconds,
                    ssl_shutdown_timeout=self._handshake_seconds,
                )
        finally:
            if transport is None:
                connection.sock.close()
        connection.transport = transport

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            for connection in self._connections.expire(self._loop.time()):
                connection.cut()
