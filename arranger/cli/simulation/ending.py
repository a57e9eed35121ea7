"""When a simulation is over: nothing moves any more, or a bound is reached."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from arranger.cli.simulation.naming import counted_with
from arranger.embedded import Object
from arranger.embedded.storage.store import Change

#: Resources whose writes tell of things and move nothing.
_NOTES: Final = frozenset({"events.k8s.io/events", "coordination.k8s.io/leases"})
#: Moves that are remembered, to name what still moves, and how many are named.
_REMEMBERED: Final = 300
_NAMED: Final = 3
#: Seconds between two looks at a simulation in which only timers run.
_LOOK_SECONDS: Final = 600.0


class EndReason(StrEnum):
    """Why a simulation has ended."""

    STANDSTILL = "Standstill"  # nothing moves any more
    TIME = "TimeLimit"  # the bound on virtual time is reached
    WRITES = "WriteLimit"  # the bound on writes is reached
    GOAL = "Reached"  # what was waited for has come about


@dataclass(frozen=True, slots=True)
class End:
    """How a simulation has ended.

    Attributes:
        seconds: virtual ones from its start.
        quiet_seconds: how long nothing had moved.
        moving: what still moves most, and how often of late; of a standstill nothing.
    """

    reason: EndReason
    seconds: float
    quiet_seconds: float
    moving: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a simulation may take.

    Attributes:
        seconds: virtual ones, from its start.
        writes: to the cluster, of whatever kind.
        quiet_seconds: how long nothing must have moved for the end.
    """

    seconds: float
    writes: int
    quiet_seconds: float


class HasIdle(Protocol):
    """A part of the cluster that works by itself."""

    @property
    def idle(self) -> bool:
        """Whether nothing is due, now or later."""


class Movement:
    """Watches a cluster for what moves, and for what is waited for.

    A pod moves when it comes or goes, is bound, starts, ends or is to go, and when its gates
    change; any other object when it comes or goes and when its spec changes. Events, reasons in a
    status and nominations move nothing, however often they are written.

    Attributes:
        last: when something moved last, by the loop's clock.
    """

    def __init__(self, bounds: Bounds, goal: Callable[[Change], bool] | None = None) -> None:
        self._bounds = bounds
        self._goal = goal
        self._reached = False
        self._writes = 0
        self._moved: deque[tuple[float, str]] = deque(maxlen=_REMEMBERED)
        self._over = asyncio.Event()
        self.last = asyncio.get_running_loop().time()

    def on_change(self, change: Change) -> None:
        """A write to the cluster."""
        self._writes += 1
        if self._goal is not None and self._goal(change):
            self._reached = True
        if self._reached or self._writes >= self._bounds.writes:
            self._over.set()
        if _moves(change):
            self.last = asyncio.get_running_loop().time()
            self._moved.append((self.last, counted_with(change.after)))

    async def until_end(self, *parts: HasIdle) -> End:
        """Wait for the end: nothing moves, and the ``parts`` have nothing more to do."""
        loop = asyncio.get_running_loop()
        limit = self._bounds.seconds
        while not self._over.is_set():
            now, due = loop.time(), self.last + self._bounds.quiet_seconds
            if now >= limit:
                return self._end(EndReason.TIME)
            if now >= due and all(part.idle for part in parts):
                return self._end(EndReason.STANDSTILL)
            try:
                async with asyncio.timeout_at(min(max(due, now + _LOOK_SECONDS), limit)):
                    await self._over.wait()
            except TimeoutError:
                continue
        return self._end(EndReason.GOAL if self._reached else EndReason.WRITES)

    def _end(self, reason: EndReason) -> End:
        now, quiet = asyncio.get_running_loop().time(), self._bounds.quiet_seconds
        of_late = Counter(name for at, name in self._moved if at >= now - quiet)
        still = reason in (EndReason.STANDSTILL, EndReason.GOAL)
        moving = () if still else tuple(of_late.most_common(_NAMED))
        return End(reason, now, now - self.last, moving)


def _moves(change: Change) -> bool:
    before, after = change.before, change.after
    if change.resource in _NOTES:
        return False
    if before is None or change.type == "DELETED":
        return True
    if change.resource == "/pods":
        return _place_and_phase(before) != _place_and_phase(after)
    return bool(before.get("spec") != after.get("spec"))


def _place_and_phase(pod: Object) -> tuple[Any, ...]:
    spec, going = pod["spec"], bool(pod["metadata"].get("deletionTimestamp"))
    phase = pod["status"].get("phase")
    return spec.get("nodeName"), spec.get("schedulingGates"), phase, going
