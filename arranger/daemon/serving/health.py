"""One small web server over HTTPS: /livez, /readyz and /metrics.

It has a thread and an event loop of its own: however many strangers begin to speak TLS, that does
not hold up the main loop, which only hears of whole requests, and answers them.

``/readyz`` answers as those of Kubernetes do: ``ok``, or with ``?verbose``, and whenever a check
fails, one line for each check. Why one fails is told to who asks on the loopback address, which
takes being let into the pod; to others it is withheld, as the API server withholds it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Final, Protocol

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, exposition
from prometheus_client.openmetrics import exposition as openmetrics

from arranger.daemon.serving.certificate import ServingCertificate
from arranger.daemon.serving.connections import Listener, network_of
from arranger.daemon.serving.reviews import Refusal, User, certified_user
from arranger.kube.loop_thread import LoopThread, run_in

log = structlog.get_logger(__name__)

#: Name of a check → what is wrong, or None.
Checks = Mapping[str, Callable[[], str | None]]
#: The most of a request's head and body that is read: lines and fields by their bytes.
_HEAD_LINE: Final = 8190
_HEAD_FIELDS: Final = 32
_BODY: Final = 1 << 14
#: Connections that may wait to be accepted.
_BACKLOG: Final = 128
_OPENMETRICS: Final = "application/openmetrics-text"


class ServerError(Exception):
    """The address to serve on cannot be used; the message says why."""


class Guard(Protocol):
    """Decides who may see what; see :class:`~arranger.daemon.serving.reviews.Reviews`."""

    async def refusal(
        self, verb: str, path: str, authorization: str, network: str, certified: User | None
    ) -> Refusal | None:
        """Why this request is not to be answered; None if it is."""


@asynccontextmanager
async def health_server(
    *,
    host: str,
    port: int,
    checks: Checks,
    certificate: ServingCertificate,
    guard: Guard,
    registry: CollectorRegistry | None = None,
    before_metrics: Callable[[], None] = lambda: None,
) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port in use.

    ``/livez`` answers 200 with ``ok``; ``/readyz`` too, or 503 when one of the checks fails.

    Raises:
        ServerError: the address cannot be bound.
    """

    async def live(_: web.BaseRequest) -> web.Response:
        return web.Response(text="ok")

    async def ready(request: web.BaseRequest) -> web.Response:
        found = {name: check() for name, check in checks.items()}
        failed = any(found.values())
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        told = _is_loopback(request)
        lines = [
            f"[-]{name} failed: {why if told else 'reason withheld'}" if why else f"[+]{name} ok"
            for name, why in found.items()
        ]
        lines.append(f"readyz check {'failed' if failed else 'passed'}")
        return web.Response(status=503 if failed else 200, text="\n".join(lines) + "\n")

    async def metrics(request: web.BaseRequest) -> web.Response:
        if registry is None:
            return web.Response(status=404, text="404: Not Found")
        before_metrics()
        # Who asks for OpenMetrics gets exemplars, too.
        wanted = openmetrics if _OPENMETRICS in request.headers.get("Accept", "") else exposition
        kind = {"Content-Type": wanted.CONTENT_TYPE_LATEST}
        return web.Response(body=wanted.generate_latest(registry), headers=kind)

    answers = {"/livez": live, "/healthz": live, "/readyz": ready, "/metrics": metrics}
    listening = _listen(host, port)
    answering = _Answering(answers, guard, asyncio.get_running_loop())
    thread = LoopThread("serve")
    try:
        server, listener = await thread.run(_serve(listening, answering, certificate))
        try:
            yield int(listening.getsockname()[1])
        finally:
            await thread.run(_stop(server, listener))
    finally:
        thread.stop()
        await thread.join()


async def _serve(
    listening: socket.socket, answering: _Answering, certificate: ServingCertificate
) -> tuple[web.Server, Listener]:
    """Begin to serve in the running loop."""
    server = web.Server(
        answering.answer,
        access_log=None,
        max_line_size=_HEAD_LINE,
        max_field_size=_HEAD_LINE,
        max_headers=_HEAD_FIELDS,
        read_bufsize=_BODY,
        auto_decompress=False,
        lingering_time=0.0,
    )
    return server, Listener(listening, server, certificate.context)


async def _stop(server: web.Server, listener: Listener) -> None:
    await server.shutdown(timeout=1.0)
    await listener.close()


class _Answering:
    """Answers requests by their path, if they may be; each connection carries one.

    Args:
        loop: where all that is asked and told lives.
    """

    def __init__(
        self,
        answers: Mapping[str, Callable[[web.BaseRequest], Awaitable[web.Response]]],
        guard: Guard,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._answers, self._guard, self._loop = answers, guard, loop

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """The answer, of whatever status."""
        try:
            response = await run_in(self._loop, self._answer(request))
        # A defect in what is asked must not say how it came about.
        except Exception:
            log.exception("server.answer_failed", path=request.path)
            response = web.Response(status=500, text="500: Internal Server Error")
        response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        answer = self._answers.get(request.path)
        if answer is None:
            return web.Response(status=404, text="404: Not Found")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="405: Method Not Allowed")
        authorization = request.headers.get("Authorization", "")
        network = network_of(request.remote or "")
        verb = request.method.lower()
        certified = certified_user(request.get_extra_info("peercert"))
        refusal = await self._guard.refusal(verb, request.path, authorization, network, certified)
        if refusal is not None:
            return web.Response(status=refusal.status, text=refusal.message)
        return await answer(request)


def _is_loopback(request: web.BaseRequest) -> bool:
    try:
        return ip_address(request.remote or "").is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        ServerError: the address cannot be bound.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ServerError(_bind_error(error, host, port)) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise ServerError(_bind_error(error, host, port)) from error
    return listening


def _bind_error(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use on this machine"
    # Errors of look-ups have numbers of their own.
    known = error.errno is not None and not isinstance(error, socket.gaierror)
    reason = os.strerror(error.errno).lower() if known and error.errno else str(error)
    return f"cannot serve on {host}:{port}: {reason}"
