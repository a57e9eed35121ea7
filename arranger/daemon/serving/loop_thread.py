"""An event loop in a thread of its own, for work that may not hold the main one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def loop_in_thread(name: str) -> AsyncIterator[asyncio.AbstractEventLoop]:
    """A loop that runs while the context lasts; whatever is left in it is then dropped."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name=name, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join)
        loop.close()


async def run_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Have another thread's loop do something, and wait for what comes of it."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
