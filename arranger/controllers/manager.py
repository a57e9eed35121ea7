"""``arranger controllers``: kopf, the pods and the writers, in one event loop of their own."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import aiohttp
import kopf
import structlog

from arranger import __version__
from arranger.api.types.core import Pod
from arranger.controllers.gang.cache import GangCache
from arranger.controllers.gang.controller import PodSink, register
from arranger.controllers.gang.reconciler import GangReconciler
from arranger.controllers.queue.controller import FanOutSink, QueueController
from arranger.controllers.tyjob.controller import TYJobController
from arranger.controllers.vcjob.controller import JobController
from arranger.kube.client.aiohttp_transport import READ_BUFFER_BYTES, HttpTransport
from arranger.kube.client.credentials import ApiServerConfig
from arranger.kube.watch.decoder import Decoder
from arranger.kube.watch.reflector import Reflector

log = structlog.get_logger(__name__)

#: Seconds between two logins after the server has rejected what we have.
_LOGIN_RETRY: Final = 10.0


async def run_controllers(
    access: ApiServerConfig,
    *,
    schedulers: Sequence[str] = ("arranger",),
    namespaces: Sequence[str] = (),
    quiet: float = 0.5,
    liveness: str | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Keep Gangs and PodGroups true, and run Jobs and TYJobs, until ``stop`` or a signal.

    Needs an event loop to itself: at its end kopf cancels what has been started in it since. Two at
    a time do no harm, because both write the same.

    Args:
        schedulers: whose pods are ours, by ``spec.schedulerName``; the first one signs Gangs.
        namespaces: where to look; empty for everywhere.
        quiet: seconds to gather the changes of a gang before they are written.
        liveness: where to answer probes, ``http://0.0.0.0:8080/healthz`` for example.

    Raises:
        Exception: the API server could not be reached at all, or kopf gave up.
    """
    rng = random.Random()
    transport = HttpTransport(access)
    ledger = GangCache(schedulers)
    # Queues belong to no namespace: who does not see all pods cannot count what they use.
    queues = None
    if not namespaces:
        queues = QueueController(transport, schedulers=schedulers, debounce=quiet, rng=rng)
    reconciler = GangReconciler(transport, ledger, debounce=quiet, rng=rng)
    reflectors = [
        Reflector(
            transport,
            f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods",
            Decoder(Pod),
            FanOutSink(
                PodSink(ledger, reconciler.enqueue, namespace=namespace),
                *([queues.pods] if queues is not None else []),
            ),
            rng=rng,
        )
        for namespace in namespaces or [""]
    ]

    registry = kopf.OperatorRegistry()
    register(registry, ledger, reconciler.enqueue)
    jobs = JobController(
        transport, schedulers=schedulers, namespaces=namespaces, debounce=quiet, rng=rng
    )
    jobs.register(registry)
    tyjobs = TYJobController(
        transport, schedulers=schedulers, namespaces=namespaces, debounce=quiet, rng=rng
    )
    tyjobs.register(registry)
    if queues is not None:
        queues.register(registry)
    sessions = _register_login(registry, access)
    operator = kopf.operator(
        registry=registry,
        settings=_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        liveness_endpoint=liveness,
        # With a flag, kopf takes five seconds to end on a signal: it waits for the flag's watcher.
        stop_flag=stop,
    )
    log.info("controllers.starting", server=access.url, namespaces=list(namespaces) or "all")
    # A gang whose pods have not been read yet looks like one that has lost them.
    writing = reconciler.run(caches_synced=[reflector.synced for reflector in reflectors])
    own = (reflector.run() for reflector in reflectors)
    parts = (writing, *own, *jobs.tasks(), *tyjobs.tasks())
    if queues is not None:
        parts += tuple(queues.tasks(caches_synced=[reflector.synced for reflector in reflectors]))
    others = [asyncio.create_task(part) for part in parts]
    # kopf waits in vain for the end of every task that is younger than itself.
    await asyncio.sleep(0)
    watching = asyncio.create_task(operator, name="kopf")
    try:
        done, _ = await asyncio.wait({watching, *others}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (watching, *others):
            task.cancel()
        await asyncio.gather(watching, *others, return_exceptions=True)
        await transport.close()
        for session in sessions:
            await session.close()
    log.info("controllers.stopped")


@asynccontextmanager
async def run_in_thread(access: ApiServerConfig, **options: Any) -> AsyncIterator[None]:
    """Run the controllers in a thread while the context lasts, for a process that does more.

    Takes the options of :func:`run_controllers`, and raises at the end what it raised.
    """
    stop = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    raised: list[BaseException] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        await run_controllers(access, stop=stop, **options)

    def live() -> None:
        try:
            asyncio.run(run())
        # Whatever it is, it belongs to whoever started the thread.
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=live, name="controllers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if not loops:
            stop.set()
        else:
            with suppress(RuntimeError):  # it has ended by itself
                loops[0].call_soon_threadsafe(stop.set)
        await asyncio.to_thread(thread.join, 30.0)
    if raised:
        raise raised[0]


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.watching.reconnect_backoff = 1.0
    settings.process.ultimate_exiting_timeout = None
    # It reports every event that was handled as news.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor.observation").addFilter(_is_news)
    return settings


def _is_news(record: logging.LogRecord) -> bool:
    """Not that a dialect is not installed: hardly any cluster has them all."""
    return "Unresolved resources cannot be served" not in record.getMessage()


def _register_login(
    registry: kopf.OperatorRegistry, access: ApiServerConfig
) -> Collection[aiohttp.ClientSession]:
    """Let kopf in with our credentials; it asks again when the server has rejected them.

    Returns:
        The session in use, filled in later: kopf closes it only where it ends in good order.
    """
    given: list[str] = []
    sessions: list[aiohttp.ClientSession] = []

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        credentials = access.credentials
        if given and not await credentials.renew(given[-1]):
            raise kopf.TemporaryError("the credentials were rejected", delay=_LOGIN_RETRY)
        authorization = await credentials.authorization()
        given[:] = [authorization]
        headers = {"User-Agent": f"arranger-controllers/{__version__}"}
        if authorization:
            headers["Authorization"] = authorization
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=credentials.ssl_context()),
            headers=headers,
            proxy=access.proxy,
            read_bufsize=READ_BUFFER_BYTES,
        )
        sessions[:] = [session]
        return kopf.AiohttpSession(
            aiohttp_session=session, server=access.url, default_namespace=access.namespace
        )

    return sessions
