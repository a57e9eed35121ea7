"""The controller of the status of Queues: what of them is in use, and what is wrong with them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from arranger.api.types.command import Command
from arranger.api.types.core import Namespace, Node, Pod
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.queue import QUEUE_API_VERSION
from arranger.controllers.queue.admission import PodGroupAdmission
from arranger.controllers.queue.cache import QueueCache
from arranger.controllers.queue.commands import commanded_queue
from arranger.controllers.queue.entries import ObservedQueue
from arranger.controllers.queue.reconciler import QueueReconciler
from arranger.controllers.runtime.commands import PendingCommands
from arranger.controllers.runtime.controller import (
    ControllerOptions,
    Tasks,
    status_fields,
)
from arranger.controllers.runtime.events import EventBroadcaster
from arranger.controllers.runtime.informers import CacheHandler, MultiNamespaceInformer
from arranger.controllers.runtime.objects import LISTED, Object
from arranger.controllers.runtime.trimming import identity_of
from arranger.controllers.runtime.work_queue import WorkQueue
from arranger.controllers.runtime.writer import Writer
from arranger.kube.client.transport import Transport
from arranger.kube.watch.trimming import trim

_DEFINITION: Final = "queues.scheduling.volcano.sh"


class QueueController:
    """Keeps the status of Queues; only for controllers that look everywhere.

    Attributes:
        cache: what is known.
        work_queue: the queues that are due.
        pods: has to be told of the pods of all namespaces, for queues belong to none.
        commands: has to be told of all Commands.
        admission: whether PodGroups may have pods.
    """

    def __init__(self, transport: Transport, options: ControllerOptions) -> None:
        self.cache = cache = QueueCache(options.schedulers)
        self.admission = PodGroupAdmission(cache)
        self.work_queue = WorkQueue(options, "queue", cache.reference)
        self._events = EventBroadcaster(transport, options, "queues")
        enqueue = self.work_queue.enqueue
        self.pods = CacheHandler[Pod](
            cache.on_pod_updated, lambda pod: cache.on_pod_deleted(pod.metadata.uid), enqueue
        )
        queues = CacheHandler[ObservedQueue](
            cache.on_queue_updated,
            lambda queue: cache.on_queue_deleted(queue.name),
            enqueue,
            partial(cache.on_queue_updated, asked_at=LISTED),
        )
        nodes = CacheHandler[Node](
            cache.on_node_updated, lambda node: cache.on_node_deleted(node.metadata.name), enqueue
        )
        groups = CacheHandler[VolcanoPodGroup](
            cache.on_pod_group_updated, lambda g: cache.on_pod_group_deleted(g.key), enqueue
        )
        namespaces = CacheHandler[Namespace](
            cache.on_namespace_updated,
            lambda namespace: cache.on_namespace_deleted(namespace.metadata.name),
            enqueue,
        )
        api, core = f"/apis/{QUEUE_API_VERSION}", "/api/v1"
        self.informers: list[MultiNamespaceInformer[Any]] = [
            MultiNamespaceInformer(transport, options, api, "queues", ObservedQueue, queues),
            MultiNamespaceInformer(transport, options, core, "nodes", Node, nodes),
            MultiNamespaceInformer(
                transport, options, core, "namespaces", Namespace, namespaces, trim=trim
            ),
            MultiNamespaceInformer(
                transport,
                options,
                api,
                "podgroups",
                VolcanoPodGroup,
                groups,
                trim=trim,
                keep=identity_of,
            ),
        ]
        pending = PendingCommands(
            partial(commanded_queue, namespaces=tuple(options.command_namespaces))
        )
        self.commands = CacheHandler[Command](
            pending.on_updated, pending.on_deleted, enqueue, pending.on_listed
        )
        self._reconciler = QueueReconciler(
            Writer(transport), cache, pending, self._events, self.work_queue, options.now
        )

    @property
    def synced(self) -> list[asyncio.Event]:
        """Come when what it reads by itself has been listed once."""
        return [event for each in self.informers for event in each.synced]

    def tasks(self, *, caches_synced: Iterable[asyncio.Event] = ()) -> Tasks:
        """What has to run beside the others, each until cancelled."""
        synced = [*caches_synced, *self.synced]
        return [
            self.work_queue.run(self._reconciler.reconcile, caches_synced=synced),
            self._events.run(),
            *(task for each in self.informers for task in each.tasks()),
        ]

    def on_definition_event(self, body: Object, deleted: bool) -> None:
        """A CustomResourceDefinition as the server shows it."""
        if body["metadata"]["name"] != _DEFINITION:
            return
        if deleted:
            self.cache.on_definition_deleted()
        else:
            self.work_queue.enqueue(self.cache.on_definition_updated(status_fields(body)))
