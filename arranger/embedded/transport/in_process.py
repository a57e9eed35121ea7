"""The embedded server without sockets, for tests and simulations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import msgspec

from arranger.embedded.errors import ApiError
from arranger.embedded.fault_injection import ConnectionLostError, FaultInjector
from arranger.embedded.handlers.watch import Watch
from arranger.embedded.request_matchers import ClientRequest
from arranger.embedded.server import ApiResponse, EmbeddedCluster
from arranger.kube.client.transport import (
    RefusedConnectionError,
    Request,
    Response,
    Stream,
    TransportError,
)

T = TypeVar("T")


def open_watch(
    cluster: EmbeddedCluster, call: ClientRequest, accept: str = "application/json"
) -> Watch | ApiResponse:
    """The watch a call asks for, or its refusal."""
    try:
        return cluster.watch(call.path, call.query, accept)
    except ApiError as error:
        return ApiResponse(error.code, error.status(), error.headers)


class InProcessStream:
    """An open watch, or the answer that refused it."""

    def __init__(self, status: int, body: bytes, lines: AsyncIterator[bytes] | None = None) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._body = body
        self._lines = lines

    def lines(self) -> AsyncIterator[bytes]:
        """Each event as a line."""
        return _no_lines() if self._lines is None else self._lines

    async def body(self) -> bytes:
        """The refusal."""
        return self._body


class InProcessTransport:
    """Calls the server's own functions; every answer is decoded from bytes as over a socket.

    Args:
        taps: what goes wrong on the way, and the log of writes; nothing, without it.
        user: names this client to the taps.

    Attributes:
        cluster: the server that answers; may be exchanged, as behind a load balancer.
    """

    def __init__(
        self, cluster: EmbeddedCluster, *, taps: FaultInjector | None = None, user: str = ""
    ) -> None:
        self.cluster = cluster
        self._taps = taps
        self._user = user
        self._watches: set[Watch] = set()

    async def send(self, request: Request) -> Response:
        """See :class:`~arranger.kube.client.transport.Transport`; without taps nothing is lost."""
        if self._taps is None:
            return _response(self.cluster.handle(request))
        call = self._call(request.method, request.path, request.query, request.body)
        return _response(
            await self._carry(call, lambda: self.cluster.handle(request), request.timeout)
        )

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        inactivity: float = 70.0,
        timeout: float = 30.0,
    ) -> AsyncIterator[Stream]:
        """Open a watch; ``inactivity`` counts with taps only, as nothing falls silent without."""
        call = self._call("GET", path, dict(query or {}), b"")
        if self._taps is None:
            opened = open_watch(self.cluster, call)
        else:
            opened = await self._carry(call, lambda: open_watch(self.cluster, call), timeout)
        if isinstance(opened, ApiResponse):
            answer = _response(opened)
            refused = InProcessStream(answer.status, answer.body)
            refused.headers = answer.headers
            yield refused
            return
        self._watches.add(opened)
        lines = opened.lines()
        if self._taps is not None:
            lines = _client_lines(self._taps.lines(call, lines), inactivity)
        try:
            yield InProcessStream(200, b"", lines)
        finally:
            self._watches.discard(opened)
            opened.close()

    async def close(self) -> None:
        """End every watch."""
        for watch in list(self._watches):
            watch.close()

    def _call(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> ClientRequest:
        now = asyncio.get_running_loop().time()
        return ClientRequest(now, method, path, query, body, self._user)

    async def _carry(
        self, call: ClientRequest, act: Callable[[], T], timeout: float
    ) -> T | ApiResponse:
        assert self._taps is not None
        try:
            async with asyncio.timeout(timeout):
                return await self._taps.carry(call, act)
        except TimeoutError as error:
            raise TransportError("no answer in time") from error
        except ConnectionLostError as error:
            raise (TransportError if error.sent else RefusedConnectionError)(str(error)) from error


async def _no_lines() -> AsyncIterator[bytes]:
    return
    yield  # what makes it an iterator


async def _client_lines(chunks: AsyncIterator[bytes], inactivity: float) -> AsyncIterator[bytes]:
    """What a client makes of the bytes of a watch, as the Transport protocol has it."""
    async with aclosing(chunks):  # type: ignore[type-var]
        while True:
            try:
                async with asyncio.timeout(inactivity):
                    chunk = await anext(chunks, b"")
            except TimeoutError as error:
                raise TransportError("nothing came for too long") from error
            except ConnectionLostError as error:
                raise TransportError(str(error)) from error
            if not chunk.endswith(b"\n"):
                return
            yield chunk[:-1]


def _response(answer: ApiResponse) -> Response:
    body = answer.body
    encoded = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return Response(answer.status, encoded, answer.headers)
