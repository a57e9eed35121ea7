"""The controller of Volcano's Jobs, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any

from arranger.api.annotations import JOB_NAME
from arranger.api.types.command import Command
from arranger.api.types.queue import QUEUE_API_VERSION, Queue
from arranger.api.types.volcano_job import JobPod
from arranger.controllers.runtime.commands import PendingCommands
from arranger.controllers.runtime.controller import ControllerOptions, Tasks
from arranger.controllers.runtime.events import EventBroadcaster
from arranger.controllers.runtime.informers import CacheHandler, MultiNamespaceInformer
from arranger.controllers.runtime.objects import LISTED, UnstructuredObject
from arranger.controllers.runtime.trimming import trim_owned
from arranger.controllers.runtime.work_queue import WorkQueue
from arranger.controllers.runtime.writer import Writer
from arranger.controllers.vcjob.cache import JobCache
from arranger.controllers.vcjob.commands import commanded_job
from arranger.controllers.vcjob.reconciler import JobReconciler
from arranger.kube.client.transport import Transport


class JobController:
    """Runs the Jobs of ``batch.volcano.sh`` whose scheduler is one of ours.

    Attributes:
        cache: what is known.
        work_queue: the jobs that are due.
        jobs: has to be told of all Jobs.
        pod_groups: has to be told of all PodGroups of ``scheduling.volcano.sh``.
        commands: has to be told of all Commands.
    """

    def __init__(self, transport: Transport, options: ControllerOptions) -> None:
        self.cache = cache = JobCache(options.schedulers)
        self.work_queue = WorkQueue(options, "job", cache.reference)
        self._events = EventBroadcaster(transport, options, "jobs")
        pods = CacheHandler[JobPod](
            cache.on_pod_updated,
            cache.on_pod_deleted,
            self.work_queue.enqueue,
            partial(cache.on_pod_updated, asked_at=LISTED),
        )
        self._pods = MultiNamespaceInformer(
            transport,
            options,
            "/api/v1",
            "pods",
            JobPod,
            pods,
            selector=JOB_NAME,
            trim=trim_owned,
        )
        # Queues belong to no namespace: who looks at some only leaves them to the scheduler.
        queues = CacheHandler[Queue](
            cache.on_queue_updated, cache.on_queue_deleted, self.work_queue.enqueue
        )
        api = f"/apis/{QUEUE_API_VERSION}"
        self.informers: list[MultiNamespaceInformer[Any]] = [self._pods]
        if not options.namespaces:
            self.informers.append(
                MultiNamespaceInformer(transport, options, api, "queues", Queue, queues)
            )
        enqueue = self.work_queue.enqueue
        self.jobs = CacheHandler[UnstructuredObject](
            cache.on_job_updated,
            lambda job: cache.on_job_deleted(job.key, job.metadata.uid),
            enqueue,
            partial(cache.on_job_updated, asked_at=LISTED),
        )
        self.pod_groups = CacheHandler[UnstructuredObject](
            cache.on_pod_group_updated,
            cache.on_pod_group_deleted,
            enqueue,
            partial(cache.on_pod_group_updated, asked_at=LISTED),
        )
        pending = PendingCommands(commanded_job)
        self.commands = CacheHandler[Command](
            pending.on_updated, pending.on_deleted, self.work_queue.enqueue, pending.on_listed
        )
        self._reconciler = JobReconciler(
            Writer(transport),
            cache,
            pending,
            self._events,
            self._pods.record,
            options.now,
            options.run_aside,
        )

    @property
    def synced(self) -> list[asyncio.Event]:
        """Come when what it reads by itself has been listed once."""
        return [event for each in self.informers for event in each.synced]

    def tasks(self, *, caches_synced: Iterable[asyncio.Event] = ()) -> Tasks:
        """What has to run beside the others, each until cancelled."""
        # A job whose pods have not been read yet looks like one that has lost them.
        synced = [*caches_synced, *self.synced]
        return [
            self.work_queue.run(self._reconciler.reconcile, caches_synced=synced),
            self._events.run(),
            *(task for each in self.informers for task in each.tasks()),
        ]
