"""Sending the Events of a controller."""

from __future__ import annotations

import asyncio

import structlog

from arranger.kube.client.transport import Request, Transport, TransportError
from arranger.kube.events import EventRecorder

log = structlog.get_logger(__name__)


async def publish_events(events: EventRecorder, transport: Transport, *, log_prefix: str) -> None:
    """Send what is ready to be sent; best effort. ``log_prefix`` goes before what is logged."""
    while write := events.next():
        status = 0
        try:
            answer = await transport.send(
                Request(write.method, write.path, body=write.body, content_type=write.content_type)
            )
            status = answer.status
        except TransportError as error:
            log.info(f"{log_prefix}.event_failed", error=str(error))
        events.on_answer(write, status, asyncio.get_running_loop().time())
