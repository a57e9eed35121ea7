"""The controllers of TYJobs and Jobs in a simulation, with kopf's part done by the store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from arranger.api.types.command import COMMAND_API, Command
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.informers import MultiNamespaceInformer
from arranger.controllers.tyjob.controller import TYJobController
from arranger.controllers.vcjob.controller import JobController
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.storage.store import Change
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now

Handler = Callable[[dict[str, Any], bool], None]


async def run_job_controllers(
    cluster: EmbeddedCluster, schedulers: Sequence[str], rng: random.Random
) -> None:
    """Run TYJobs and Jobs of ``batch.volcano.sh`` until cancelled, in virtual time."""
    transport = InProcessTransport(cluster, user="controllers")
    options = ControllerOptions(schedulers, rng=rng, now=virtual_now)
    jobs, tyjobs = JobController(transport, options), TYJobController(transport, options)
    commands = MultiNamespaceInformer(
        transport, options, f"/apis/{COMMAND_API}", "commands", Command, jobs.commands
    )
    handlers: Mapping[str, Handler] = {
        "scheduling.volcano.sh/podgroups": jobs.on_pod_group_event,
        "batch.volcano.sh/jobs": jobs.on_job_event,
        "arranger.io/tyjobs": tyjobs.on_tyjob_event,
    }
    loop = asyncio.get_running_loop()

    def tell(change: Change) -> None:
        if (handle := handlers.get(change.resource)) is not None:
            # Not while the write is under way that it tells of.
            loop.call_soon(handle, change.after, change.type == "DELETED")

    silence = cluster.store.subscribe(tell)
    try:
        async with asyncio.TaskGroup() as group:
            for task in (*jobs.tasks(), *tyjobs.tasks(), *commands.tasks()):
                group.create_task(task)
            for resource, handle in handlers.items():
                for obj in cluster.store.items(resource):
                    handle(obj, False)
    finally:
        silence()
