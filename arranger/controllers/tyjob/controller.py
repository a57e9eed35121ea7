"""The controller of TYJobs, put together (``docs/design/tyjob.md``).

What TYJobs are made of comes through informers that see only what carries our label.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from arranger.api.annotations import TYJOB
from arranger.controllers.runtime.controller import ControllerOptions, Tasks
from arranger.controllers.runtime.events import EventBroadcaster
from arranger.controllers.runtime.informers import CacheHandler, MultiNamespaceInformer
from arranger.controllers.runtime.objects import LISTED, UnstructuredObject
from arranger.controllers.runtime.trimming import trim_owned
from arranger.controllers.runtime.work_queue import WorkQueue
from arranger.controllers.runtime.writer import Writer
from arranger.controllers.tyjob.cache import OWNED_KINDS, OwnedObject, TYJobCache
from arranger.controllers.tyjob.reconciler import TYJobReconciler
from arranger.controllers.tyjob.state_machine import TYJobPolicy
from arranger.kube.client.transport import Transport


class TYJobController:
    """Runs TYJobs.

    Attributes:
        cache: what is known.
        work_queue: the jobs that are due.
        jobs: has to be told of all TYJobs.
    """

    def __init__(self, transport: Transport, options: ControllerOptions) -> None:
        self.cache = cache = TYJobCache()
        self.work_queue = WorkQueue(options, "tyjob", cache.reference)
        self.jobs = CacheHandler[UnstructuredObject](
            cache.on_job_updated,
            lambda job: cache.on_job_deleted(job.key, job.metadata.uid),
            self.work_queue.enqueue,
            partial(cache.on_job_updated, asked_at=LISTED),
        )
        self._events = EventBroadcaster(transport, options, "tyjobs")
        self._informers: Mapping[str, MultiNamespaceInformer[Any]] = {
            plural: MultiNamespaceInformer(
                transport,
                options,
                "/api/v1",
                plural,
                kind,
                CacheHandler[OwnedObject](
                    partial(cache.on_owned_updated, plural),
                    partial(cache.on_owned_deleted, plural),
                    self.work_queue.enqueue,
                    partial(cache.on_owned_updated, plural, asked_at=LISTED),
                ),
                selector=TYJOB,
                trim=trim_owned,
            )
            for plural, kind in OWNED_KINDS.items()
        }
        self._reconciler = TYJobReconciler(
            Writer(transport),
            cache,
            self._events,
            lambda plural, owned: self._informers[plural].record(owned),
            TYJobPolicy(options.schedulers[0], options.scheduling_timeout),
            options.now,
            options.run_aside,
        )

    @property
    def informers(self) -> Sequence[MultiNamespaceInformer[Any]]:
        """Of what jobs are made of."""
        return list(self._informers.values())

    @property
    def synced(self) -> list[asyncio.Event]:
        """Come when what it reads by itself has been listed once."""
        return [event for each in self._informers.values() for event in each.synced]

    def tasks(self, *, caches_synced: Iterable[asyncio.Event] = ()) -> Tasks:
        """What has to run beside the others, each until cancelled."""
        # A job whose pods have not been read yet looks like one that has lost them.
        informers = self._informers.values()
        synced = [*caches_synced, *self.synced]
        return [
            self.work_queue.run(self._reconciler.reconcile, caches_synced=synced),
            self._events.run(),
            *(task for each in informers for task in each.tasks()),
        ]
