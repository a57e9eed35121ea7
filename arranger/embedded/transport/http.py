"""The embedded server over HTTP, for kubectl, curl and a daemon in another process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
from aiohttp import web

from arranger.embedded.fault_injection import ConnectionLostError, FaultInjector
from arranger.embedded.handlers.watch import Watch
from arranger.embedded.request_matchers import ClientRequest
from arranger.embedded.server import ApiResponse, EmbeddedCluster, Request
from arranger.embedded.transport.in_process import open_watch

T = TypeVar("T")

#: The largest object that etcd would take, and some room.
_BODY_LIMIT = 4 * 1024 * 1024


@asynccontextmanager
async def serve(
    cluster: EmbeddedCluster,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    taps: FaultInjector | None = None,
) -> AsyncIterator[str]:
    """Serve while the context lasts; yields the URL. ``port=0`` picks a free one.

    ``taps`` know a client by its User-Agent.

    Raises:
        OSError: the address cannot be bound.
    """
    server = _HttpServer(cluster, taps)
    app = web.Application(client_max_size=_BODY_LIMIT)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        for watch in list(server.watches):
            watch.close()
        await runner.cleanup()


class _HttpServer:
    """Between aiohttp and the cluster.

    Attributes:
        watches: those that are open.
    """

    def __init__(self, cluster: EmbeddedCluster, taps: FaultInjector | None) -> None:
        self._cluster = cluster
        self._taps = taps
        self.watches: set[Watch] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        query = dict(request.query)
        body = await request.read()
        now = asyncio.get_running_loop().time()
        user = request.headers.get("User-Agent", "")
        call = ClientRequest(now, request.method, request.path, query, body, user)
        accept = request.headers.get("Accept", "application/json")
        try:
            if request.method == "GET" and query.get("watch") in ("1", "true"):
                watch = await self._carry(call, lambda: open_watch(self._cluster, call, accept))
                if isinstance(watch, Watch):
                    return await self._stream(request, call, watch)
                return _response(watch)
            asked = Request(
                request.method,
                request.path,
                query,
                body,
                request.headers.get("Content-Type", "application/json"),
                accept,
            )
            return _response(await self._carry(call, lambda: self._cluster.handle(asked)))
        except ConnectionLostError:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()

    async def _carry(self, call: ClientRequest, act: Callable[[], T]) -> T | ApiResponse:
        return act() if self._taps is None else await self._taps.carry(call, act)

    async def _stream(
        self, request: web.Request, call: ClientRequest, watch: Watch
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self.watches.add(watch)
        try:
            await response.prepare(request)
            if self._taps is None:
                async for line in watch.lines():
                    await response.write(line + b"\n")
            else:
                async for chunk in self._taps.lines(call, watch.lines()):
                    await response.write(chunk)
        except ConnectionResetError:
            pass  # the client has gone; nothing is owed to it
        finally:
            self.watches.discard(watch)
            watch.close()
        return response


def _response(answer: ApiResponse) -> web.Response:
    if isinstance(answer.body, str):
        return web.Response(status=answer.status, text=answer.body, headers=answer.headers)
    return web.Response(
        status=answer.status,
        body=msgspec.json.encode(answer.body),
        headers={"content-type": "application/json", **answer.headers},
    )
