"""Events of a controller, sent behind its writes."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import Final

import structlog

from arranger.api.effects import ObjectReference, PublishEvent
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.kube.client.transport import Request, Transport, TransportError
from arranger.kube.events import EventRecorder, EventWrite
from arranger.kube.in_flight import InFlight

log = structlog.get_logger(__name__)

#: Events sent at a time: few, because writes go before. One namespace alone has four of them.
_CONCURRENT: Final = 5
#: The same with those that take long, as where a webhook of one namespace does not answer.
_MOST: Final = 16


class EventBroadcaster:
    """Records Events and sends them, best effort, while :meth:`run` runs.

    No reconcile waits for them. What fails is tried again even if nothing else happens.

    Args:
        instance: names this controller in ``reportingInstance``.
    """

    def __init__(self, transport: Transport, options: ControllerOptions, instance: str) -> None:
        self._transport = transport
        self._recorder = EventRecorder(instance, rng=options.rng, clock=options.now)
        self._in_flight = InFlight()
        #: Set when there may be something to send.
        self._changed = asyncio.Event()

    def record(
        self,
        regarding: ObjectReference,
        reason: str,
        note: str,
        *,
        warning: bool = False,
        related: ObjectReference | None = None,
    ) -> None:
        """Tell people about an object.

        Args:
            related: another object that has to do with it.
        """
        self.publish(
            PublishEvent(
                regarding=regarding,
                reason=reason,
                action="Reconcile",
                note=note,
                type="Warning" if warning else "Normal",
                related=related,
                controller="arranger-controllers",
            )
        )

    def publish(self, event: PublishEvent) -> None:
        """Tell people what an Event says."""
        self._recorder.record(event, asyncio.get_running_loop().time())
        self._changed.set()

    async def run(self) -> None:
        """Send what is recorded, some at a time, until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                self._recorder.tick(loop.time())
                self._in_flight.note_slow(loop.time())
                while write := self._recorder.next(self._may_begin):
                    number = self._in_flight.begin(write.namespace, loop.time())
                    group.create_task(self._carry_out(write, number))
                due = min(self._recorder.next_due(), self._in_flight.next_slow() or math.inf)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(due if math.isfinite(due) else None):
                        await self._changed.wait()

    def _may_begin(self, namespace: str) -> bool:
        return self._in_flight.may_begin(namespace, _CONCURRENT, _MOST)

    async def _carry_out(self, write: EventWrite, number: int) -> None:
        status = 0
        try:
            status = await self._send(write)
        finally:
            self._in_flight.end(number)
            self._recorder.on_answer(write, status, asyncio.get_running_loop().time())
            self._changed.set()

    async def _send(self, write: EventWrite) -> int:
        """The HTTP status of the answer; 0 for none."""
        try:
            answer = await self._transport.send(
                Request(write.method, write.path, body=write.body, content_type=write.content_type)
            )
        except TransportError as error:
            log.debug("event.write_failed", path=write.path, error=str(error))
            return 0
        return answer.status
