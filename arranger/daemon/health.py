"""One small web server: /livez, /readyz and /metrics.

``/readyz`` answers as those of Kubernetes do: ``ok``, or with ``?verbose``, and whenever a check
fails, one line for each check.
"""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

#: Name of a check → what is wrong, or None.
Checks = Mapping[str, Callable[[], str | None]]


class ServerError(Exception):
    """The address to serve on cannot be used; the message says why."""


@asynccontextmanager
async def health_server(
    *,
    host: str,
    port: int,
    checks: Checks,
    registry: CollectorRegistry | None = None,
    before_metrics: Callable[[], None] = lambda: None,
) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port in use.

    ``/livez`` answers 200 with ``ok``; ``/readyz`` too, or 503 when one of the checks fails.

    Raises:
        ServerError: the address cannot be bound.
    """

    async def live(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(request: web.Request) -> web.Response:
        found = {name: check() for name, check in checks.items()}
        failed = any(found.values())
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[-]{n} failed: {why}" if why else f"[+]{n} ok" for n, why in found.items()]
        lines.append(f"readyz check {'failed' if failed else 'passed'}")
        return web.Response(status=503 if failed else 200, text="\n".join(lines) + "\n")

    async def metrics(_: web.Request) -> web.Response:
        if registry is None:
            raise web.HTTPNotFound
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
        try:
            await site.start()
        except OSError as error:
            raise ServerError(_bind_error(error, host, port)) from error
        addresses = runner.addresses
        yield int(addresses[0][1]) if addresses else port
    finally:
        await runner.cleanup()


def _bind_error(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use on this machine"
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return f"cannot serve on {host}:{port}: {reason}"
