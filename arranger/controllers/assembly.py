"""All controllers, put together: who hears of what."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from arranger.api.types.command import COMMAND_API, Command
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import NativePodGroup
from arranger.api.types.tyjob import API_VERSION as TYJOB_API
from arranger.api.types.volcano_job import JOB_API
from arranger.controllers.gang.cache import API_VERSIONS, GANG_GROUP, NATIVE_GROUP, VOLCANO_GROUP
from arranger.controllers.gang.controller import GangController
from arranger.controllers.queue.controller import QueueController
from arranger.controllers.runtime.barrier import ObjectBarrier
from arranger.controllers.runtime.controller import ControllerOptions, Tasks
from arranger.controllers.runtime.events import EventBroadcaster
from arranger.controllers.runtime.informers import MultiNamespaceInformer, unstructured_informer
from arranger.controllers.runtime.objects import Object
from arranger.controllers.runtime.trimming import identity_of
from arranger.controllers.tyjob.controller import TYJobController
from arranger.controllers.vcjob.controller import JobController
from arranger.kube.client.transport import Transport
from arranger.kube.watch.trimming import trim


class Controllers:
    """The controllers of one process, and the informers that they share.

    Attributes:
        barrier: what is quarantined.
        synced: come once everything has been listed.
    """

    def __init__(self, transport: Transport, options: ControllerOptions) -> None:
        self._events = EventBroadcaster(transport, options, "barrier")
        self.barrier = ObjectBarrier(self._events.publish, options.metrics)
        options = replace(options, barrier=self.barrier)
        # Queues belong to no namespace: who does not see all pods cannot count what they use.
        queues = None if options.namespaces else QueueController(transport, options)
        admission = {} if queues is None else {"why_not_admitted": queues.admission.why_not}
        groups_read: list[asyncio.Event] = []
        gangs = GangController(
            transport,
            options,
            pod_groups_read=lambda: all(event.is_set() for event in groups_read),
            **admission,
        )
        jobs, tyjobs = JobController(transport, options), TYJobController(transport, options)
        self._controllers: list[GangController | JobController | TYJobController | QueueController]
        self._controllers = [gangs, jobs, tyjobs]
        pod_handlers, command_handlers = [gangs.pods], [jobs.commands]
        self._on_definition = [gangs.on_definition_event]
        if queues is not None:
            self._controllers.append(queues)
            pod_handlers.append(queues.pods)
            command_handlers.append(queues.commands)
            self._on_definition.append(queues.on_definition_event)
        make = partial(MultiNamespaceInformer[Any], transport, options)
        watch = partial(unstructured_informer, transport, options)
        pods = make("/api/v1", "pods", Pod, *pod_handlers, trim=trim, keep=identity_of)
        self._shared: list[MultiNamespaceInformer[Any]] = [
            pods,
            make(f"/apis/{COMMAND_API}", "commands", Command, *command_handlers, trim=trim),
            watch(JOB_API, "jobs", jobs.jobs),
            watch(TYJOB_API, "tyjobs", tyjobs.jobs),
        ]
        for group, handler in gangs.objects.items():
            handlers = [handler, jobs.pod_groups] if group == VOLCANO_GROUP else [handler]
            plural = "gangs" if group == GANG_GROUP else "podgroups"
            others = NativePodGroup.other_versions if group == NATIVE_GROUP else ()
            informer = watch(API_VERSIONS[group], plural, *handlers, other_versions=others)
            self._shared.append(informer)
            groups_read += informer.synced if group != GANG_GROUP else ()
        # A gang whose pods have not been read yet looks like one that has lost them.
        self._read_first = [*pods.synced, *(queues.synced if queues is not None else ())]
        self.synced: list[asyncio.Event] = [
            event for each in (*self._shared, *self._controllers) for event in each.synced
        ]

    def tasks(self) -> Tasks:
        """What has to run, each until cancelled."""
        started = (each.tasks(caches_synced=self._read_first) for each in self._controllers)
        shared = (informer.tasks() for informer in self._shared)
        return [self._events.run(), *chain.from_iterable(shared), *chain.from_iterable(started)]

    def on_definition_event(self, body: Object, deleted: bool) -> None:
        """A CustomResourceDefinition as the server shows it."""
        for handle in self._on_definition:
            handle(body, deleted)
        if deleted:
            return
        # What is not served is looked for as soon as its definition is installed.
        for informer in (*self._shared, *(i for c in self._controllers for i in c.informers)):
            if informer.definition == body["metadata"]["name"]:
                informer.on_definition_updated()
