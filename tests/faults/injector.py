"""Faults on purpose, injected around requests and watches of the embedded server; a log of writes.

A test says what goes wrong::

    faults = FaultInjector(rng=random.Random(1))
    faults.inject(BINDINGS, DropConnection.AFTER, times=3)
    faults.inject(WRITES & from_user("one"), Reply(429, retry_after=7), probability=0.5)
    faults.inject(WATCHES & for_resource("pods"), WatchCut(within_line=True), skip=10, times=1)
    with faults.inject(WRITES, Reply(503)):
        await asyncio.sleep(30)

and afterwards asks :meth:`FaultInjector.received` what the server was really told to write, by whom
and when. Both transports take it as their hook: ``InProcessTransport(cluster, hook=faults)`` and
``serve(cluster, hook=faults)``.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from arranger.embedded.errors import expired
from arranger.embedded.handlers.watch import Watch
from arranger.embedded.server import ApiResponse
from arranger.embedded.transport.hook import ConnectionLostError, Passage
from arranger.kube.client.transport import Request
from tests.faults.kinds import (
    ConcurrentAction,
    Delay,
    DropConnection,
    FaultRule,
    Reply,
    RequestFault,
    WatchCut,
    WatchDelay,
    WatchExpiry,
    WatchFault,
    WatchRepeat,
    WatchStall,
)
from tests.faults.lines import REMEMBERED, earlier
from tests.faults.matchers import (
    ALL,
    BINDINGS,
    EVENTS,
    LEASES,
    READS,
    STATUSES,
    WATCHES,
    WRITES,
    ClientRequest,
    RequestMatcher,
    for_object,
    for_resource,
    from_user,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReceivedWrite:
    """A write that reached the server, at ``at``; ``status`` is what the server answered."""

    request: ClientRequest
    at: float
    status: int

    @property
    def applied(self) -> bool:
        """Whether it changed anything (or would have, had there been anything to change)."""
        return self.status < 300


class RequestListener(Protocol):
    """Hears of each request: when it is sent, what the client hears; of writes what is done."""

    def on_sent(self, request: ClientRequest) -> None:
        """It is on its way."""

    def on_received(self, request: ClientRequest, status: int) -> None:
        """The server has acted, and this is its answer."""

    def on_answered(self, request: ClientRequest, status: int) -> None:
        """The client has an answer, whoever gave it; 0: none will come, and it was sent."""


class FaultInjector:
    """Faults to come, and what the server was told to write.

    Args:
        rng: decides which matching requests a rule with a probability affects.
    """

    def __init__(self, *, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random(0)
        #: About lines of watches, and about requests; those without a fault count requests.
        self._watch_rules: list[FaultRule] = []
        self._request_rules: list[FaultRule] = []
        #: Whose request the server is answering at this moment; "" while it is nobody's.
        self.answering = ""
        #: Whether anything has ever gone wrong, or was to.
        self.harmful = False
        #: Every write that reached the server, in its order.
        self.log: list[ReceivedWrite] = []
        #: Who has asked for what, by method and path, and whether it was a watch.
        self.asked: set[tuple[str, str, str, bool]] = set()
        self._listeners: list[RequestListener] = []
        #: (who, path) → the last lines of watches, while there are rules for these.
        self._lines: dict[tuple[str, str], deque[bytes]] = {}

    def listen(self, listener: RequestListener) -> None:
        """Tell of each request from now on."""
        self._listeners.append(listener)

    def inject(
        self,
        matcher: Callable[[ClientRequest], bool],
        fault: RequestFault | WatchFault | None = None,
        *,
        times: int | None = None,
        skip: int = 0,
        probability: float = 1.0,
    ) -> FaultRule:
        """Let ``fault`` affect requests that match; without a fault, only record them.

        Where several rules apply to one request, each takes effect, in the order they were given.

        Args:
            times: how often at most; for ever, without it.
            skip: how many matching requests, or lines of watches, are left alone first.
            probability: that the fault affects a matching request or line.
        """
        rule = FaultRule(matcher, fault, times, skip, probability, self._rng)
        for rules in (self._watch_rules, self._request_rules):
            rules[:] = [each for each in rules if each.times != 0]
        (self._watch_rules if isinstance(fault, WatchFault) else self._request_rules).append(rule)
        self.harmful |= fault is not None
        return rule

    def clear(self) -> None:
        """End all faults; requests that one already affects stay affected."""
        for rules in (self._watch_rules, self._request_rules):
            for rule in rules:
                rule.stop()
            rules.clear()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing goes wrong any more."""
        rules = (*self._watch_rules, *self._request_rules)
        return not any(rule.fault is not None and rule.times != 0 for rule in rules)

    def received(self, matcher: Callable[[ClientRequest], bool] = ALL) -> list[ReceivedWrite]:
        """Writes that reached the server."""
        return [write for write in self.log if matcher(write.request)]

    def applied(self, matcher: Callable[[ClientRequest], bool] = ALL) -> list[ReceivedWrite]:
        """Writes that the server accepted."""
        return [write for write in self.received(matcher) if write.applied]

    # --- what transports ask -------------------------------------------------------------------

    async def around_request(
        self, request: Request, user: str, respond: Callable[[], T]
    ) -> T | ApiResponse:
        """Let a request reach the server, unless a fault keeps it, and bring back what comes of it.

        Raises:
            ConnectionLostError: no answer comes.
        """
        sent = _sent_now(request, user)
        self.asked.add((user, request.method, request.path, "watch" in request.query))
        for listener in self._listeners:
            listener.on_sent(sent)
        try:
            result = await self._around(sent, respond)
        except BaseException as error:
            if not isinstance(error, ConnectionLostError) or error.sent:
                for listener in self._listeners:
                    listener.on_answered(sent, 0)
            raise
        if isinstance(result, ApiResponse):
            for listener in self._listeners:
                listener.on_answered(sent, result.status)
        return result

    async def _around(self, sent: ClientRequest, respond: Callable[[], T]) -> T | ApiResponse:
        faults = self._faults(self._request_rules, sent)
        delay_before = sum(f.seconds for f in faults if isinstance(f, Delay) and not f.after)
        delay_after = sum(f.seconds for f in faults if isinstance(f, Delay) and f.after)
        if delay_before:
            result = await self._deliver_later(
                delay_before, lambda: self._deliver(sent, respond, faults)
            )
        else:
            result = self._deliver(sent, respond, faults)
        try:
            if delay_after:
                await asyncio.sleep(delay_after)
            if DropConnection.AFTER in faults:
                raise ConnectionLostError("lost on the way back")
        except BaseException:
            _close_if_watch(result)
            raise
        for fault in faults:
            if isinstance(fault, Reply) and fault.after:
                _close_if_watch(result)
                return fault.answer()
        return result

    def passage(self, request: Request, user: str, line: bytes) -> Passage | None:
        """What becomes of one line of a watch."""
        if not self._watch_rules:
            return None
        faults = self._faults(self._watch_rules, _sent_now(request, user))
        told = self._lines.setdefault((user, request.path), deque(maxlen=REMEMBERED))
        told.append(line)
        if not faults:
            return None
        seconds, chunks, again = 0.0, list[bytes](), list[bytes]()
        for fault in faults:
            match fault:
                case WatchDelay():
                    seconds += fault.seconds
                case WatchRepeat(older=True):
                    again += earlier(told)
                case WatchRepeat():
                    chunks.append(line + b"\n")
                case WatchStall():
                    return Passage(tuple(chunks), seconds, "silence")
                case WatchExpiry():
                    status = expired("too old resource version").status()
                    gone = msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"
                    return Passage((*chunks, gone), seconds, "end")
                case WatchCut(within_line, reset):
                    half = (line[: len(line) // 2],) if within_line else ()
                    return Passage((*chunks, *half), seconds, "reset" if reset else "end")
        return Passage((*chunks, line + b"\n", *again), seconds)

    def _faults(self, rules: list[FaultRule], request: ClientRequest) -> list[Any]:
        """Those that strike now."""
        return [rule.fault for rule in rules if rule.applies_to(request)]

    def _deliver(
        self, request: ClientRequest, respond: Callable[[], T], faults: list[Any]
    ) -> T | ApiResponse:
        for fault in faults:
            match fault:
                case DropConnection.REFUSED:
                    raise ConnectionLostError("connection refused", sent=False)
                case DropConnection.BEFORE:
                    raise ConnectionLostError("lost on the way there")
                case Reply(after=False):
                    return fault.answer()
                case ConcurrentAction(after=False):
                    fault.action()
        self.answering = request.user
        try:
            result = respond()
        finally:
            self.answering = ""
        if WRITES(request) and isinstance(result, ApiResponse):
            self.log.append(
                ReceivedWrite(request, asyncio.get_running_loop().time(), result.status)
            )
            for listener in self._listeners:
                listener.on_received(request, result.status)
        for fault in faults:
            if isinstance(fault, ConcurrentAction) and fault.after:
                fault.action()
        return result

    async def _deliver_later(self, seconds: float, reach: Callable[[], T]) -> T:
        """Have it reach the server later, whether or not the client is still there."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[T] = loop.create_future()

        def arrive() -> None:
            try:
                result = reach()
            except ConnectionLostError as error:
                if not arrived.done():
                    arrived.set_exception(error)
                return
            if arrived.done():
                _close_if_watch(result)
            else:
                arrived.set_result(result)

        # The network goes on while the sender stands still.
        loop.call_later(seconds, arrive, context=Context())
        return await arrived


def _sent_now(request: Request, user: str) -> ClientRequest:
    now = asyncio.get_running_loop().time()
    return ClientRequest(now, request.method, request.path, request.query, request.body, user)


def _close_if_watch(result: object) -> None:
    """Nobody will read it: a watch must not go on filling up."""
    if isinstance(result, Watch):
        result.close()


__all__ = [
    "ALL",
    "BINDINGS",
    "EVENTS",
    "LEASES",
    "READS",
    "STATUSES",
    "WATCHES",
    "WRITES",
    "ClientRequest",
    "ConcurrentAction",
    "ConnectionLostError",
    "Delay",
    "DropConnection",
    "FaultInjector",
    "FaultRule",
    "ReceivedWrite",
    "Reply",
    "RequestFault",
    "RequestMatcher",
    "WatchCut",
    "WatchDelay",
    "WatchExpiry",
    "WatchFault",
    "WatchRepeat",
    "WatchStall",
    "for_object",
    "for_resource",
    "from_user",
]
