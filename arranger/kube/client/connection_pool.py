"""A pool of HTTP/1.1 connections for the many short writes, at a fraction of aiohttp's cost.

A Binding is a few hundred bytes each way, posted a thousand times a second; most of what a general
client does for it is wasted. Here one ``asyncio.Protocol`` owns one connection, carries one
request at a time, and httptools (the parser of Node.js) reads the answer. It speaks what an API
server speaks and no more: no redirects, no cookies, no compression, no proxy, no streams.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import httptools

from arranger.kube.client.aiohttp_transport import (
    CONNECT_TIMEOUT,
    USER_AGENT,
    connection_error,
)
from arranger.kube.client.credentials import ApiServerConfig
from arranger.kube.client.transport import (
    RefusedConnectionError,
    Request,
    RequestTransport,
    Response,
    TransportError,
    refused_path,
)

#: As many as the dispatcher may have in flight (``concurrency_limiter.MAX_LIMIT``).
MAX_CONNECTIONS: Final = 128
#: Seconds of idleness after which a connection is not trusted any more: a server or a load
#: balancer that closes idle ones may be doing so right now, and the write would be ambiguous.
IDLE_LIMIT: Final = 30.0
#: Seconds between two looks at who has waited too long for an answer: a timer for each request
#: would cost more than the rest of sending it.
_LOOK_EVERY: Final = 0.2


@dataclass(slots=True, eq=False)
class _Connection(asyncio.Protocol):
    """One connection: at most one request in flight."""

    #: The TLS context it was made with; a rotated certificate makes it outdated.
    context: ssl.SSLContext | None
    transport: asyncio.Transport | None = None
    idle_since: float = 0.0
    #: Whether another request may follow.
    keep_alive: bool = True
    #: When it has waited long enough for its answer.
    _deadline: float = math.inf
    _response: asyncio.Future[Response] | None = None
    _parser: httptools.HttpResponseParser = field(init=False)
    _headers: dict[str, str] = field(default_factory=dict)
    _body: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)

    def send(self, data: bytes, deadline: float) -> asyncio.Future[Response]:
        """Write one request; the future gives its answer or raises TransportError."""
        assert self.transport is not None
        self._response = answer = asyncio.get_running_loop().create_future()
        self._deadline = deadline
        self.transport.write(data)
        return answer

    def look_at_deadline(self, now: float) -> None:
        """Wait no longer for an answer that should have come."""
        if self._deadline <= now:
            self._fail("no answer in time")

    def close(self) -> None:
        """Close at once."""
        self.keep_alive = False
        if self.transport is not None:
            self.transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            # Not an answer, but a 408 before the server closes an idle connection.
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"not HTTP: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.keep_alive = False
        self._fail(str(exc) if exc else "the server closed the connection")

    # What httptools calls.

    def on_message_begin(self) -> None:
        self._headers = {}
        self._body = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return  # 100 Continue and the like: the answer follows
        self.keep_alive = self.keep_alive and self._parser.should_keep_alive()
        answer = self._finish()
        if answer is not None:
            answer.set_result(Response(status, b"".join(self._body), self._headers))

    def _fail(self, reason: str) -> None:
        answer = self._finish()
        if answer is not None:
            answer.set_exception(TransportError(reason))
            self.close()

    def _finish(self) -> asyncio.Future[Response] | None:
        answer, self._response, self._deadline = self._response, None, math.inf
        return answer if answer is not None and not answer.done() else None


class ConnectionPool:
    """A :class:`~arranger.kube.client.transport.RequestTransport` for short requests.

    A request whose connection dies is never repeated: once written it may have been executed.

    Args:
        config: the server; one behind a proxy is not supported (see :func:`write_transport`).
        connections: the most to open; further requests wait for one.
    """

    def __init__(self, config: ApiServerConfig, *, connections: int = MAX_CONNECTIONS) -> None:
        if config.proxy:
            raise ValueError("the connection pool does not support proxies")
        parts = urlsplit(config.url)
        self._config = config
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._server_name = (config.server_name or self._host) if self._secure else None
        # Tokens change once in a while.
        self._header_block = lru_cache(maxsize=32)(partial(_header_block, parts.netloc))
        self._free_slots = connections
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        #: Looks at deadlines while requests are under way.
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(self, request: Request) -> Response:
        """See :class:`~arranger.kube.client.transport.Transport`; a 401 is tried once more with a
        renewed credential where there is one."""
        if (refused := refused_path(request.path)) is not None:
            return refused
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.timeout
        credentials = self._config.credentials
        target = quote(self._prefix + request.path, safe="/%:@!$&'()*+,;=~") + (
            "?" + urlencode(request.query) if request.query else ""
        )
        content_type = request.content_type if request.has_content else ""
        for last in (False, True):
            authorization = await credentials.authorization()
            head = self._header_block(authorization, content_type, request.accept)
            start = f"{request.method} {target}{head}{len(request.body)}\r\n\r\n"
            data = start.encode("latin-1") + request.body
            connection = await self._acquire(deadline)
            try:
                if deadline <= loop.time():
                    raise RefusedConnectionError("no time left to send")
                if self._timer is None:
                    self._timer = loop.call_later(_LOOK_EVERY, self._look_at_deadlines)
                answer = await connection.send(data, deadline)
            except asyncio.CancelledError:
                # Its answer may still come: the connection is of no more use.
                connection.close()
                raise
            finally:
                self._release(connection)
            if last or answer.status != 401 or not await credentials.renew(authorization):
                break
        return answer

    def _look_at_deadlines(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        now = loop.time()
        for connection in list(self._busy):
            connection.look_at_deadline(now)
        if self._busy and not self._closed:
            self._timer = loop.call_later(_LOOK_EVERY, self._look_at_deadlines)

    async def close(self) -> None:
        """Close every connection, failing what is in flight; idempotent."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in [*self._idle, *self._busy]:
            connection.close()
        self._idle.clear()
        for waiter in self._waiting:
            waiter.cancel()
        # One turn of the loop, so that the transports end.
        await asyncio.sleep(0)

    async def _acquire(self, deadline: float) -> _Connection:
        """A free connection; raises RefusedConnectionError, as nothing was sent."""
        loop = asyncio.get_running_loop()
        while True:
            if self._closed:
                raise RefusedConnectionError("the pool is closed")
            while self._idle:
                connection = self._idle.pop()
                if self._usable(connection, loop.time()):
                    self._busy.add(connection)
                    return connection
                connection.close()
                self._free_slots += 1
            if self._free_slots > 0:
                return await self._connect(deadline)
            waiter = loop.create_future()
            self._waiting.append(waiter)
            try:
                async with asyncio.timeout_at(deadline):
                    await waiter
            except TimeoutError as error:
                raise RefusedConnectionError("no connection became free in time") from error
            except asyncio.CancelledError:
                if self._closed:
                    raise RefusedConnectionError("the pool is closed") from None
                self._wake()
                raise
            finally:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)

    def _usable(self, connection: _Connection, now: float) -> bool:
        if not connection.keep_alive or now - connection.idle_since > IDLE_LIMIT:
            return False
        if connection.transport is None or connection.transport.is_closing():
            return False
        return not self._secure or connection.context is self._config.credentials.ssl_context()

    async def _connect(self, deadline: float) -> _Connection:
        self._free_slots -= 1
        loop = asyncio.get_running_loop()
        try:
            context = self._config.credentials.ssl_context() if self._secure else None
            async with asyncio.timeout_at(min(deadline, loop.time() + CONNECT_TIMEOUT)):
                _, connection = await loop.create_connection(
                    lambda: _Connection(context),
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=self._server_name,
                )
        except BaseException as error:
            self._free_slots += 1
            self._wake()
            if isinstance(error, OSError):
                raise connection_error(self._host, self._port, error) from error
            raise
        self._busy.add(connection)
        return connection

    def _release(self, connection: _Connection) -> None:
        self._busy.discard(connection)
        if connection.keep_alive and not self._closed:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.close()
            self._free_slots += 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


def _header_block(host: str, authorization: str, content_type: str, accept: str) -> str:
    """Everything between the target and the length; the same for nearly all requests."""
    head = f" HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {USER_AGENT}\r\nAccept: {accept}\r\n"
    if authorization:
        head += f"Authorization: {authorization}\r\n"
    if content_type:
        head += f"Content-Type: {content_type}\r\n"
    return f"{head}Content-Length: "


def write_transport(config: ApiServerConfig, fallback: RequestTransport) -> RequestTransport:
    """A connection pool, or ``fallback`` where a proxy stands in between."""
    return fallback if config.proxy else ConnectionPool(config)
