"""``arranger controllers``: all controllers of a process, in one event loop with kopf."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import kopf
import structlog

from arranger.api.types.command import COMMAND_API, Command
from arranger.api.types.core import Pod
from arranger.controllers.gang.controller import GangController
from arranger.controllers.queue.controller import QueueController
from arranger.controllers.runtime.controller import (
    ControllerOptions,
    Resource,
    Tasks,
    WatchRegistry,
)
from arranger.controllers.runtime.informers import MultiNamespaceInformer
from arranger.controllers.runtime.kopf_operator import operator_settings, register_login
from arranger.controllers.tyjob.controller import TYJobController
from arranger.controllers.vcjob.controller import JobController
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.credentials import ApiServerConfig
from arranger.kube.client.problems import ProblemReporter, resource_name
from arranger.kube.client.rights_observer import RightsObserver
from arranger.kube.client.transport import Request, Transport, TransportError

log = structlog.get_logger(__name__)

#: Seconds after which the server is asked again what it serves.
DISCOVERY_RETRY: Final = 5.0


@dataclass(slots=True)
class Readiness:
    """Whether the controllers have read what they need, for probes."""

    unread: Sequence[asyncio.Event] | None = None

    def readiness_error(self) -> str | None:
        """What is missing, if anything."""
        if self.unread is None:
            return "not started yet"
        left = sum(not event.is_set() for event in self.unread)
        return f"{left} of {len(self.unread)} resources are not read yet" if left else None


async def run_controllers(
    config: ApiServerConfig, options: ControllerOptions, *, readiness: Readiness | None = None
) -> None:
    """Keep Gangs and PodGroups true, and run Jobs and TYJobs, until cancelled or a signal.

    In the main thread kopf takes SIGINT and SIGTERM, and this returns when one of them comes. Two
    processes at a time do no harm, because both write the same.

    A server that cannot be reached, or does not let us, is tried again until it does.

    Args:
        readiness: told what has to be read.

    Raises:
        Exception: kopf or a controller has failed.
    """
    namespaces = list(options.namespaces)
    log.info("controllers.starting", server=config.url, namespaces=namespaces or "all")
    transport = RightsObserver(HttpTransport(config), options.problems)
    tasks: list[asyncio.Task[Any]] = []
    telling: list[asyncio.Task[None]] = []
    try:
        registry = WatchRegistry()
        register_login(registry, config, options.problems)
        started, synced = _controllers(transport, registry, options)
        if readiness is not None:
            readiness.unread = synced
        tasks += map(asyncio.create_task, started)
        absent = _tell_absent(transport, registry.resources, options.problems)
        telling.append(asyncio.create_task(absent))
        # Not kopf.operator: at its end it cancels every task of the loop that is younger than it.
        tasks += await kopf.spawn_tasks(
            registry=registry,
            settings=operator_settings(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
        )
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        tasks += telling
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await transport.close()
    log.info("controllers.stopped")


def _controllers(
    transport: Transport, registry: WatchRegistry, options: ControllerOptions
) -> tuple[Tasks, list[asyncio.Event]]:
    """Put the controllers together; what has to run beside kopf, and what comes once all of that
    has been listed."""
    # Queues belong to no namespace: who does not see all pods cannot count what they use.
    queues = None if options.namespaces else QueueController(transport, options)
    admission = {} if queues is None else {"why_not_admitted": queues.admission.why_not}
    gangs = GangController(transport, options, **admission)
    jobs, tyjobs = JobController(transport, options), TYJobController(transport, options)
    controllers: list[GangController | JobController | TYJobController | QueueController]
    controllers = [gangs, jobs, tyjobs]
    pod_handlers, command_handlers = [gangs.pods], [jobs.commands]
    if queues is not None:
        controllers.append(queues)
        pod_handlers.append(queues.pods)
        command_handlers.append(queues.commands)
    pods = MultiNamespaceInformer(transport, options, "/api/v1", "pods", Pod, *pod_handlers)
    commands = MultiNamespaceInformer(
        transport, options, f"/apis/{COMMAND_API}", "commands", Command, *command_handlers
    )
    for controller in controllers:
        controller.register(registry)
    # A gang whose pods have not been read yet looks like one that has lost them.
    read = [*pods.synced, *(queues.synced if queues is not None else ())]
    started = (controller.tasks(caches_synced=read) for controller in controllers)
    synced = [*pods.synced, *(event for each in controllers for event in each.synced)]
    return [*pods.tasks(), *commands.tasks(), *chain.from_iterable(started)], synced


async def _tell_absent(
    transport: Transport, resources: Iterable[Resource], problems: ProblemReporter
) -> None:
    """Tell which of the resources that kopf watches are not served; that one is later, it notices
    by itself."""
    for group, version, plural in sorted(set(resources)):
        path = f"/apis/{group}/{version}"
        if not await _serves(transport, path, plural):
            problems.absent(resource_name(f"{path}/{plural}"))


async def _serves(transport: Transport, path: str, plural: str) -> bool:
    """Whether a group and version has a resource; waits for a server that does not tell."""
    while True:
        with suppress(TransportError):
            answer = await transport.send(Request("GET", path))
            if answer.status in (200, 404):
                return answer.status == 200 and f'"{plural}"'.encode() in answer.body
        await asyncio.sleep(DISCOVERY_RETRY)
