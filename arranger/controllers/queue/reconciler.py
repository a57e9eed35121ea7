"""Writes the status of Queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import structlog

from arranger.api import event_reasons
from arranger.api.effects import ObjectReference
from arranger.api.timestamps import second_time
from arranger.controllers.queue.cache import (
    QUEUE_API_VERSION,
    QUEUES_PATH,
    ObservedQueue,
    QueueCache,
)
from arranger.controllers.queue.status import queue_status
from arranger.controllers.runtime.events import EventBroadcaster
from arranger.controllers.runtime.objects import merge_patch
from arranger.controllers.runtime.work_queue import Result, WorkQueue
from arranger.controllers.runtime.writer import StatusError, Writer

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class QueueReconciler:
    """Makes the status of Queues what the cache says; ``now`` is the calendar clock."""

    writer: Writer
    cache: QueueCache
    events: EventBroadcaster
    work_queue: WorkQueue
    now: Callable[[], datetime]

    async def reconcile(self, name: str) -> Result:
        """Write what is to be written about one queue."""
        observed, fields = self.cache.observed.get(name), self.cache.status_fields
        if observed is None or not self.cache.served:
            return Result.DONE
        desired = queue_status(self.cache, name, second_time(self.now()))
        if fields is not None:
            desired = {field: value for field, value in desired.items() if field in fields}
        patch = merge_patch(observed.status, desired)
        if not patch:
            return Result.DONE
        result = await self._write(observed, patch)
        if result is Result.DONE and "conditions" in patch:
            self._record_problems(observed)
        return result

    async def _write(self, queue: ObservedQueue, patch: dict[str, Any]) -> Result:
        path, version = f"{QUEUES_PATH}/{queue.name}", ""
        if "conditions" in patch or "state" in patch:
            # A list is replaced as a whole, and the state depends on the one that was seen.
            version = queue.metadata.resource_version
        result = Result.DONE
        try:
            try:
                body = await self.writer.patch(
                    f"{path}/status", {"status": patch}, resource_version=version
                )
            except StatusError as error:
                if not error.conflict:
                    raise
                body = await self.writer.get(path)
                result = Result.REQUEUE
        except StatusError as error:
            if error.not_found:
                return Result.DONE  # the watch will show that it is gone
            write = log.debug if error.unauthorized else log.warning
            write("queue.write_refused", queue=queue.name, error=str(error))
            return Result.DONE if error.invalid else Result.BACKOFF
        known, written = self.cache.observed.get(queue.name), _decode(body)
        if known is None or known.metadata.uid != written.metadata.uid:
            return result  # it was deleted before the answer came
        self.work_queue.enqueue(self.cache.on_queue_updated(written) - {queue.name})
        return result

    def _record_problems(self, queue: ObservedQueue) -> None:
        """Record an Event on what is wrong; what cannot be read has one from the scheduler."""
        if problems := self.cache.problems_of(queue.name):
            about = ObjectReference(QUEUE_API_VERSION, "Queue", "", queue.name, queue.metadata.uid)
            self.events.record(
                about, event_reasons.INVALID_QUEUE, "; ".join(problems), warning=True
            )


def _decode(body: bytes) -> ObservedQueue:
    return msgspec.json.decode(body, type=ObservedQueue)
