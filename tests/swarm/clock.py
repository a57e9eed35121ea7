"""An event loop in virtual time whose processes can be stopped, as by SIGSTOP.

Time jumps to the next timer as soon as nothing is ready. There is no outside: no sockets, no
threads, so that equal programs run equally.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from asyncio.events import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: The process that the running code belongs to; "" for what is no process of ours.
PROCESS: ContextVar[str] = ContextVar("PROCESS", default="")


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module.

    Args of asyncio's loop that have to do with the outside, debugging and slow callbacks mean
    nothing here: what is scheduled is called, in the order of its time and of its making.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now, self._made = 0.0, 0
        #: When, as which, and what.
        self._timers: list[tuple[float, int, TimerHandle]] = []
        self._cancelled_timers = 0

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> TimerHandle:
        """As the loop's own; timers that are due together run in the order of their making."""
        self._made += 1
        due = round(when, 6)  # the clock counts microseconds
        if due < when:  # nobody is called before the time
            due = round(due + 1e-6, 6)
        timer = _Timer(due, callback, args, self, context)
        heappush(self._timers, (due, self._made, timer))
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

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> Future[T]:
        """The result of some work, done at once: a thread knows no virtual time."""
        future: Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    # --- what asyncio calls ------------------------------------------------------------------

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        """Timers that are cancelled go when they are due, or when they are most of all."""
        self._cancelled_timers += handle._scheduled
        if self._cancelled_timers > 1000 and 2 * self._cancelled_timers > len(self._timers):
            self._timers = [each for each in self._timers if not each[2]._cancelled]
            heapify(self._timers)
            self._cancelled_timers = 0

    def _run_once(self) -> None:
        """Call what is ready and what is due; if nothing is, first let time pass.

        Raises:
            RuntimeError: nothing will ever happen.
        """
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
            self._cancelled_timers -= 1
        if not self._ready and not self._stopping:
            if not timers:
                raise RuntimeError("all tasks wait for ever")
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            timer = heappop(timers)[2]
            if timer._cancelled:
                self._cancelled_timers -= 1
            else:
                timer._scheduled = False
                self._ready.append(timer)
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()  # not always the same: see pause
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)  # type: ignore[arg-type]
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self._report(handle, error)

    def _report(self, handle: Handle, error: BaseException) -> None:
        """As asyncio's handles do it."""
        message = f"Exception in callback {handle!r}"
        self.call_exception_handler({"message": message, "exception": error, "handle": handle})


class _Handle(Handle):
    """One of asyncio's, made without asking whether anybody debugs."""

    def __init__(self, callback: Any, args: Any, loop: Any, context: Context | None) -> None:
        self._callback, self._args, self._loop = callback, args, loop
        self._context = copy_context() if context is None else context
        self._cancelled, self._repr, self._source_traceback = False, None, None


class _Timer(TimerHandle):
    """The same of a timer."""

    def __init__(
        self, when: float, callback: Any, args: Any, loop: Any, context: Context | None
    ) -> None:
        self._callback, self._args, self._loop = callback, args, loop
        self._context = copy_context() if context is None else context
        self._cancelled, self._repr, self._source_traceback = False, None, None
        self._when, self._scheduled = when, True

    def cancel(self) -> None:
        if not self._cancelled:
            self._loop._timer_handle_cancelled(self)
            self._cancelled, self._callback, self._args = True, None, None


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
