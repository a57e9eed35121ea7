"""``arranger controllers``: all controllers of a process, in one event loop with kopf."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import kopf
import structlog

from arranger.controllers.assembly import Controllers
from arranger.controllers.runtime.controller import ControllerOptions, watch_definitions
from arranger.controllers.runtime.kopf_operator import operator_settings, register_login
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.credentials import ApiServerConfig
from arranger.kube.client.rights_observer import RightsObserver

log = structlog.get_logger(__name__)

#: Seconds that the parts have to end.
_END_WITHIN: Final = 5.0


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

    In the main thread it takes SIGINT and SIGTERM, and returns when one of them comes. Two
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
    try:
        registry = kopf.OperatorRegistry()
        register_login(registry, config, options.problems)
        controllers = Controllers(transport, options)
        if readiness is not None:
            readiness.unread = controllers.synced
        watch_definitions(registry, controllers.on_definition_event)
        tasks += map(asyncio.create_task, controllers.tasks())
        # Not kopf.operator: at its end it cancels every task of the loop that is younger than it.
        tasks += await kopf.spawn_tasks(
            registry=registry,
            settings=operator_settings(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
        )
        tasks.append(asyncio.create_task(_until_signalled()))
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            # kopf has parts that do not end when it has failed.
            await asyncio.wait(tasks, timeout=_END_WITHIN)
        await transport.close()
    log.info("controllers.stopped")


async def _until_signalled() -> None:
    """Wait for SIGINT or SIGTERM, where those can be heard."""
    signalled, loop = asyncio.Event(), asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():
        # In place of kopf's handlers, which serve a kopf that is well.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, signalled.set)
    await signalled.wait()
