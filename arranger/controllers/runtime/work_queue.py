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


class Turn(Enum):
    """How a look at a name ended."""

    DONE = "done"  # there is nothing to do until something changes
    AGAIN = "again"  # something was not as we thought: look soon
    LATER = "later"  # a write has failed: look after a back-off


class Turns:
    """Calls ``visit`` for every name that is due; never twice at a time for the same.

    Args:
        visit: does what is to be done about a name; seconds instead of a :class:`Turn` are DONE
            and a look after that time though nothing has changed.
        quiet: seconds to wait after the first change of a name for more of them.
    """

    def __init__(
        self,
        visit: Callable[[str], Awaitable[Turn | float]],
        *,
        quiet: float,
        rng: random.Random,
    ) -> None:
        self._visit = visit
        self._quiet = quiet
        self._rng = rng
        self._due: asyncio.Queue[str] = asyncio.Queue()
        #: Name → when it is due, and the timer.
        self._timers: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        self._busy: set[str] = set()
        self._failing: dict[str, Backoff] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is due, now or later, and nothing is failing."""
        return not (self._timers or self._busy or self._failing)

    async def run(self, *, after: Iterable[asyncio.Event] = ()) -> None:
        """Visit until cancelled, once all these events have come."""
        events = list(after)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_WORKERS):
                    group.create_task(self._work(events))
        finally:
            for _, timer in self._timers.values():
                timer.cancel()

    def look_at(self, names: Iterable[str]) -> None:
        """Visit these names soon; one that is failing waits for its next try."""
        for name in names:
            if name not in self._failing:
                self._within(self._quiet, name)

    def _within(self, delay: float, name: str) -> None:
        """Visit a name in so many seconds, unless it is due earlier already."""
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        known = self._timers.get(name)
        if known is not None:
            if known[0] <= when:
                return
            known[1].cancel()
        self._timers[name] = when, loop.call_at(when, self._fire, name)

    def _fire(self, name: str) -> None:
        del self._timers[name]
        self._due.put_nowait(name)

    async def _work(self, after: Iterable[asyncio.Event]) -> None:
        for event in after:
            await event.wait()
        while True:
            name = await self._due.get()
            if name in self._busy:
                self._within(self._quiet, name)
                continue
            self._busy.add(name)
            try:
                turn = await self._visit(name)
            finally:
                self._busy.discard(name)
            self._go_on(name, turn)

    def _go_on(self, name: str, turn: Turn | float) -> None:
        if turn is Turn.LATER:
            backoff = self._failing.setdefault(name, Backoff(self._rng))
            # A change that has come meanwhile waits as long: the server is not well.
            if known := self._timers.pop(name, None):
                known[1].cancel()
            self._within(backoff.next(), name)
            return
        self._failing.pop(name, None)
        if turn is Turn.AGAIN:
            self.look_at([name])
        elif isinstance(turn, float):
            self._within(turn, name)
