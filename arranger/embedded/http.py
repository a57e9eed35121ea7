"""The embedded server over HTTP, for kubectl, curl and a daemon in another process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from arranger.embedded.errors import ApiError
from arranger.embedded.server import EmbeddedCluster, Request
from arranger.embedded.watching import Watch

#: The largest object that etcd would take, and some room.
_BODY_LIMIT = 4 * 1024 * 1024


@asynccontextmanager
async def serve(
    cluster: EmbeddedCluster, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[str]:
    """Serve while the context lasts; yields the URL. ``port=0`` picks a free one.

    Raises:
        OSError: the address cannot be bound.
    """
    watches: set[Watch] = set()

    async def handle(request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        if request.method == "GET" and query.get("watch") in ("1", "true"):
            return await _stream(cluster, request, query, watches)
        answer = cluster.handle(
            Request(
                request.method,
                request.path,
                query,
                await request.read(),
                request.headers.get("Content-Type", "application/json"),
                request.headers.get("Accept", "application/json"),
            )
        )
        if isinstance(answer.body, str):
            return web.Response(status=answer.status, text=answer.body, headers=answer.headers)
        return _json(answer.status, answer.body, answer.headers)

    app = web.Application(client_max_size=_BODY_LIMIT)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        for watch in list(watches):
            watch.close()
        await runner.cleanup()


async def _stream(
    cluster: EmbeddedCluster, request: web.Request, query: dict[str, str], watches: set[Watch]
) -> web.StreamResponse:
    try:
        watch = cluster.watch(request.path, query)
    except ApiError as error:
        return _json(error.code, error.status(), error.headers)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    watches.add(watch)
    try:
        await response.prepare(request)
        async for line in watch.lines():
            await response.write(line + b"\n")
    except ConnectionResetError:
        pass  # the client has gone; nothing is owed to it
    finally:
        watches.discard(watch)
        watch.close()
    return response


def _json(status: int, body: object, headers: dict[str, str]) -> web.Response:
    return web.Response(
        status=status,
        body=msgspec.json.encode(body),
        content_type="application/json",
        headers=headers,
    )
