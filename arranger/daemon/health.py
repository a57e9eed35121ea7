"""One small web server: /livez, /readyz and /metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

#: Name of a check → what is wrong, or None.
Checks = Mapping[str, Callable[[], str | None]]


@asynccontextmanager
async def health_server(
    *,
    host: str,
    port: int,
    checks: Checks,
    registry: CollectorRegistry,
    before_metrics: Callable[[], None],
) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port in use.

    ``/livez`` answers 200 with ``ok``; ``/readyz`` too, or 503 with the checks that fail.

    Raises:
        OSError: the address cannot be bound.
    """

    async def live(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        failed = {name: why for name, check in checks.items() if (why := check()) is not None}
        if failed:
            text = "".join(f"[-]{name} failed: {why}\n" for name, why in failed.items())
            return web.Response(status=503, text=text)
        return web.Response(text="ok")

    async def metrics(_: web.Request) -> web.Response:
        before_metrics()
        body = generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    handlers = {"/livez": live, "/healthz": live, "/readyz": ready, "/metrics": metrics}
    for path, handler in handlers.items():
        app.router.add_get(path, handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        addresses = runner.addresses
        yield int(addresses[0][1]) if addresses else port
    finally:
        await runner.cleanup()
