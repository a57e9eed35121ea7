"""Runs a coroutine in virtual time: sleeping costs nothing, and months pass in seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import looptime

T = TypeVar("T")

#: Where virtual calendars begin, so that a replay prints the same times.
EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end on an event loop whose clock jumps to the next timer."""
    # Nothing happens outside the loop, so it need not wait for outside events.
    loop = looptime.new_event_loop(start=0.0, idle_timeout=None, noop_cycles=0)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


def virtual_now() -> datetime:
    """The calendar of the running virtual loop."""
    return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())
