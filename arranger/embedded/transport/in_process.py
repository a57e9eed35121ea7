"""The embedded server without sockets, for tests and simulations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

import msgspec

from arranger.embedded.errors import ApiError
from arranger.embedded.handlers.watch import Watch
from arranger.embedded.server import ApiResponse, EmbeddedCluster
from arranger.embedded.transport.hook import ConnectionLostError, Passage, RequestHook
from arranger.kube.client.transport import (
    RefusedConnectionError,
    Request,
    Response,
    Stream,
    TransportError,
)

T = TypeVar("T")

_JSON: Final = {"content-type": "application/json"}


def open_watch(cluster: EmbeddedCluster, request: Request) -> Watch | ApiResponse:
    """The watch that a request asks for, or its refusal."""
    try:
        return cluster.watch(request.path, request.query, request.accept)
    except ApiError as error:
        return ApiResponse(error.code, error.status(), error.headers)


class InProcessStream:
    """An open watch, or the answer that refused it."""

    def __init__(self, answer: Response, lines: AsyncIterator[bytes] | None = None) -> None:
        self.status, self.headers, self._body = answer.status, answer.headers, answer.body
        self._lines = lines

    def frames(self) -> AsyncIterator[bytes]:
        """Each event as a line."""
        return _no_lines() if self._lines is None else self._lines

    async def body(self) -> bytes:
        """The refusal."""
        return self._body


class InProcessTransport:
    """Calls the server's own functions; every answer is decoded from bytes as over a socket.

    Args:
        hook: asked around every request; without one nothing is ever lost or late.
        user: names this client to the hook.
    """

    def __init__(
        self, cluster: EmbeddedCluster, *, hook: RequestHook | None = None, user: str = ""
    ) -> None:
        self._cluster = cluster
        self._hook = hook
        self._user = user
        #: In the order of their opening, in which they are closed: a set has none.
        self._watches: dict[Watch, None] = {}

    async def send(self, request: Request) -> Response:
        """See :class:`~arranger.kube.client.transport.Transport`."""
        return _response(await self._ask(request, lambda: self._cluster.handle(request)))

    @asynccontextmanager
    async def stream(self, request: Request, *, inactivity: float = 70.0) -> AsyncIterator[Stream]:
        """Open a watch; ``inactivity`` counts with a hook only: nothing falls silent without."""
        opened = await self._ask(request, lambda: open_watch(self._cluster, request))
        if isinstance(opened, ApiResponse):
            yield InProcessStream(_response(opened))
            return
        self._watches[opened] = None
        lines = opened.lines()
        if self._hook is not None:
            lines = _client_lines(
                opened, partial(self._hook.passage, request, self._user), inactivity
            )
        try:
            yield InProcessStream(Response(200, b"", _JSON), lines)
        finally:
            self._watches.pop(opened, None)
            opened.close()

    def switch_to(self, cluster: EmbeddedCluster) -> None:
        """Ask another server from now on, as behind a load balancer; open watches go on."""
        self._cluster = cluster

    async def close(self) -> None:
        """End every watch."""
        for watch in list(self._watches):
            watch.close()

    async def _ask(self, request: Request, respond: Callable[[], T]) -> T | ApiResponse:
        if self._hook is None:
            return respond()
        try:
            async with asyncio.timeout(request.timeout):
                return await self._hook.around_request(request, self._user, respond)
        except TimeoutError as error:
            raise TransportError("no answer in time") from error
        except ConnectionLostError as error:
            raise (TransportError if error.sent else RefusedConnectionError)(str(error)) from error


async def _no_lines() -> AsyncIterator[bytes]:
    return
    yield  # what makes it an iterator


async def _client_lines(
    watch: Watch, passage_of: Callable[[bytes], Passage | None], inactivity: float
) -> AsyncIterator[bytes]:
    """What a client makes of the lines of a watch, as the Transport protocol has it."""
    loop = asyncio.get_running_loop()
    watch.start()
    try:
        while not watch.ended:
            asked = loop.time()
            while (line := watch.take()) is None and not watch.ended:
                await watch.arrival(inactivity)
            while line is not None:
                passage = passage_of(line)
                if passage is None:
                    yield line
                else:
                    left = inactivity - (loop.time() - asked)
                    if passage.then == "silence" or passage.seconds >= left:
                        await asyncio.sleep(left)
                        raise TimeoutError
                    if passage.seconds:
                        await asyncio.sleep(passage.seconds)
                    for chunk in passage.chunks:
                        if not chunk.endswith(b"\n"):
                            return
                        yield chunk[:-1]
                    if passage.then == "reset":
                        raise TransportError("connection reset")
                    if passage.then == "end":
                        return
                line = watch.take()
    except TimeoutError as error:
        raise TransportError("nothing came for too long") from error
    finally:
        watch.close()


def _response(answer: ApiResponse) -> Response:
    body = answer.body
    encoded = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return Response(answer.status, encoded, answer.headers)
