"""The embedded server over HTTP, for kubectl, curl and a daemon in another process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
from aiohttp import web

from arranger.embedded.handlers.watch import Watch
from arranger.embedded.server import ApiResponse, EmbeddedCluster
from arranger.embedded.transport.hook import ConnectionLostError, RequestHook
from arranger.embedded.transport.in_process import open_watch
from arranger.kube.client.transport import Request

T = TypeVar("T")

#: The largest object that etcd would take, and some room.
_BODY_LIMIT = 4 * 1024 * 1024


@asynccontextmanager
async def serve(
    cluster: EmbeddedCluster,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    hook: RequestHook | None = None,
) -> AsyncIterator[str]:
    """Serve while the context lasts; yields the URL. ``port=0`` picks a free one.

    ``hook`` is asked around every request and knows a client by its User-Agent.

    Raises:
        OSError: the address cannot be bound.
    """
    server = _HttpServer(cluster, hook)
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
    """Answers aiohttp's requests by the cluster.

    Attributes:
        watches: those that are open.
    """

    def __init__(self, cluster: EmbeddedCluster, hook: RequestHook | None) -> None:
        self._cluster = cluster
        self._hook = hook
        self.watches: set[Watch] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        asked = Request(
            request.method,
            request.path,
            dict(request.query),
            await request.read(),
            request.headers.get("Content-Type", "application/json"),
            request.headers.get("Accept", "application/json"),
        )
        user = request.headers.get("User-Agent", "")
        try:
            if asked.method == "GET" and asked.query.get("watch") in ("1", "true"):
                watch = await self._ask(asked, user, lambda: open_watch(self._cluster, asked))
                if isinstance(watch, Watch):
                    return await self._stream(request, watch, self._chunks(asked, user, watch))
                return _response(watch)
            return _response(await self._ask(asked, user, lambda: self._cluster.handle(asked)))
        except ConnectionLostError:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()

    async def _ask(self, asked: Request, user: str, respond: Callable[[], T]) -> T | ApiResponse:
        if self._hook is None:
            return respond()
        return await self._hook.around_request(asked, user, respond)

    async def _chunks(self, asked: Request, user: str, watch: Watch) -> AsyncIterator[bytes]:
        lines = watch.lines()
        async for line in lines:
            passage = None if self._hook is None else self._hook.passage(asked, user, line)
            if passage is None:
                yield line + b"\n"
                continue
            await asyncio.sleep(passage.seconds)
            for chunk in passage.chunks:
                yield chunk
            match passage.then:
                case "end":
                    return
                case "reset":
                    raise ConnectionLostError("connection reset")
                case "silence":
                    async for _ in lines:
                        pass  # the server believes that they arrive

    async def _stream(
        self, request: web.Request, watch: Watch, chunks: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self.watches.add(watch)
        try:
            await response.prepare(request)
            async for chunk in chunks:
                await response.write(chunk)
        except ConnectionResetError:
            pass  # the client has disconnected
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
