"""Writes the status of Queues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog

from arranger.api import event_reasons
from arranger.api.annotations import CLOSED_BY_PARENT
from arranger.api.parsing.objects import decode_object
from arranger.api.timestamps import second_time
from arranger.api.types.command import Command
from arranger.controllers.queue.cache import QUEUES_PATH, QueueCache
from arranger.controllers.queue.commands import obey
from arranger.controllers.queue.entries import ObservedQueue
from arranger.controllers.queue.status import OPEN, closed_by_parent, queue_status
from arranger.controllers.runtime.commands import PendingCommands
from arranger.controllers.runtime.events import EventBroadcaster
from arranger.controllers.runtime.objects import Object, merge_patch, untouched
from arranger.controllers.runtime.work_queue import Result, WorkQueue
from arranger.controllers.runtime.writer import StatusError, Writer

log = structlog.get_logger(__name__)

#: Slices of pods counted anew before a status is written: else who edits all the time keeps all
#: statuses from being written.
MOST_SLICES: Final = 64


@dataclass(frozen=True, slots=True)
class QueueReconciler:
    """Makes the status of Queues what the cache says; ``now`` is the calendar clock.

    Attributes:
        commands: what queues are to be told.
    """

    writer: Writer
    cache: QueueCache
    commands: PendingCommands
    events: EventBroadcaster
    work_queue: WorkQueue
    now: Callable[[], datetime]
    #: One at a time counts pods anew, so that the event loop is held for no more than one slice.
    _recounting: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def reconcile(self, name: str) -> Result:
        """Write what is to be written about one queue, once all pods are counted where they are."""
        await self._recount()
        if (command := self.commands.next(name)) is None:
            return await self._write_status(name)
        if not self.commands.was_obeyed(command):
            result = await self._obey(command)
            if result is not Result.DONE:
                return result
            self.commands.on_obeyed(command)
        if await self.commands.delete(command, self.writer):
            return Result.REQUEUE
        # Who may not delete Commands cares for the queue all the same.
        result = await self._write_status(name)
        return Result.BACKOFF if result is Result.DONE else result

    async def _recount(self) -> None:
        """Count the pods anew that an edit concerns, slice by slice beside all else."""
        async with self._recounting:
            for _ in range(MOST_SLICES):
                if not self.cache.has_due:
                    return
                self.work_queue.enqueue(self.cache.recount_due())
                await asyncio.sleep(0)

    async def _obey(self, command: Command) -> Result:
        """Do what a Command asks for; DONE if it is to be deleted."""
        outcome = obey(self.cache, command)
        observed = self.cache.observed.get(command.target.name)
        if outcome is None or observed is None:
            if observed is None and await self._exists(command.target.name):
                return Result.BACKOFF  # the watch is going to show it
            log.info("queue.command_without_target", command=command.path)
            return Result.DONE
        written: Result | None = Result.DONE
        if outcome.annotations:
            annotations = {"metadata": {"annotations": outcome.annotations}}
            written = await self._patch(observed, "", annotations, versioned=True)
        elif outcome.status:
            status = {"status": outcome.status}
            written = await self._patch(observed, "/status", status, versioned=True)
        if written in (Result.REQUEUE, Result.BACKOFF):
            return written
        note, warning = outcome.note, outcome.warning
        if written is None:
            note, warning = f"{command.action} failed: the server refuses the change", True
        about = self.cache.reference(observed.name)
        self.events.record(about, outcome.reason, note, warning=warning)
        return Result.DONE

    async def _exists(self, name: str) -> bool:
        try:
            await self.writer.get(f"{QUEUES_PATH}/{name}")
        except StatusError as error:
            if not error.not_found:
                raise
            return False
        return True

    async def _write_status(self, name: str) -> Result:
        if name not in self.cache.observed or not self.cache.served:
            return Result.DONE
        mark = closed_by_parent(self.cache, name)
        if mark == "true" and (result := await self._mark(name, mark)) is not Result.DONE:
            return result or Result.DONE
        result = await self._write_status_of(name)
        observed = self.cache.observed.get(name)
        opened = observed is not None and observed.status.get("state") == OPEN
        if mark == "false" and opened and result is Result.DONE:
            return await self._mark(name, mark) or Result.DONE
        return result

    async def _mark(self, name: str, by_parent: str) -> Result | None:
        """Note whether a queue is closed only because of one above it."""
        observed = self.cache.observed.get(name)
        if observed is None:
            return Result.DONE
        change = {"metadata": {"annotations": {CLOSED_BY_PARENT: by_parent}}}
        return await self._patch(observed, "", change, versioned=True)

    async def _write_status_of(self, name: str) -> Result:
        observed, fields = self.cache.observed.get(name), self.cache.status_fields
        if observed is None:
            return Result.DONE
        desired = queue_status(self.cache, name, second_time(self.now()))
        if fields is not None:
            desired = {field: value for field, value in desired.items() if field in fields}
        patch = merge_patch(observed.status, desired)
        if not patch:
            return Result.DONE
        # A list is replaced as a whole, and the state depends on the one that was seen.
        versioned = "conditions" in patch or "state" in patch
        result = await self._patch(observed, "/status", {"status": patch}, versioned=versioned)
        if result is Result.DONE and "conditions" in patch:
            self._record_problems(observed)
        return result or Result.DONE

    async def _patch(
        self, queue: ObservedQueue, subresource: str, change: Object, *, versioned: bool
    ) -> Result | None:
        """Merge a change into a queue; None where the server refuses it for good.

        Args:
            versioned: whether it is only for the state of the queue that was seen.
        """
        path = f"{QUEUES_PATH}/{queue.name}"
        version = queue.metadata.resource_version if versioned else ""
        result = Result.DONE
        try:
            try:
                body = await self.writer.patch(
                    f"{path}{subresource}", change, resource_version=version
                )
            except StatusError as error:
                if not error.conflict:
                    raise
                body = await self.writer.get(path)
                result = Result.REQUEUE
        except StatusError as error:
            if error.not_found:
                return None  # the watch will show that it is gone
            write = log.debug if error.unauthorized else log.warning
            write("queue.write_refused", queue=queue.name, error=str(error))
            if error.invalid:
                about = self.cache.reference(queue.name)
                self.events.record(about, event_reasons.FAILED_STATUS, error.message, warning=True)
            return None if error.invalid else Result.BACKOFF
        known, written = self.cache.observed.get(queue.name), _decode(body)
        if known is None or known.metadata.uid != written.metadata.uid:
            return result  # it was deleted before the answer came
        asked_at = queue.metadata.resource_version
        concerned = self.cache.on_queue_updated(written, asked_at=asked_at)
        if not _is_edited(queue, written, change.get("status", {})):
            concerned -= {queue.name}
        self.work_queue.enqueue(concerned)
        return result

    def _record_problems(self, queue: ObservedQueue) -> None:
        """Record an Event on what is wrong; what cannot be read has one from the scheduler."""
        if problems := self.cache.problems_of(queue.name):
            text = "; ".join(problems)
            self.events.record(
                self.cache.reference(queue.name),
                event_reasons.INVALID_QUEUE,
                text,
                warning=True,
            )


def _decode(body: bytes) -> ObservedQueue:
    return decode_object(body, ObservedQueue)


def _is_edited(queue: ObservedQueue, written: ObservedQueue, status: Object) -> bool:
    """Whether the answer to a write of a status shows an edit of somebody else, or of a backup.

    No watch shows it any more.
    """
    before, after = queue.metadata.annotations, written.metadata.annotations
    if queue.spec != written.spec or before != after:
        return True
    return untouched(queue.status, status) != untouched(written.status, status)
