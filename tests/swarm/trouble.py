"""Lets the faults of a world strike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from tests.faults.injector import (
    ALL,
    BINDINGS,
    EVENTS,
    LEASES,
    READS,
    STATUSES,
    WATCHES,
    WRITES,
    ClientRequest,
    FaultInjector,
    RequestMatcher,
    for_resource,
)
from tests.faults.kinds import (
    ConcurrentAction,
    Delay,
    DropConnection,
    Reply,
    WatchCut,
    WatchDelay,
    WatchExpiry,
    WatchRepeat,
    WatchStall,
)
from tests.swarm.clock import VirtualLoop
from tests.swarm.world import Fault

#: What a fault strikes; any other name is that of a resource.
MATCHERS: Final[Mapping[str, RequestMatcher]] = {
    "all": ALL,
    "writes": WRITES,
    "reads": READS,
    "bindings": BINDINGS,
    "statuses": STATUSES,
    "events": EVENTS,
    "leases": LEASES,
    "watches": WATCHES,
}
_REASONS: Final = {
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
}


class Processes(Protocol):
    """The processes of a world that is played."""

    skews: dict[str, float]

    def kill(self, process: str, away: float) -> None:
        """End a process at once; it is started again after so many seconds."""
        ...

    def compact(self) -> None:
        """The server forgets its history."""
        ...

    def restore(self, fault: Fault) -> None:
        """The server goes back to a backup."""
        ...

    def lose_node(self, away: float) -> bool:
        """Delete a node that a pod is nominated to, for so long; whether there was any."""
        ...


class Trouble:
    """Lets faults strike, and ends them.

    Args:
        injectors: what the requests of each process go through.
    """

    def __init__(self, processes: Processes, injectors: Mapping[str, FaultInjector]) -> None:
        self._processes = processes
        self._injectors = injectors
        self._ends: set[Callable[[], None]] = set()

    def strike(self, fault: Fault) -> None:
        """A fault begins."""
        match fault.does:
            case "kill" if fault.skip or fault.what != "all":
                self._kill_at_a_write(fault)
            case "kill":
                self._processes.kill(fault.whom, fault.lasts)
            case "pause":
                loop = asyncio.get_running_loop()
                assert isinstance(loop, VirtualLoop)
                loop.pause(fault.whom)
                self._until(fault.lasts, lambda: loop.resume(fault.whom))
            case "skew":
                self._processes.skews[fault.whom] = fault.seconds
                self._until(fault.lasts, lambda: self._processes.skews.pop(fault.whom, None))
            case "compact":
                self._processes.compact()
            case "restore":
                self._processes.restore(fault)
            case "lose-node":
                self._lose_a_node(fault)
            case "halt":
                self._inject(fault, Delay(fault.lasts))
                self._inject(fault, WatchDelay(fault.lasts))
            case _:
                self._inject(fault, _effect(fault))

    def end(self) -> None:
        """All faults are over."""
        for end in tuple(self._ends):
            end()
        for injector in self._injectors.values():
            injector.clear()

    def _kill_at_a_write(self, fault: Fault) -> None:
        """At the last moment the server acts, and nobody hears of it."""
        kill = ConcurrentAction(lambda: self._processes.kill(fault.whom, fault.lasts), after=True)
        self._injectors[fault.whom].inject(_matcher(fault) & WRITES, kill, times=1, skip=fault.skip)

    def _lose_a_node(self, fault: Fault) -> None:
        """A node goes as soon as a pod has been told that it is to have room there."""

        def act() -> None:
            nonlocal gone
            gone = gone or self._processes.lose_node(fault.lasts)

        gone, then = False, ConcurrentAction(act, after=True)
        rule = self._injectors["one"].inject(STATUSES, then, times=50, skip=fault.skip)
        self._ends.add(rule.stop)

    def _inject(self, fault: Fault, effect: Any) -> None:
        injectors = (self._injectors[fault.whom],) if fault.whom else self._injectors.values()
        for injector in {id(each): each for each in injectors}.values():
            rule = injector.inject(
                _matcher(fault),
                effect,
                times=fault.times or None,
                skip=fault.skip,
                probability=fault.chance,
            )
            self._until(fault.lasts, rule.stop)

    def _until(self, seconds: float, end: Callable[[], object]) -> None:
        def once() -> None:
            if once in self._ends:
                self._ends.remove(once)
                end()

        self._ends.add(once)
        if seconds:
            asyncio.get_running_loop().call_later(seconds, once)


def _matcher(fault: Fault) -> RequestMatcher:
    chosen = MATCHERS.get(fault.what) or for_resource(fault.what)
    return chosen & _of(fault.whom) if fault.whom else chosen


def _of(process: str) -> Callable[[ClientRequest], bool]:
    """Requests of a process, in any of its lives."""
    return lambda request: request.user.rpartition("-")[0] == process


def _effect(fault: Fault) -> Any:
    match fault.does:
        case "refuse":
            return DropConnection.REFUSED
        case "lose-request":
            return DropConnection.BEFORE
        case "lose-answer":
            return DropConnection.AFTER
        case "delay" | "delay-answer":
            return Delay(fault.seconds, after=fault.does == "delay-answer")
        case "reply" | "reply-after":
            wait = 2 if fault.status == 429 else None
            reason = _REASONS.get(fault.status, "")
            after = fault.does == "reply-after"
            return Reply(fault.status, reason, retry_after=wait, after=after)
        case "cut":
            return WatchCut()
        case "reset":
            return WatchCut(within_line=True, reset=True)
        case "expire":
            return WatchExpiry()
        case "stall":
            return WatchStall()
        case "lag":
            return WatchDelay(fault.seconds)
        case "repeat":
            return WatchRepeat()
        case "retell":
            return WatchRepeat(older=True)
    raise ValueError(fault.does)
