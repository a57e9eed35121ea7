"""The controller of Volcano's Jobs: kopf tells of Jobs and PodGroups, an informer of their pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import structlog

from arranger.api import event_reasons
from arranger.api.annotations import JOB_NAME
from arranger.api.effects import ObjectReference
from arranger.api.parsing.errors import ParseError
from arranger.api.types.command import Command
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.queue import QUEUE_API_VERSION, Queue
from arranger.api.types.volcano_job import JOB_API, JOB_GROUP, JOB_VERSION, JobPod
from arranger.controllers.runtime.commands import PendingCommands
from arranger.controllers.runtime.controller import ControllerOptions, Tasks, WatchRegistry, watch
from arranger.controllers.runtime.events import EventBroadcaster
from arranger.controllers.runtime.informers import CacheHandler, MultiNamespaceInformer
from arranger.controllers.runtime.objects import Object
from arranger.controllers.runtime.work_queue import WorkQueue
from arranger.controllers.runtime.writer import Writer
from arranger.controllers.vcjob.cache import JobCache
from arranger.controllers.vcjob.commands import commanded_job
from arranger.controllers.vcjob.reconciler import JobReconciler
from arranger.kube.client.transport import Transport

log = structlog.get_logger(__name__)


class JobController:
    """Runs the Jobs of ``batch.volcano.sh`` whose scheduler is one of ours.

    Attributes:
        cache: what is known.
        work_queue: the jobs that are due.
        commands: has to be told of all Commands.
    """

    def __init__(self, transport: Transport, options: ControllerOptions) -> None:
        self.cache = cache = JobCache(options.schedulers)
        self.work_queue = WorkQueue(options, "job")
        self._events = EventBroadcaster(transport, options, "jobs")
        pods = CacheHandler(cache.on_pod_updated, cache.on_pod_deleted, self.work_queue.enqueue)
        self._pods = MultiNamespaceInformer(
            transport, options, "/api/v1", "pods", JobPod, pods, selector=JOB_NAME
        )
        # Queues belong to no namespace: who looks at some only leaves them to the scheduler.
        queues = CacheHandler[Queue](
            cache.on_queue_updated, cache.on_queue_deleted, self.work_queue.enqueue
        )
        api = f"/apis/{QUEUE_API_VERSION}"
        self._informers: list[MultiNamespaceInformer[Any]] = [self._pods]
        if not options.namespaces:
            self._informers.append(
                MultiNamespaceInformer(transport, options, api, "queues", Queue, queues)
            )
        pending = PendingCommands(commanded_job)
        self.commands = CacheHandler[Command](
            pending.on_updated, pending.on_deleted, self.work_queue.enqueue
        )
        self._reconciler = JobReconciler(
            Writer(transport), cache, pending, self._events, self._pods.record, options.now
        )

    def register(self, registry: WatchRegistry) -> None:
        """Have kopf tell of Jobs and PodGroups."""
        group, version = VolcanoPodGroup.api_version.split("/")
        watch(registry, (JOB_GROUP, JOB_VERSION, "jobs"), self.on_job_event, id="job")
        watch(registry, (group, version, "podgroups"), self.on_pod_group_event, id="job.podgroups")

    @property
    def synced(self) -> list[asyncio.Event]:
        """Come when what it reads beside kopf has been listed once."""
        return [event for each in self._informers for event in each.synced]

    def tasks(self, *, caches_synced: Iterable[asyncio.Event] = ()) -> Tasks:
        """What has to run beside kopf, each until cancelled."""
        # A job whose pods have not been read yet looks like one that has lost them.
        synced = [*caches_synced, *self.synced]
        return [
            self.work_queue.run(self._reconciler.reconcile, caches_synced=synced),
            self._events.run(),
            *(task for each in self._informers for task in each.tasks()),
        ]

    def on_job_event(self, body: Object, deleted: bool) -> None:
        """A Job as the server shows it."""
        meta = body["metadata"]
        name = f"{meta['namespace']}/{meta['name']}"
        if deleted:
            self.cache.on_job_deleted(name, meta["uid"])
            return
        try:
            self.work_queue.enqueue(self.cache.on_job_updated(body))
        except ParseError as error:
            # Another definition than ours may let it pass.
            log.warning("job.bad_object", job=name, error=str(error))
            about = ObjectReference(JOB_API, "Job", meta["namespace"], meta["name"], meta["uid"])
            self._events.record(about, event_reasons.INVALID_JOB, str(error), warning=True)

    def on_pod_group_event(self, body: Object, deleted: bool) -> None:
        """A PodGroup as the server shows it."""
        take = self.cache.on_pod_group_deleted if deleted else self.cache.on_pod_group_updated
        try:
            self.work_queue.enqueue(take(body))
        except ParseError as error:
            log.warning("job.bad_pod_group", name=body["metadata"]["name"], error=str(error))
