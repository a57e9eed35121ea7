"""Waiting for what is set by others, or for a time."""

from __future__ import annotations

import asyncio
from typing import Final

#: Seconds that timers are late: a loop may fire early by its clock's resolution, and nothing would
#: be due yet.
TICK: Final = 1e-6


async def wait_until(event: asyncio.Event, at: float | None) -> None:
    """Wait for an event, which is set at this time of the loop at the latest; None for no time."""
    loop = asyncio.get_running_loop()
    timer = None if at is None else loop.call_at(at + TICK, event.set)
    try:
        await event.wait()
    finally:
        if timer is not None:
            timer.cancel()
