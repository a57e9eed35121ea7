"""When a Reservation holds: its window is read, and the one that matters at a moment is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final, NamedTuple, TypeVar

from arranger.api.parsing.duration import parse_duration
from arranger.api.parsing.errors import ParseError, shown
from arranger.api.parsing.timestamps import parse_time, parse_zone
from arranger.api.timestamps import from_unix
from arranger.api.types.reservation import Recurrence, ReservationSpec, ReservationWindow

T = TypeVar("T")

#: As ``datetime.weekday()`` counts them.
WEEKDAYS: Final = (
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
)
#: Seconds before the start from which on pods without a maximum run time are kept away.
DEFAULT_DRAIN_BEFORE: Final = 3600.0
#: The longest window that may come again, in seconds: two of them never overlap.
MAX_RECURRING: Final = 86400.0
#: The most nodes, queues or gangs that are read of one Reservation.
MAX_NAMES: Final = 5000
#: The most resources and cards of one Reservation.
MAX_AMOUNTS: Final = 16
#: Characters of the name of a resource or card; its status may repeat them.
MAX_KEY: Final = 317


class Window(NamedTuple):
    """One window, in seconds since 1970; it ends before ``end``."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Days:
    """Days on which a window begins anew, by the clocks of a time zone.

    Attributes:
        weekdays: as ``datetime.weekday()`` counts them.
        until: no window begins then or later, in seconds since 1970; None for no end.
    """

    weekdays: frozenset[int]
    zone: tzinfo
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Windows:
    """All windows of a Reservation.

    Attributes:
        start: when the first may begin.
        seconds: how long each lasts.
        drain_before: how long before each, in seconds, pods without a maximum run time are kept
            away.
        days: when it comes again; None for one window.
    """

    start: datetime
    seconds: float
    drain_before: float
    days: Days | None = None

    def at(self, now: float) -> Window | None:
        """The window that holds now, or else the next one; None after the last.

        Args:
            now: in seconds since 1970.
        """
        first, days = self.start.timestamp(), self.days
        if days is None:
            return Window(first, first + self.seconds) if now < first + self.seconds else None
        try:
            local = self.start.astimezone(days.zone)
            seen = from_unix(max(now, first)).astimezone(days.zone)
            for back in range(-2, 9):
                day = seen.date() + timedelta(days=back)
                begin = datetime.combine(day, local.time(), days.zone).timestamp()
                if day.weekday() not in days.weekdays or begin < first:
                    continue
                if days.until is not None and begin >= days.until:
                    return None
                if now < begin + self.seconds:
                    return Window(begin, begin + self.seconds)
        except (OverflowError, ValueError, OSError):
            pass  # beyond the calendar
        return None

    def following(self, now: float) -> Iterator[Window]:
        """The window that holds now or comes next, and those after it; there may be no last one.

        Args:
            now: in seconds since 1970.
        """
        while (window := self.at(now)) is not None:
            yield window
            if self.days is None or window.end <= now:
                return
            now = window.end


def read_windows(spec: ReservationSpec) -> Windows:
    """What a Reservation says of its windows.

    Raises:
        ParseError: it cannot be read, or says nothing that could hold.
    """
    stated = spec.window
    start, seconds = _named("window.start", parse_time, stated.start), _length(stated)
    if seconds < 1:
        raise ParseError("window: it must last a second at least")
    days = None
    if stated.recurrence is not None:
        if seconds > MAX_RECURRING:
            raise ParseError("window: one that comes again may last a day at most")
        days = _days(stated.recurrence)
    drain_before = DEFAULT_DRAIN_BEFORE
    if spec.drain_before:
        drain_before = _named("drainBefore", parse_duration, spec.drain_before)
    return Windows(start, seconds, drain_before, days)


def problem_of(spec: ReservationSpec) -> str:
    """What is wrong with what a Reservation reserves, and for whom; "" if nothing is."""
    nodes, users = spec.nodes, spec.users
    amounts = len(nodes.resources) + len(nodes.cards)
    parts = len(nodes.per_node)
    if not nodes.names and nodes.selector is None and not amounts:
        return "nodes: neither names nor a selector, resources or cards"
    if nodes.count is not None and (nodes.count < 1 or nodes.selector is None):
        return "nodes.count: must be 1 or more, of the nodes of a selector"
    if nodes.count is not None and amounts:
        return "nodes: count, or resources and cards, not both"
    if nodes.per_node and spec.maintenance:
        return "nodes.perNode: maintenance takes whole nodes"
    if max(amounts, parts) > MAX_AMOUNTS:
        return f"nodes: more than {MAX_AMOUNTS} resources and cards"
    if max(map(len, (*nodes.resources, *nodes.cards, *nodes.per_node)), default=0) > MAX_KEY:
        return f"nodes: a name of more than {MAX_KEY} characters"
    if max(len(nodes.names), len(users.queues), len(users.gangs)) > MAX_NAMES:
        return f"more than {MAX_NAMES} names"
    named = bool(users.queues or users.gangs or users.namespace_selector is not None)
    if named == spec.maintenance:
        return "either users or maintenance: true must be given"
    return ""


def _length(stated: ReservationWindow) -> float:
    if bool(stated.end) == bool(stated.duration):
        raise ParseError("window: either end or duration must be given")
    if stated.duration:
        return _named("window.duration", parse_duration, stated.duration)
    start = _named("window.start", parse_time, stated.start)
    return (_named("window.end", parse_time, stated.end) - start).total_seconds()


def _days(stated: Recurrence) -> Days:
    unknown = [day for day in stated.days if day not in WEEKDAYS]
    if unknown or not stated.days:
        named = f"{shown(unknown[0])} is no" if unknown else "there must be a"
        raise ParseError(f"window.recurrence.days: {named} day such as Monday")
    weekdays = frozenset(map(WEEKDAYS.index, stated.days))
    zone = _named("window.recurrence.timeZone", parse_zone, stated.time_zone)
    until = None
    if stated.until:
        until = _named("window.recurrence.until", parse_time, stated.until).timestamp()
    return Days(weekdays, zone, until)


def _named(field: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ParseError as error:
        raise ParseError(f"{field}: {error}") from None
