"""The lease, renewed from a thread of its own: whatever a decision costs, it is not lost by that.

The thread has an event loop and a connection of its own, so the lease does not wait for ours. An
event loop that is stuck for good must not lead for ever: when it has not shown that it is alive for
:data:`STUCK_LIMIT` seconds the lease is renewed no more, and another replica takes over.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import structlog

from arranger.kube.client.problems import Problem, ProblemReporter
from arranger.kube.client.transport import RequestTransport
from arranger.kube.leader_election import LeaderElection
from arranger.kube.loop_thread import LoopThread

log = structlog.get_logger(__name__)

#: Seconds without a sign of life of the event loop after which it is told where it is stuck, and
#: after which it leads no more.
TELL_LIMIT: Final = 3.0
STUCK_LIMIT: Final = 60.0
#: Seconds between two signs of life, and between two looks for them.
_BEAT: Final = 0.5
#: Innermost frames of the stuck thread that are logged.
_MAX_FRAMES: Final = 12


class ClosableTransport(RequestTransport, Protocol):
    """A transport that belongs to one event loop."""

    async def close(self) -> None:
        """Close its connections."""


#: Has a function called in the event loop that the election is for.
Wrapper = Callable[[Callable[..., None]], Callable[..., None]]
#: Makes the election that the thread runs; what it calls is to be wrapped.
ElectionFactory = Callable[[RequestTransport, Wrapper], LeaderElection]


@dataclass(slots=True, eq=False)
class LeaseThread:
    """Runs an election in a thread; asked and awaited from the event loop that it is for.

    Args:
        open_transport: opens the thread's own transport, inside it.
        make_election: makes the election.
        stuck_limit: see :data:`STUCK_LIMIT`.
    """

    open_transport: Callable[[], Awaitable[ClosableTransport]]
    make_election: ElectionFactory
    stuck_limit: float = STUCK_LIMIT
    _election: LeaderElection | None = field(default=None, init=False)
    _transport: ClosableTransport | None = field(default=None, init=False)
    _electing: asyncio.Task[None] | None = field(default=None, init=False)
    _thread: LoopThread | None = field(default=None, init=False)
    _alive_at: float = field(default=0.0, init=False)

    def is_leader(self) -> bool:
        """Whether we may write right now; see :meth:`LeaderElection.is_leader`."""
        election = self._election
        return election is not None and election.leads_at(time.monotonic())

    def readiness_error(self) -> str | None:
        """Why we can neither lead nor stand by, if so."""
        if self._election is None:
            return "lease: not read yet"
        return self._election.readiness_error()

    async def run(self) -> None:
        """Wait for leadership, keep it, and return once it is lost."""
        thread = self._thread = self._thread or LoopThread("lease")
        self._alive_at = time.monotonic()
        beat = asyncio.create_task(self._beat(), name="lease-beat")
        try:
            await thread.run(self._elect(asyncio.get_running_loop(), threading.get_ident()))
        finally:
            beat.cancel()
            await thread.run(self._until_ended())

    async def release(self) -> bool:
        """Give the lease up after all work has stopped, and end the thread."""
        if self._thread is None:
            return False
        try:
            return await self._thread.run(self._release())
        finally:
            self._thread.stop()

    async def _beat(self) -> None:
        while True:
            self._alive_at = time.monotonic()
            await asyncio.sleep(_BEAT)

    # --- in the thread -----------------------------------------------------------------------

    async def _elect(self, main: asyncio.AbstractEventLoop, main_thread: int) -> None:
        if self._transport is None:
            self._transport = await self.open_transport()

        def in_main_loop(call: Callable[..., None]) -> Callable[..., None]:
            return partial(_call_soon, main, call)

        if self._election is None:
            self._election = self.make_election(self._transport, in_main_loop)
        electing = self._electing = asyncio.create_task(self._election.run(), name="lease")
        watching = asyncio.create_task(self._watch(main_thread), name="lease-watch")
        try:
            await asyncio.wait({electing, watching}, return_when=asyncio.FIRST_COMPLETED)
            if electing.done():
                electing.result()
        finally:
            watching.cancel()
            electing.cancel()
            await asyncio.wait({electing, watching})

    async def _release(self) -> bool:
        await self._until_ended()
        released = self._election is not None and await self._election.release()
        if self._transport is not None:
            await self._transport.close()
        return released

    async def _until_ended(self) -> None:
        if self._electing is not None:
            await asyncio.wait({self._electing})

    async def _watch(self, main_thread: int) -> None:
        """Return when the event loop is stuck for good."""
        told = False
        while True:
            await asyncio.sleep(_BEAT / 2)
            silent = time.monotonic() - self._alive_at
            if silent > min(TELL_LIMIT, self.stuck_limit) and not told:
                frame = sys._current_frames().get(main_thread)  # noqa: SLF001 — documented
                lines = traceback.format_stack(frame, limit=_MAX_FRAMES) if frame else []
                log.warning("lease.loop_stuck", seconds=round(silent, 1), frames="".join(lines))
            told = silent > min(TELL_LIMIT, self.stuck_limit)
            if silent > self.stuck_limit:
                log.error("lease.given_up", seconds=round(silent, 1))
                return


@dataclass(frozen=True, slots=True)
class MainLoopProblems:
    """Reports problems in the event loop of those who listen.

    Args:
        in_main_loop: has a function called there.
    """

    reporter: ProblemReporter
    in_main_loop: Wrapper

    def failed(self, source: str, problem: Problem) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        self.in_main_loop(self.reporter.failed)(source, problem)

    def succeeded(self, source: str) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        self.in_main_loop(self.reporter.succeeded)(source)

    def absent(self, source: str) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        self.in_main_loop(self.reporter.absent)(source)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: Any) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(partial(call, *args))
