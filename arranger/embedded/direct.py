"""The embedded server without sockets, for tests and simulations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec

from arranger.embedded.errors import ApiError
from arranger.embedded.server import EmbeddedCluster, Request
from arranger.embedded.watching import Watch
from arranger.kube.transport import Response, Stream


class DirectStream:
    """An open watch, or the answer that refused it."""

    def __init__(self, status: int, body: bytes, watch: Watch | None) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._body = body
        self._watch = watch

    async def lines(self) -> AsyncIterator[bytes]:
        """Each event as a line."""
        if self._watch is not None:
            async for line in self._watch.lines():
                yield line

    async def body(self) -> bytes:
        """The refusal."""
        return self._body


class DirectTransport:
    """Calls the server's own functions; every answer is decoded from bytes as over a socket."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._watches: set[Watch] = set()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float = 30.0,
    ) -> Response:
        """Answer at once; nothing here can be lost."""
        answer = self._cluster.handle(
            Request(method, path, dict(query or {}), body or b"", content_type, accept)
        )
        body_out = answer.body
        encoded = body_out.encode() if isinstance(body_out, str) else msgspec.json.encode(body_out)
        return Response(answer.status, encoded, answer.headers)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        inactivity: float = 70.0,
        timeout: float = 30.0,
    ) -> AsyncIterator[Stream]:
        """Open a watch."""
        try:
            watch = self._cluster.watch(path, dict(query or {}))
        except ApiError as error:
            yield DirectStream(error.code, msgspec.json.encode(error.status()), None)
            return
        self._watches.add(watch)
        try:
            yield DirectStream(200, b"", watch)
        finally:
            self._watches.discard(watch)
            watch.close()

    async def close(self) -> None:
        """End every watch."""
        for watch in list(self._watches):
            watch.close()
