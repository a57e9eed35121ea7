"""The event loop's clock and tasks, as the scheduler uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_time() -> float:
    """The engine's clock: the event loop's, monotonic seconds."""
    return asyncio.get_running_loop().time()


def call_later(delay: float, callback: Callable[[], None]) -> None:
    """Call something once, so many seconds from now."""
    asyncio.get_running_loop().call_later(delay, callback)


async def cancel_and_wait(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it has ended, whatever it ends with."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
