"""Runs a coroutine in virtual time: sleeping costs nothing, and months pass in seconds."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar, TypeVarTuple

import looptime

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Where virtual calendars begin, so that a replay prints the same times.
EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


class ThreadlessLoop(asyncio.SelectorEventLoop):
    """An event loop that does at once what would be done in a thread.

    A thread knows no virtual time: while it worked, hours would pass for all others.
    """

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> Future[T]:
        """The result of some work, which has been done."""
        future: Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end on an event loop whose clock jumps to the next timer."""
    # Nothing happens outside the loop, so it need not wait for outside events.
    loop = looptime.patch_event_loop(ThreadlessLoop(), start=0.0, idle_timeout=None, noop_cycles=0)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


def virtual_now() -> datetime:
    """The calendar of the running virtual loop."""
    return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())
