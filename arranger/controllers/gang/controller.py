"""The controller of gangs: Gang objects, and the status of PodGroups of every dialect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.controllers.gang.cache import (
    GANG_GROUP,
    NATIVE_GROUP,
    POD_GROUP_KINDS,
    GangCache,
    GangObjectKey,
)
from arranger.controllers.gang.reconciler import GangReconciler
from arranger.controllers.runtime.controller import (
    ControllerOptions,
    Tasks,
    status_fields,
)
from arranger.controllers.runtime.informers import CacheHandler, MultiNamespaceInformer
from arranger.controllers.runtime.objects import LISTED, Object, UnstructuredObject
from arranger.controllers.runtime.work_queue import WorkQueue
from arranger.controllers.runtime.writer import Writer
from arranger.kube.client.transport import Transport

#: The definitions we write to. Those of scheduling.k8s.io are the API server's own.
_DEFINITIONS: Final = {
    f"gangs.{GANG_GROUP}": GANG_GROUP,
    **{f"podgroups.{group}": group for group in POD_GROUP_KINDS if group != NATIVE_GROUP},
}


class GangController:
    """Keeps Gangs and PodGroups true to the pods.

    Args:
        why_not_admitted: why a PodGroup of Volcano may not have pods yet; "" if it may.
        pod_groups_read: whether all PodGroups have been listed once.

    Attributes:
        cache: what is known.
        work_queue: the gangs that are due.
        pods: has to be told of all pods.
        objects: API group → has to be told of its Gangs or PodGroups.
    """

    def __init__(
        self,
        transport: Transport,
        options: ControllerOptions,
        *,
        why_not_admitted: Callable[[VolcanoPodGroup], str] = lambda _: "",
        pod_groups_read: Callable[[], bool] = lambda: True,
    ) -> None:
        self.cache = cache = GangCache(
            options.schedulers,
            gang_wait_time=options.gang_wait_time,
            why_not_admitted=why_not_admitted,
            pod_groups_read=pod_groups_read,
        )
        self.work_queue = WorkQueue(options, "gang", cache.reference)
        self.pods = CacheHandler[Pod](
            cache.on_pod_updated,
            lambda pod: cache.on_pod_deleted(pod.metadata.uid),
            self.work_queue.enqueue,
        )
        self.objects = {
            group: CacheHandler[UnstructuredObject](
                partial(cache.on_object_updated, group),
                partial(self._on_object_deleted, group),
                self.work_queue.enqueue,
                partial(cache.on_object_updated, group, asked_at=LISTED),
            )
            for group in (GANG_GROUP, *POD_GROUP_KINDS)
        }
        self._reconciler = GangReconciler(
            Writer(transport),
            cache,
            self.work_queue,
            options.now,
            options.run_aside,
            options.barrier,
        )

    @property
    def informers(self) -> Sequence[MultiNamespaceInformer[Any]]:
        """Those of its own: it has none."""
        return ()

    @property
    def synced(self) -> list[asyncio.Event]:
        """Come when what its own informers read has been listed once."""
        return []

    def tasks(self, *, caches_synced: Iterable[asyncio.Event] = ()) -> Tasks:
        """What has to run beside the others, each until cancelled."""
        return [self.work_queue.run(self._reconciler.reconcile, caches_synced=caches_synced)]

    def _on_object_deleted(self, group: str, obj: UnstructuredObject) -> set[str]:
        return self.cache.on_object_deleted(GangObjectKey(group, obj.key), obj.metadata.uid)

    def on_definition_event(self, body: Object, deleted: bool) -> None:
        """A CustomResourceDefinition as the server shows it."""
        group = _DEFINITIONS.get(body["metadata"]["name"])
        if group is None:
            return
        if deleted:
            self.cache.on_definition_deleted(group)
        else:
            self.work_queue.enqueue(self.cache.on_definition_updated(group, status_fields(body)))
