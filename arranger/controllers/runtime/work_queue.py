"""Whose turn it is: names that are looked at soon after they change, and not at every change."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Final

from arranger.kube.client.backoff import Backoff

#: Names looked at at a time: few, because the scheduler's bindings go before.
_WORKERS: Final = 4


class Result(Enum):
    """How a look at a name ended."""

    DONE = "done"  # there is nothing to do until something changes
    REQUEUE = "again"  # something was not as we thought: look soon
    BACKOFF = "later"  # a write has failed: look after a back-off


class WorkQueue:
    """Calls ``visit`` for every name that is due; never twice at a time for the same.

    Args:
        visit: does what is to be done about a name; seconds instead of a :class:`Result` are DONE
            and a look after that time though nothing has changed.
        quiet: seconds to wait after the first change of a name for more of them.
    """

    def __init__(
        self,
        reconcile: Callable[[str], Awaitable[Result | float]],
        *,
        debounce: float,
        rng: random.Random,
    ) -> None:
        self._reconcile = reconcile
        self._debounce = debounce
        self._rng = rng
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        #: Name → when it is due, and the timer.
        self._timers: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        self._processing: set[str] = set()
        self._backoffs: dict[str, Backoff] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is due, now or later, and nothing is failing."""
        return not (self._timers or self._processing or self._backoffs)

    async def run(self, *, caches_synced: Iterable[asyncio.Event] = ()) -> None:
        """Visit until cancelled, once all these events have come."""
        events = list(caches_synced)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_WORKERS):
                    group.create_task(self._run_worker(events))
        finally:
            for _, timer in self._timers.values():
                timer.cancel()

    def enqueue(self, keys: Iterable[str]) -> None:
        """Visit these names soon; one that is failing waits for its next try."""
        for name in keys:
            if name not in self._backoffs:
                self._enqueue_after(self._debounce, name)

    def _enqueue_after(self, delay: float, name: str) -> None:
        """Visit a name in so many seconds, unless it is due earlier already."""
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        known = self._timers.get(name)
        if known is not None:
            if known[0] <= when:
                return
            known[1].cancel()
        self._timers[name] = when, loop.call_at(when, self._on_timer, name)

    def _on_timer(self, name: str) -> None:
        del self._timers[name]
        self._ready.put_nowait(name)

    async def _run_worker(self, caches_synced: Iterable[asyncio.Event]) -> None:
        for event in caches_synced:
            await event.wait()
        while True:
            name = await self._ready.get()
            if name in self._processing:
                self._enqueue_after(self._debounce, name)
                continue
            self._processing.add(name)
            try:
                result = await self._reconcile(name)
            finally:
                self._processing.discard(name)
            self._handle_result(name, result)

    def _handle_result(self, name: str, result: Result | float) -> None:
        if result is Result.BACKOFF:
            backoff = self._backoffs.setdefault(name, Backoff(self._rng))
            # A change that has come meanwhile waits as long: the server is not well.
            if known := self._timers.pop(name, None):
                known[1].cancel()
            self._enqueue_after(backoff.next_delay(), name)
            return
        self._backoffs.pop(name, None)
        if result is Result.REQUEUE:
            self.enqueue([name])
        elif isinstance(result, float):
            self._enqueue_after(result, name)
