"""Writes what the cache finds wrong about a gang: its Gang object, and its PodGroups' status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog

from arranger.api.effects import ObjectReference
from arranger.api.parsing.objects import decode_object
from arranger.api.timestamps import second_time
from arranger.controllers.gang.cache import (
    GANG_GROUP,
    GANG_VERSION,
    GangCache,
    ObjectChange,
    ObservedObject,
)
from arranger.controllers.runtime.barrier import ObjectBarrier
from arranger.controllers.runtime.objects import Object, UnstructuredObject
from arranger.controllers.runtime.work_queue import Result, WorkQueue
from arranger.controllers.runtime.worker_thread import RunAside
from arranger.controllers.runtime.writer import StatusError, Writer
from arranger.gangs.gang_object import gang_manifest, gangs_path
from arranger.kube.client.transport import TransportError

log = structlog.get_logger(__name__)

#: Seconds until a PodGroup that is not admitted, or a Gang that stays until all PodGroups have been
#: listed, is looked at again.
RETRY: Final = 5.0


@dataclass(frozen=True, slots=True)
class GangReconciler:
    """Makes Gangs and PodGroups what the cache says.

    Attributes:
        now: the calendar clock.
        barrier: tells owners what the server refuses.
    """

    writer: Writer
    cache: GangCache
    work_queue: WorkQueue
    now: Callable[[], datetime]
    run_aside: RunAside
    barrier: ObjectBarrier
    #: Gang → a write about it of which nobody knows whether it is done.
    _doubtful: dict[str, ObjectChange] = field(default_factory=dict, init=False)

    async def reconcile(self, name: str) -> Result | float:
        """Write what is to be written about one gang."""
        with self.cache.tombstones.kept(name):
            return await self._reconcile(name)

    async def _reconcile(self, name: str) -> Result | float:
        if (doubtful := self._doubtful.get(name)) is not None:
            # It may show only when there is no pod left, by which to tell that it was ours.
            await self._refresh(doubtful)
            self._doubtful.pop(name, None)
        summarizer, size = self.cache.summarizer(name)
        summary = await self.run_aside(summarizer, size=size)
        for change in self.cache.changes(name, second_time(self.now()), summary):
            try:
                await self._write(change)
            except TransportError:
                self._doubt(name, change)
                raise
            except StatusError as error:
                if error.code >= 500:
                    self._doubt(name, change)
                if error.conflict:
                    await self._refresh(change)
                    return Result.REQUEUE
                if error.not_found and (changed := self._gone(change)):
                    self.work_queue.enqueue(changed)
                    return Result.REQUEUE
                write = log.debug if error.unauthorized else log.warning
                write("gang.write_refused", path=_path(change), error=str(error))
                if not error.invalid:
                    return Result.BACKOFF
                if change.observed is not None:
                    self.barrier.on_refused(_reference(change, change.observed), error.message)
        if not size:  # else the last pod may have gone since, and that is not written
            self.cache.mark_written(name)
        return RETRY if self.cache.waits(name) else Result.DONE

    async def _write(self, change: ObjectChange) -> None:
        observed = change.observed
        if observed is None:
            await self._create(change)
        elif change.delete:
            await self.writer.delete(_path(change), uid=observed.metadata.uid)
            self.cache.on_object_deleted(change.key, observed.metadata.uid)
            return
        elif change.spec:
            await self._patch(change, "", {"spec": change.spec})
        if change.status:
            await self._patch(change, "/status", {"status": change.status})

    async def _create(self, change: ObjectChange) -> None:
        manifest = gang_manifest(change.key.name, change.spec, managed_by=self.cache.managed_by)
        collection = gangs_path(change.key.name.partition("/")[0])
        self._observe(change, await self.writer.create(collection, manifest))

    async def _patch(self, change: ObjectChange, subresource: str, patch: Object) -> None:
        version = ""
        if change.observed is not None and "conditions" in change.status:
            # A list is replaced whole: nobody else's condition may get lost by that.
            version = change.observed.metadata.resource_version
        path = _path(change) + subresource
        self._observe(change, await self.writer.patch(path, patch, resource_version=version))

    def _doubt(self, name: str, change: ObjectChange) -> None:
        if change.observed is not None:
            self._doubtful[name] = change

    async def _refresh(self, change: ObjectChange) -> None:
        """Somebody was faster: take in what is there, and start from it."""
        try:
            self._observe(change, await self.writer.get(_path(change)))
        except StatusError as error:
            if error.not_found:
                self.work_queue.enqueue(self._gone(change))
            elif error.code >= 500:
                raise

    def _gone(self, change: ObjectChange) -> set[str]:
        """There is no object of the name: the one that was known is gone."""
        known = change.observed
        return self.cache.on_object_deleted(change.key, known.metadata.uid) if known else set()

    def _observe(self, change: ObjectChange, body: bytes) -> None:
        obj = decode_object(body, UnstructuredObject)
        asked_at = change.observed.metadata.resource_version if change.observed else ""
        self.work_queue.enqueue(
            self.cache.on_object_updated(change.key.group, obj, asked_at=asked_at)
        )


def _reference(change: ObjectChange, observed: ObservedObject) -> ObjectReference:
    kind, meta = "Gang" if change.key.group == GANG_GROUP else "PodGroup", observed.metadata
    return ObjectReference(observed.api_version, kind, meta.namespace, meta.name, meta.uid)


def _path(change: ObjectChange) -> str:
    namespace, _, name = change.key.name.partition("/")
    plural = "gangs" if change.key.group == GANG_GROUP else "podgroups"
    version = change.observed.version if change.observed is not None else GANG_VERSION
    return f"/apis/{change.key.group}/{version}/namespaces/{namespace}/{plural}/{name}"
