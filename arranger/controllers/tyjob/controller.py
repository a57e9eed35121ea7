"""The controller of TYJobs, put together (``docs/design/tyjob.md``).

TYJobs come through kopf, as everything that people write does. What they are made of comes through
informers, which see only what carries our label.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from arranger.api.annotations import TYJOB
from arranger.controllers.runtime.controller import ControllerOptions, Tasks, WatchRegistry, watch
from arranger.controllers.runtime.events import EventBroadcaster
from arranger.controllers.runtime.informers import CacheHandler, MultiNamespaceInformer
from arranger.controllers.runtime.objects import Object
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
    """

    def __init__(self, transport: Transport, options: ControllerOptions) -> None:
        self.cache = cache = TYJobCache()
        self.work_queue = WorkQueue(options, "tyjob")
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
                ),
                selector=TYJOB,
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
        )

    def register(self, registry: WatchRegistry) -> None:
        """Have kopf tell of TYJobs."""
        resource = ("arranger.io", "v1alpha1", "tyjobs")
        watch(registry, resource, self.on_tyjob_event, id="tyjob")

    @property
    def synced(self) -> list[asyncio.Event]:
        """Come when what it reads beside kopf has been listed once."""
        return [event for each in self._informers.values() for event in each.synced]

    def tasks(self, *, caches_synced: Iterable[asyncio.Event] = ()) -> Tasks:
        """What has to run beside kopf, each until cancelled."""
        # A job whose pods have not been read yet looks like one that has lost them.
        informers = self._informers.values()
        synced = [*caches_synced, *self.synced]
        return [
            self.work_queue.run(self._reconciler.reconcile, caches_synced=synced),
            self._events.run(),
            *(task for each in informers for task in each.tasks()),
        ]

    def on_tyjob_event(self, body: Object, deleted: bool) -> None:
        """A TYJob as the server shows it."""
        if deleted:
            meta = body["metadata"]
            self.cache.on_job_deleted(f"{meta['namespace']}/{meta['name']}", meta["uid"])
        else:
            self.work_queue.enqueue(self.cache.on_job_updated(body))
