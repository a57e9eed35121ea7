"""The controllers of TYJobs and Jobs in a simulation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
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
from arranger.daemon.config.schema import Config
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now


class JobControllers:
    """Runs TYJobs and Jobs of ``batch.volcano.sh``, in virtual time.

    Args:
        cluster: where they are.
        config: the scheduler's, of which the controllers read the same as in a real cluster.
        rng: spreads time-outs and back-off.
    """

    def __init__(self, cluster: EmbeddedCluster, config: Config, rng: random.Random) -> None:
        self._transport = InProcessTransport(cluster, user="controllers")
        self._options = ControllerOptions(
            [profile.scheduler_name for profile in config.profiles],
            gang_wait_time=config.gangs.wait_time_seconds,
            command_namespaces=config.queues.command_namespaces,
            scheduling_timeout=config.tyjobs.scheduling_timeout_seconds,
            rng=rng,
            now=virtual_now,
            run_aside=at_once,
        )
        self._jobs = JobController(self._transport, self._options)
        self._tyjobs = TYJobController(self._transport, self._options)

    @property
    def idle(self) -> bool:
        """Whether nothing is due, now or later, but to try again what has failed."""
        return self._jobs.work_queue.is_settled and self._tyjobs.work_queue.is_settled

    async def run(self) -> None:
        """Work until cancelled."""
        transport, options = self._transport, self._options
        jobs, tyjobs = self._jobs, self._tyjobs
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
