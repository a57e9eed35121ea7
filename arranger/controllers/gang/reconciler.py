"""Brings gangs in line one at a time, soon after they change and not at every change."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import Enum
from typing import Any, Final

import msgspec
import structlog

from arranger.controllers.gang.cache import (
    GANG_GROUP,
    GANG_VERSION,
    MANAGED_BY,
    GangCache,
    GangObjectKey,
    ObjectChange,
)
from arranger.controllers.runtime.work_queue import Result, WorkQueue
from arranger.kube.client.status import parse_status
from arranger.kube.client.timestamps import second_time, utc_now
from arranger.kube.client.transport import Request, Response, Transport, TransportError

log = structlog.get_logger(__name__)

Object = dict[str, Any]

_MERGE: Final = "application/merge-patch+json"


class WriteResult(Enum):
    """What became of a change."""

    DONE = "done"
    STALE = "stale"  # the server had something else than we thought; now we know
    REFUSED = "refused"  # and will be, until something changes
    FAILED = "failed"  # for now


class GangReconciler:
    """Makes objects what the ledger says.

    Args:
        quiet: seconds to wait after the first change of a gang for more of them; so a gang costs
            two writes an object in a second at most, however large it is.
        now: the calendar clock.

    Attributes:
        work_queue: whose turn it is.
    """

    def __init__(
        self,
        transport: Transport,
        cache: GangCache,
        *,
        debounce: float = 0.5,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._transport = transport
        self._cache = cache
        self._now = now
        self.work_queue = WorkQueue(self._reconcile, debounce=debounce, rng=rng or random.Random())

    async def run(self, *, caches_synced: Iterable[asyncio.Event] = ()) -> None:
        """Write until cancelled, once all these events have come."""
        await self.work_queue.run(caches_synced=caches_synced)

    def enqueue(self, names: Iterable[str]) -> None:
        """Look at these gangs soon; one whose writes fail waits for its next try."""
        self.work_queue.enqueue(names)

    async def _reconcile(self, name: str) -> Result:
        for change in self._cache.changes(name, second_time(self._now())):
            result = await self._write(change)
            if result is WriteResult.STALE:
                return Result.REQUEUE
            if result is WriteResult.FAILED:
                return Result.BACKOFF
        self._cache.mark_written(name)
        return Result.DONE

    # --- writing ---------------------------------------------------------------------------

    async def _write(self, change: ObjectChange) -> WriteResult:
        if change.observed is None:
            result = await self._create(change)
        elif change.delete:
            body: Object = {"preconditions": {"uid": change.observed.uid}}
            result = await self._send("DELETE", change.key, _path(change), body)
        else:
            result = WriteResult.DONE
            if change.spec:
                result = await self._patch(change, "", {"spec": change.spec})
        if result is WriteResult.DONE and change.status and not change.delete:
            result = await self._patch(change, "/status", {"status": change.status})
        return result

    async def _create(self, change: ObjectChange) -> WriteResult:
        namespace, _, name = change.key.name.partition("/")
        body = {
            "apiVersion": f"{GANG_GROUP}/{GANG_VERSION}",
            "kind": "Gang",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {MANAGED_BY: self._cache.managed_by},
            },
            "spec": {key: value for key, value in change.spec.items() if value is not None},
        }
        collection = f"/apis/{GANG_GROUP}/{GANG_VERSION}/namespaces/{namespace}/gangs"
        return await self._send("POST", change.key, collection, body)

    async def _patch(self, change: ObjectChange, subresource: str, patch: Object) -> WriteResult:
        if change.observed is not None and "conditions" in change.status:
            # A list is replaced whole: nobody else's condition may get lost by that.
            patch["metadata"] = {"resourceVersion": change.observed.resource_version}
        return await self._send("PATCH", change.key, _path(change) + subresource, patch)

    async def _send(self, method: str, key: GangObjectKey, path: str, body: Object) -> WriteResult:
        content_type = _MERGE if method == "PATCH" else "application/json"
        encoded = msgspec.json.encode(body)
        try:
            answer = await self._transport.send(
                Request(method, path, body=encoded, content_type=content_type)
            )
            if answer.status == 409:
                # Somebody was faster: look, and start from what is there.
                object_path = path.removesuffix("/status")
                if method == "POST":
                    object_path += f"/{body['metadata']['name']}"
                answer = await self._transport.send(Request("GET", object_path))
                self._observe(key, answer)
                return WriteResult.STALE
            return self._classify(method, key, path, answer)
        except (TransportError, msgspec.MsgspecError) as error:
            log.info("gang.write_failed", path=path, error=str(error))
            return WriteResult.FAILED

    def _classify(
        self, method: str, key: GangObjectKey, path: str, answer: Response
    ) -> WriteResult:
        if answer.status == 404 and method != "POST":
            self.enqueue(self._cache.on_object_deleted(key))
            return WriteResult.DONE if method == "DELETE" else WriteResult.STALE
        if answer.status < 300:
            if method == "DELETE":
                self._cache.on_object_deleted(key)
            else:
                self._observe(key, answer)
            return WriteResult.DONE
        status = parse_status(answer.body, answer.status)
        log.warning("gang.write_refused", path=path, code=status.code, message=status.message)
        return WriteResult.REFUSED if answer.status in (400, 422) else WriteResult.FAILED

    def _observe(self, key: GangObjectKey, answer: Response) -> None:
        """Note the object that the server shows."""
        if answer.status == 404:
            self.enqueue(self._cache.on_object_deleted(key))
        elif answer.status < 300:
            self.enqueue(self._cache.on_object_updated(key.group, msgspec.json.decode(answer.body)))


def _path(change: ObjectChange) -> str:
    namespace, _, name = change.key.name.partition("/")
    plural = "gangs" if change.key.group == GANG_GROUP else "podgroups"
    version = change.observed.version if change.observed is not None else GANG_VERSION
    return f"/apis/{change.key.group}/{version}/namespaces/{namespace}/{plural}/{name}"
