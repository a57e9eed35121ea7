"""``arranger controllers``: all controllers of a process, in one event loop with kopf."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Any, Final

import aiohttp
import kopf
import structlog

from arranger import __version__
from arranger.api.types.core import Pod
from arranger.controllers.gang.controller import GangController
from arranger.controllers.queue.controller import QueueController
from arranger.controllers.runtime.controller import ControllerOptions, Tasks
from arranger.controllers.runtime.informers import MultiNamespaceInformer
from arranger.controllers.tyjob.controller import TYJobController
from arranger.controllers.vcjob.controller import JobController
from arranger.kube.client.aiohttp_transport import READ_BUFFER_BYTES, HttpTransport
from arranger.kube.client.credentials import ApiServerConfig
from arranger.kube.client.transport import Transport

log = structlog.get_logger(__name__)

#: Seconds between two logins after the server has rejected what we have.
_LOGIN_RETRY: Final = 10.0


async def run_controllers(
    config: ApiServerConfig, options: ControllerOptions, *, liveness: str | None = None
) -> None:
    """Keep Gangs and PodGroups true, and run Jobs and TYJobs, until cancelled or a signal.

    In the main thread kopf takes SIGINT and SIGTERM, and this returns when one of them comes. Two
    processes at a time do no harm, because both write the same.

    Args:
        liveness: where to answer probes, ``http://0.0.0.0:8080/healthz`` for example.

    Raises:
        Exception: the API server could not be reached at all, or kopf or a controller has failed.
    """
    namespaces = list(options.namespaces)
    log.info("controllers.starting", server=config.url, namespaces=namespaces or "all")
    transport = HttpTransport(config)
    tasks: list[asyncio.Task[Any]] = []
    try:
        registry = kopf.OperatorRegistry()
        _register_login(registry, config)
        tasks += map(asyncio.create_task, _controllers(transport, registry, options))
        # Not kopf.operator: at its end it cancels every task of the loop that is younger than it.
        tasks += await kopf.spawn_tasks(
            registry=registry,
            settings=_settings(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            liveness_endpoint=liveness,
        )
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await transport.close()
    log.info("controllers.stopped")


def _controllers(
    transport: Transport, registry: kopf.OperatorRegistry, options: ControllerOptions
) -> Tasks:
    """Put the controllers together; what has to run beside kopf."""
    gangs = GangController(transport, options)
    jobs, tyjobs = JobController(transport, options), TYJobController(transport, options)
    controllers: list[GangController | JobController | TYJobController | QueueController]
    controllers = [gangs, jobs, tyjobs]
    pod_handlers = [gangs.pods]
    # Queues belong to no namespace: who does not see all pods cannot count what they use.
    if not options.namespaces:
        queues = QueueController(transport, options)
        controllers.append(queues)
        pod_handlers.append(queues.pods)
    pods = MultiNamespaceInformer(transport, options, "/api/v1", "pods", Pod, *pod_handlers)
    for controller in controllers:
        controller.register(registry)
    # A gang whose pods have not been read yet looks like one that has lost them.
    started = (controller.tasks(caches_synced=pods.synced) for controller in controllers)
    return [*pods.tasks(), *chain.from_iterable(started)]


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.watching.reconnect_backoff = 1.0
    settings.process.ultimate_exiting_timeout = None
    return settings


def _register_login(registry: kopf.OperatorRegistry, config: ApiServerConfig) -> None:
    """Let kopf in with our credentials; it asks again when the server has rejected them."""
    given: list[str] = []

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        credentials = config.credentials
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
            proxy=config.proxy,
            read_bufsize=READ_BUFFER_BYTES,
        )
        return kopf.AiohttpSession(
            aiohttp_session=session, server=config.url, default_namespace=config.namespace
        )
