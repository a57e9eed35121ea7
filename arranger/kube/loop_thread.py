"""An event loop in a thread of its own, for work that the main one is not to hold up, or to do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs until it is stopped; whatever is left in its loop is then dropped.

    Attributes:
        loop: the thread's.
    """

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        self.loop.run_forever()
        self.loop.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the thread do something, and wait for what comes of it."""
        return await run_in(self.loop, work)

    def stop(self) -> None:
        """Have it end soon."""
        self.loop.call_soon_threadsafe(self.loop.stop)

    async def join(self) -> None:
        """Wait until it has ended."""
        await asyncio.to_thread(self._thread.join)


async def run_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Have another thread's loop do something, and wait for what comes of it."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
