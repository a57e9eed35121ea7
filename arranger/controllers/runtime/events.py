"""Events of a controller, sent behind its writes."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress

import structlog

from arranger.api.effects import ObjectReference, PublishEvent
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.kube.client.transport import Request, Transport, TransportError
from arranger.kube.events import EventRecorder, EventWrite

log = structlog.get_logger(__name__)


class EventBroadcaster:
    """Records Events and sends them, best effort, while :meth:`run` runs.

    No reconcile waits for them. What fails is tried again even if nothing else happens.

    Args:
        instance: names this controller in ``reportingInstance``.
    """

    def __init__(self, transport: Transport, options: ControllerOptions, instance: str) -> None:
        self._transport = transport
        self._recorder = EventRecorder(instance, rng=options.rng, clock=options.now)
        self._recorded = asyncio.Event()

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
        self._recorded.set()

    async def run(self) -> None:
        """Send what is recorded, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._recorded.clear()
            self._recorder.tick(loop.time())
            while write := self._recorder.next():
                self._recorder.on_answer(write, await self._send(write), loop.time())
            due = self._recorder.next_due()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due if math.isfinite(due) else None):
                    await self._recorded.wait()

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
