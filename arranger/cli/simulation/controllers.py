"""The controllers of TYJobs and Jobs in a simulation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from arranger.api.types.command import COMMAND_API, Command
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.tyjob import API_VERSION as TYJOB_API
from arranger.api.types.volcano_job import JOB_API
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.informers import (
    CacheHandler,
    MultiNamespaceInformer,
    unstructured_informer,
)
from arranger.controllers.runtime.objects import UnstructuredObject
from arranger.controllers.runtime.worker_thread import at_once
from arranger.controllers.tyjob.controller import TYJobController
from arranger.controllers.vcjob.controller import JobController
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now


async def run_job_controllers(
    cluster: EmbeddedCluster, schedulers: Sequence[str], rng: random.Random
) -> None:
    """Run TYJobs and Jobs of ``batch.volcano.sh`` until cancelled, in virtual time."""
    transport = InProcessTransport(cluster, user="controllers")
    options = ControllerOptions(schedulers, rng=rng, now=virtual_now, run_aside=at_once)
    jobs, tyjobs = JobController(transport, options), TYJobController(transport, options)
    commands = MultiNamespaceInformer(
        transport, options, f"/apis/{COMMAND_API}", "commands", Command, jobs.commands
    )
    watched: Mapping[str, tuple[str, CacheHandler[UnstructuredObject]]] = {
        VolcanoPodGroup.api_version: ("podgroups", jobs.pod_groups),
        JOB_API: ("jobs", jobs.jobs),
        TYJOB_API: ("tyjobs", tyjobs.jobs),
    }
    informers: list[MultiNamespaceInformer[Any]] = [commands]
    for api, (plural, handler) in watched.items():
        informers.append(unstructured_informer(transport, options, api, plural, handler))
    tasks = chain.from_iterable(informer.tasks() for informer in informers)
    async with asyncio.TaskGroup() as group:
        for task in (*jobs.tasks(), *tyjobs.tasks(), *tasks):
            group.create_task(task)
