"""The controller of gangs: Gang objects, and the status of PodGroups of every dialect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import structlog

from arranger.api.parsing.errors import ParseError
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import NativePodGroup, VolcanoPodGroup
from arranger.controllers.gang.cache import (
    GANG_GROUP,
    GANG_VERSION,
    NATIVE_GROUP,
    POD_GROUP_KINDS,
    GangCache,
    GangObjectKey,
)
from arranger.controllers.gang.reconciler import GangReconciler
from arranger.controllers.runtime.controller import (
    DEFINITIONS,
    ControllerOptions,
    Tasks,
    WatchRegistry,
    status_fields,
    watch,
)
from arranger.controllers.runtime.informers import CacheHandler
from arranger.controllers.runtime.objects import Object
from arranger.controllers.runtime.work_queue import WorkQueue
from arranger.controllers.runtime.writer import Writer
from arranger.kube.client.transport import Transport

log = structlog.get_logger(__name__)

#: The definitions we write to. Those of scheduling.k8s.io are the API server's own.
_DEFINITIONS: Final = {
    f"gangs.{GANG_GROUP}": GANG_GROUP,
    **{f"podgroups.{group}": group for group in POD_GROUP_KINDS if group != NATIVE_GROUP},
}
#: By its name alone kopf finds a resource only in its group's preferred version, and that of
#: scheduling.k8s.io is the one of PriorityClass.
_WATCHED_VERSIONS: Final = {
    GANG_GROUP: (GANG_VERSION,),
    **{group: (kind.api_version.rpartition("/")[2],) for group, kind in POD_GROUP_KINDS.items()},
    NATIVE_GROUP: (NativePodGroup.api_version.rpartition("/")[2], *NativePodGroup.other_versions),
}


class GangController:
    """Keeps Gangs and PodGroups true to the pods.

    Args:
        why_not_admitted: why a PodGroup of Volcano may not have pods yet; "" if it may.

    Attributes:
        cache: what is known.
        work_queue: the gangs that are due.
        pods: has to be told of all pods. They come through an informer and not through kopf: they
            come by thousands a second, and kopf spends a third of a millisecond on each event, has
            a task for each object, and after a watch that had to start over does not say which
            pods are gone.
    """

    def __init__(
        self,
        transport: Transport,
        options: ControllerOptions,
        *,
        why_not_admitted: Callable[[VolcanoPodGroup], str] = lambda _: "",
    ) -> None:
        self.cache = cache = GangCache(
            options.schedulers,
            gang_wait_time=options.gang_wait_time,
            why_not_admitted=why_not_admitted,
        )
        self.work_queue = WorkQueue(options, "gang")
        self.pods = CacheHandler[Pod](
            cache.on_pod_updated,
            lambda pod: cache.on_pod_deleted(pod.metadata.uid),
            self.work_queue.enqueue,
        )
        self._reconciler = GangReconciler(Writer(transport), cache, self.work_queue, options.now)

    def register(self, registry: WatchRegistry) -> None:
        """Have kopf tell of Gangs, PodGroups, and the definitions that are installed."""
        watch(registry, DEFINITIONS, self.on_definition_event, id="gang.definition")
        for group, versions in _WATCHED_VERSIONS.items():
            plural = "gangs" if group == GANG_GROUP else "podgroups"
            for version in versions:
                handle = partial(self.on_object_event, group)
                watch(registry, (group, version, plural), handle, id=f"gang.{plural}")

    @property
    def synced(self) -> list[asyncio.Event]:
        """Come when what it reads beside kopf has been listed once."""
        return []

    def tasks(self, *, caches_synced: Iterable[asyncio.Event] = ()) -> Tasks:
        """What has to run beside kopf, each until cancelled."""
        return [self.work_queue.run(self._reconciler.reconcile, caches_synced=caches_synced)]

    def on_definition_event(self, body: Object, deleted: bool) -> None:
        """A CustomResourceDefinition as the server shows it."""
        group = _DEFINITIONS.get(body["metadata"]["name"])
        if group is None:
            return
        if deleted:
            self.cache.on_definition_deleted(group)
        else:
            self.work_queue.enqueue(self.cache.on_definition_updated(group, status_fields(body)))

    def on_object_event(self, group: str, body: Object, deleted: bool) -> None:
        """A Gang or PodGroup of an API group as the server shows it."""
        meta = body["metadata"]
        if deleted:
            key = GangObjectKey(group, f"{meta['namespace']}/{meta['name']}")
            self.work_queue.enqueue(self.cache.on_object_deleted(key, meta["uid"]))
            return
        try:
            self.work_queue.enqueue(self.cache.on_object_updated(group, body))
        except ParseError as error:
            log.warning("gang.bad_object", group=group, name=meta["name"], error=str(error))
