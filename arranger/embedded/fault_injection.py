"""Faults on purpose: taps on every request and every line of a watch, and a log of every write.

A test says what goes wrong in sentences::

    taps = Taps(rng=random.Random(1))
    taps.on(BINDINGS, Lose.AFTER, times=3)
    taps.on(WRITES & by("one"), Reply(429, retry_after=7), chance=0.5)
    taps.on(WATCHES & of("pods"), Cut(within_line=True), skip=10, times=1)
    with taps.on(WRITES, Reply(503)):
        await asyncio.sleep(30)

and afterwards asks :meth:`Taps.taken` what the server was really told to write, by whom and when.
Both ways in take them: ``DirectTransport(cluster, taps=taps)`` and ``serve(cluster, taps=taps)``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Self, TypeVar

import msgspec

from arranger.embedded.errors import ApiError, expired
from arranger.embedded.handlers.watch import Watch
from arranger.embedded.request_matchers import (
    ALL,
    BINDINGS,
    EVENTS,
    LEASES,
    READS,
    STATUSES,
    WATCHES,
    WRITES,
    Call,
    Calls,
    about,
    by,
    of,
)
from arranger.embedded.server import Answer

T = TypeVar("T")

# --- what happens to calls ---------------------------------------------------------------------


class Lose(Enum):
    """The connection breaks."""

    #: It never comes to be, and the client knows that (over HTTP it looks like ``BEFORE``).
    REFUSED = auto()
    #: The request is lost: the server does not act, and the client cannot know.
    BEFORE = auto()
    #: The answer is lost: the server has acted.
    AFTER = auto()


@dataclass(frozen=True, slots=True)
class Delay:
    """The request takes so many seconds, or with ``after`` its answer.

    A client that gives up meanwhile does not take it back: the server acts all the same.
    """

    seconds: float
    after: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """This answer comes: instead of the server's, or with ``after`` although it has acted."""

    status: int
    reason: str = ""
    message: str = "a fault on purpose"
    retry_after: int | None = None
    after: bool = False

    def answer(self) -> Answer:
        """The answer, whose body is a ``Status`` as the real server's."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        error = ApiError(self.status, self.reason, self.message, headers=headers)
        return Answer(error.code, error.status(), error.headers)


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Something else happens just before the server acts, or with ``after`` just after that."""

    action: Callable[[], object]
    after: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """A watch ends before its next line, or in the midst of it; cleanly, or by a reset."""

    within_line: bool = False
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Stall:
    """From its next line on, nothing comes through an open watch any more, not even an end."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The next line of a watch, and with it all that follow, come so many seconds late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Expire:
    """A watch says that its version is gone (410) and ends."""


CallFault = Lose | Delay | Reply | Meanwhile
LineFault = Cut | Stall | Pause | Expire


class LostError(Exception):
    """No answer will come; ``sent`` is false where the client knows that nothing was sent."""

    def __init__(self, why: str, *, sent: bool = True) -> None:
        super().__init__(why)
        self.sent = sent


@dataclass(slots=True, eq=False)
class Rule:
    """One fault as it was ordered with :meth:`Taps.on`; leaving its context ends it.

    Attributes:
        hits: the calls it has struck so far (a call once for every line struck).
    """

    where: Callable[[Call], bool]
    fault: CallFault | LineFault | None
    times: int | None
    skip: int
    chance: float
    rng: random.Random
    hits: list[Call] = field(default_factory=list)

    def strikes(self, call: Call) -> bool:
        """Whether it strikes this one, which then counts."""
        if self.times is not None and len(self.hits) >= self.times:
            return False
        if not self.where(call) or (self.chance < 1.0 and self.rng.random() >= self.chance):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.hits.append(call)
        return True

    def stop(self) -> None:
        """Strike no more."""
        self.times = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


# --- the taps ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Write:
    """A write that reached the server, at ``at``; ``status`` is what the server answered."""

    call: Call
    at: float
    status: int

    @property
    def applied(self) -> bool:
        """Whether it changed anything (or would have, had there been anything to change)."""
        return self.status < 300


class Taps:
    """Faults to come, and what the server was told to write.

    Args:
        rng: decides where a rule strikes by chance only.
    """

    def __init__(self, *, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random(0)
        self._rules: list[Rule] = []
        #: Every write that reached the server, in its order.
        self.log: list[Write] = []

    def on(
        self,
        where: Callable[[Call], bool],
        fault: CallFault | LineFault | None = None,
        *,
        times: int | None = None,
        skip: int = 0,
        chance: float = 1.0,
    ) -> Rule:
        """Let ``fault`` strike calls that match; without a fault, only take note of them.

        Where several rules strike one call, each does what it does, in the order they were given.

        Args:
            times: how often at most; for ever, without it.
            skip: how many calls, or lines of watches, are spared first.
            chance: the probability with which a call or a line is struck.
        """
        rule = Rule(where, fault, times, skip, chance, self._rng)
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """All is well from now on; what is under way stays as it is."""
        for rule in self._rules:
            rule.stop()
        self._rules.clear()

    def taken(self, where: Callable[[Call], bool] = ALL) -> list[Write]:
        """Writes that reached the server."""
        return [write for write in self.log if where(write.call)]

    def applied(self, where: Callable[[Call], bool] = ALL) -> list[Write]:
        """Writes that the server accepted."""
        return [write for write in self.taken(where) if write.applied]

    # --- for the ways in -----------------------------------------------------------------------

    async def carry(self, call: Call, act: Callable[[], T]) -> T | Answer:
        """Have the server ``act`` on a call, if it gets there, and bring back what comes of it.

        Raises:
            LostError: no answer comes.
        """
        faults = [rule.fault for rule in self._struck(call, CallFault)]
        there = sum(f.seconds for f in faults if isinstance(f, Delay) and not f.after)
        back = sum(f.seconds for f in faults if isinstance(f, Delay) and f.after)
        if there:
            result = await self._later(there, lambda: self._reach(call, act, faults))
        else:
            result = self._reach(call, act, faults)
        try:
            if back:
                await asyncio.sleep(back)
            if Lose.AFTER in faults:
                raise LostError("lost on the way back")
        except BaseException:
            _abandon(result)
            raise
        for fault in faults:
            if isinstance(fault, Reply) and fault.after:
                _abandon(result)
                return fault.answer()
        return result

    async def lines(self, call: Call, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The bytes of a watch, line by line; only a line cut short lacks its newline.

        Raises:
            LostError: the connection is reset.
        """
        async with aclosing(lines):  # type: ignore[type-var]
            async for line in lines:
                for rule in self._struck(call, LineFault):
                    match rule.fault:
                        case Pause(seconds):
                            await asyncio.sleep(seconds)
                        case Stall():
                            async for _ in lines:
                                pass  # the server believes that they arrive
                            return
                        case Expire():
                            status = expired("too old resource version").status()
                            yield msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"
                            return
                        case Cut(within_line, reset):
                            if within_line:
                                yield line[: len(line) // 2]
                            if reset:
                                raise LostError("connection reset")
                            return
                yield line + b"\n"

    def _struck(self, call: Call, kind: Any) -> list[Rule]:
        """The rules that strike; those that only take note do so once a call."""
        chosen = [
            rule
            for rule in self._rules
            if isinstance(rule.fault, kind) or (rule.fault is None and kind is CallFault)
        ]
        return [rule for rule in chosen if rule.strikes(call)]

    def _reach(self, call: Call, act: Callable[[], T], faults: list[Any]) -> T | Answer:
        for fault in faults:
            match fault:
                case Lose.REFUSED:
                    raise LostError("connection refused", sent=False)
                case Lose.BEFORE:
                    raise LostError("lost on the way there")
                case Reply(after=False):
                    return fault.answer()
                case Meanwhile(after=False):
                    fault.action()
        result = act()
        if WRITES(call) and isinstance(result, Answer):
            self.log.append(Write(call, asyncio.get_running_loop().time(), result.status))
        for fault in faults:
            if isinstance(fault, Meanwhile) and fault.after:
                fault.action()
        return result

    async def _later(self, seconds: float, reach: Callable[[], T]) -> T:
        """Have it reach the server later, whether or not the client is still there."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[T] = loop.create_future()

        def arrive() -> None:
            try:
                result = reach()
            except LostError as error:
                if not arrived.done():
                    arrived.set_exception(error)
                return
            if arrived.done():
                _abandon(result)
            else:
                arrived.set_result(result)

        loop.call_later(seconds, arrive)
        return await arrived


def _abandon(result: object) -> None:
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
    "Call",
    "CallFault",
    "Calls",
    "Cut",
    "Delay",
    "Expire",
    "LineFault",
    "Lose",
    "LostError",
    "Meanwhile",
    "Pause",
    "Reply",
    "Rule",
    "Stall",
    "Taps",
    "Write",
    "about",
    "by",
    "of",
]
