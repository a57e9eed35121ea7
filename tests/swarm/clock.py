"""An event loop in virtual time whose processes can be stopped, as by SIGSTOP.

Time jumps to the next timer as soon as nothing is ready. There is no outside: no sockets, no
threads, so that equal programs run equally.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from asyncio.events import Handle
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

#: The process that the running code belongs to; "" for what is no process of ours.
PROCESS: ContextVar[str] = ContextVar("PROCESS", default="")


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._now, self._made = 0.0, 0
        super().__init__(_NothingOutside(self))
        # The clock counts microseconds; what is due within half of one is due.
        self._clock_resolution = 5e-7

    def time(self) -> float:
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As the loop's own; timers that are due together run in the order of their making."""
        self._made += 1
        due = round(when, 6)
        if due < when:  # nobody is called before the time
            due = round(due + 1e-6, 6)
        timer = _Timer(due, callback, args, self, context)
        timer.number = self._made
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def pause(self, process: str) -> None:
        """Nothing of a process runs from now on."""
        if not isinstance(self._ready, _Ready):
            self._ready: deque[Handle] = _Ready(self._ready)
        self._ready.paused.add(process)

    def resume(self, process: str) -> None:
        """What should have run meanwhile runs now."""
        ready = self._ready
        if not isinstance(ready, _Ready) or process not in ready.paused:
            return
        ready.paused.remove(process)
        due = [h for h in ready.held if _process_of(h) == process]
        ready.held = [h for h in ready.held if _process_of(h) != process]
        ready.extend(due)
        if not ready.paused:
            self._ready = deque(ready)

    def jump(self, seconds: float | None) -> None:
        """Let time pass: to the next timer, or so far on the way to it.

        Raises:
            RuntimeError: nothing will ever happen.
        """
        if seconds is None:
            raise RuntimeError("all tasks wait for ever")
        if seconds > 0:  # at most a day at once, says asyncio
            due = self._scheduled[0].when()
            self._now = round(due if due - self._now < 1.001 * seconds else self._now + seconds, 6)


class _Timer(asyncio.TimerHandle):
    __slots__ = ("number",)

    def __lt__(self, other: Any) -> bool:
        return (self._when, self.number) < (other._when, other.number)


class _NothingOutside(selectors.SelectSelector):
    """Instead of waiting it lets time pass."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.jump(timeout)
        return []


class _Ready(deque[Handle]):
    """The handles that are ready, without those of paused processes."""

    def __init__(self, handles: deque[Handle]) -> None:
        super().__init__(handles)
        self.paused: set[str] = set()
        self.held: list[Handle] = []

    def popleft(self) -> Handle:
        handle = super().popleft()
        if _process_of(handle) in self.paused:
            self.held.append(handle)
            return _CANCELLED
        return handle


def _process_of(handle: Handle) -> str:
    return handle._context.get(PROCESS, "")


class _Cancelled(Handle):
    def __init__(self) -> None:
        self._cancelled = True
        self._context = Context()


_CANCELLED = _Cancelled()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end, from the time 0."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def start(process: str, main: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task that belongs to a process, with all that it starts."""
    context = copy_context()
    context.run(PROCESS.set, process)
    return asyncio.get_running_loop().create_task(main, name=process, context=context)
