"""When a CronJob is due: the schedules that kube-controller-manager reads (robfig/cron v3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, Protocol
from zoneinfo import ZoneInfo

#: A schedule that is due on no day of so many, as cron of Go looks five years ahead, is never due.
_DAYS: Final = 5 * 366
_LONGEST: Final = 1_000
_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: Field → (least, most, names of the numbers from the least on).
_FIELDS: Final = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _WEEKDAYS),
)
_DESCRIPTORS: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_PARTS: Final = re.compile(r"(\d{1,9})(h|m|s)")
_SECONDS: Final = {"h": 3600, "m": 60, "s": 1}


class Schedule(Protocol):
    """When something is due."""

    def after(self, moment: datetime) -> datetime | None:
        """The first time after a moment, in UTC; None if there is none within five years."""


def parse_schedule(text: str, zone: str = "") -> Schedule:
    """A schedule of five fields, or one such as ``@daily``, in a time zone of IANA; "": UTC.

    Raises:
        ValueError: it cannot be read, or nobody knows the zone.
    """
    if len(text) > _LONGEST:
        raise ValueError("spec.schedule is too long")
    if text.startswith(_EVERY):
        return _Every(_seconds(text.removeprefix(_EVERY)))
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"spec.schedule has {len(fields)} fields; it must have {len(_FIELDS)}")
    read = [_field(*each, given) for each, given in zip(_FIELDS, fields, strict=True)]
    minutes, hours, days, months, weekdays = (numbers for numbers, _ in read)
    either = not (read[2][1] or read[4][1])
    return _Calendar(_zone(zone), minutes, hours, days, months, weekdays, either)


def last_due(schedule: Schedule, since: datetime, now: datetime) -> datetime | None:
    """The last time after ``since`` that is not after ``now``; None if there is none.

    It is looked for further and further back: of the many times that may have been missed only
    those of the last span count.
    """
    if isinstance(schedule, _Every):
        times = int((now - since).total_seconds() // schedule.seconds)
        return since + timedelta(seconds=times * schedule.seconds) if times > 0 else None
    span, found = timedelta(minutes=1), None
    while found is None:
        start = max(since, now - span)
        due = schedule.after(start)
        while due is not None and due <= now:
            found, due = due, schedule.after(due)
        if start == since:
            break
        span *= 2
    return found


@dataclass(frozen=True, slots=True)
class _Every:
    """At equal distances from when it was last due."""

    seconds: int

    def after(self, moment: datetime) -> datetime:
        return moment + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class _Calendar:
    """At these times of the wall clock; ``either``: the day of the month or of the week decides.

    A time that a clock skips is left out; one that it shows twice is due twice.
    """

    zone: tzinfo
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool

    def after(self, moment: datetime) -> datetime | None:
        local = moment.astimezone(self.zone)
        for n in range(_DAYS):
            day = local.date() + timedelta(days=n)
            if self._is_on(day):
                first = local.hour if n == 0 else 0
                for due in self._times(day, first):
                    if due > moment:
                        return due
        return None

    def _is_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either else of_month and of_week

    def _times(self, day: date, first: int) -> Iterator[datetime]:
        for hour in sorted(each for each in self.hours if each >= first):
            for fold in (0, 1):
                for minute in sorted(self.minutes):
                    shown = datetime(
                        day.year, day.month, day.day, hour, minute, tzinfo=self.zone, fold=fold
                    )
                    due = shown.astimezone(UTC)
                    again = due.astimezone(self.zone)
                    is_shown = again.replace(tzinfo=None) == shown.replace(tzinfo=None)
                    if is_shown and again.fold == fold:
                        yield due


def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"spec.timeZone: unknown time zone {name}") from error


def _seconds(text: str) -> int:
    """Of a duration such as ``1h30m``, in whole seconds."""
    parts = _PARTS.findall(text)
    if not parts or "".join(n + unit for n, unit in parts) != text:
        raise ValueError(f"spec.schedule: {text} is not a duration")
    return max(1, sum(int(n) * _SECONDS[unit] for n, unit in parts))


def _field(
    name: str, least: int, most: int, names: tuple[str, ...], text: str
) -> tuple[frozenset[int], bool]:
    """(its numbers, whether it says nothing: a star without a step)."""
    numbers: set[int] = set()
    is_star = False
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(step_text, (), 0) if slash else 1
        if span in ("*", "?"):
            first, last = least, most
            is_star = is_star or step == 1
        else:
            low, dash, high = span.partition("-")
            first = _number(low, names, least)
            last = _number(high, names, least) if dash else most if slash else first
        if not step or not least <= first <= last <= most:
            raise ValueError(f"spec.schedule: {part} is no {name}")
        numbers.update(range(first, last + 1, step))
    return frozenset(numbers), is_star


def _number(text: str, names: tuple[str, ...], least: int) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + least
    if not (text.isascii() and text.isdigit()) or len(text) > 4:
        raise ValueError(f"spec.schedule: {text} is not a number")
    return int(text)
