"""A server of which somebody may not read everything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessStream, InProcessTransport
from arranger.kube.client.transport import Request, Response, Stream

_FORBIDDEN: Final = Response(403, b'{"kind": "Status", "message": "you may not", "code": 403}', {})


class Refusing(InProcessTransport):
    """A transport of somebody who may not read some collections."""

    def __init__(self, cluster: EmbeddedCluster, *paths: str) -> None:
        super().__init__(cluster)
        self._refused = paths

    async def send(self, request: Request) -> Response:
        return _FORBIDDEN if request.path in self._refused else await super().send(request)

    @asynccontextmanager
    async def stream(self, request: Request, *, inactivity: float = 70.0) -> AsyncIterator[Stream]:
        if request.path in self._refused:
            yield InProcessStream(_FORBIDDEN)
            return
        async with super().stream(request, inactivity=inactivity) as stream:
            yield stream
