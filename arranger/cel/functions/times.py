"""Times and spans of time.

Upstream: ``common/types/{timestamp,duration}.go`` of ``cel-go``, and Go's ``time``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from arranger.cel.errors import CelError
from arranger.cel.functions.table import Table
from arranger.cel.values import INT_MAX, INT_MIN, register_kind, register_order

_SECOND: Final = 10**9
_DAY: Final = 86_400
#: The first second of the year 1, and the last of the year 9999.
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART: Final = re.compile(r"([0-9]{0,40})(?:\.([0-9]{0,40}))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,40}))?(?:Z|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_OFFSET: Final = re.compile(r"([+-]?\d{1,4}):(\d{1,4})", re.ASCII)
#: Characters of a span of time, or of the name of a time zone.
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time, in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, in nanoseconds since 1970.

    Attributes:
        east: the minutes by which whoever wrote it was ahead of UTC, for texts.
    """

    nanos: int
    east: int = field(default=0, compare=False)


for _kind, _name in ((Duration, "duration"), (Timestamp, "timestamp")):
    register_kind(_kind, _name)
    register_order(_kind)


def _checked_duration(nanos: int) -> Any:
    return Duration(nanos) if INT_MIN <= nanos <= INT_MAX else CelError("integer overflow")


def _checked_timestamp(nanos: int, east: int = 0) -> Any:
    if not _FIRST <= nanos // _SECOND <= _LAST:
        return CelError("timestamp overflow")
    return Timestamp(nanos, east)


def total(spans: list[Duration]) -> Any:
    """All of them one after the other."""
    found = Duration(0)
    for span in spans:
        added = _checked_duration(found.nanos + span.nanos)
        if isinstance(added, CelError):
            return added
        found = added
    return found


def read_duration(text: str) -> Any:
    """A span as Go reads it, ``1h30m``, or an error."""
    wrong = CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return Duration(0)
    if not rest or len(rest) > _LONGEST:
        return wrong
    nanos = at = 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            return wrong
        unit = _UNITS[part[3]]
        nanos += int(part[1] or 0) * unit + _fraction(part[2] or "", unit)
        at = part.end()
    nanos *= sign
    return Duration(nanos) if INT_MIN <= nanos <= INT_MAX else wrong


def _fraction(digits: str, unit: int) -> int:
    """Nanoseconds of the digits behind a point: of those that fit, multiplied as Go does it."""
    while digits and int(digits) > 2**63:
        digits = digits[:-1]
    return int(int(digits or 0) * (unit / math.prod([10.0] * len(digits))))


def read_timestamp(text: str) -> Any:
    """A moment of RFC 3339, or an error."""
    wrong = CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    found = _TIME.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return wrong
    year, month, day, hour, minute, second = (int(found[n]) for n in range(1, 7))
    east = 60 * int(found[9] or 0) + int(found[10] or 0)
    if int(found[9] or 0) > 24 or int(found[10] or 0) > 60:
        return wrong
    try:
        # The year 0 has a year of 400 years later's days.
        moment = datetime(year or 400, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return wrong
    seconds = round((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1))
    seconds -= 0 if year else 146_097 * _DAY
    east = -east if found[8] == "-" else east
    fraction = int((found[7] or "0")[:9].ljust(9, "0"))
    return _checked_timestamp((seconds - 60 * east) * _SECOND + fraction, east)


def of_seconds(seconds: int) -> Any:
    """The moment so many seconds after 1970."""
    return _checked_timestamp(seconds * _SECOND)


def _text_of_timestamp(moment: Timestamp) -> str:
    seconds, nanos = divmod(moment.nanos, _SECOND)
    # Beyond the last day of our calendar only by an offset: then it is written without.
    written = min(max(seconds + 60 * moment.east, _FIRST), _LAST)
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=written)
    fraction = f".{nanos:09}".rstrip("0") if nanos else ""
    hours, minutes = divmod(abs(moment.east), 60)
    zone = f"{'-' if moment.east < 0 else '+'}{hours:02}:{minutes:02}" if moment.east else "Z"
    return f"{at.year:04}-{at:%m-%dT%H:%M:%S}{fraction}{zone}"


def _text_of_duration(span: Duration) -> str:
    text = format(Decimal(repr(span.nanos / _SECOND)), "f")
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}s"


def _zone(name: str) -> tzinfo | CelError:
    if found := _OFFSET.fullmatch(name):
        hours, minutes = int(found[1]), int(found[2])
        east = 60 * hours - minutes if name[0] == "-" else 60 * hours + minutes
        if abs(east) < 24 * 60:
            return timezone(timedelta(minutes=east))
    elif name in ("", "UTC", "Local"):
        return UTC
    elif len(name) <= _LONGEST and ":" not in name:
        try:
            return ZoneInfo(name)
        except (LookupError, ValueError, OSError):
            pass
    return CelError(f"unknown time zone {name[:_LONGEST]}")


def _reading(of: Callable[[datetime], int]) -> Callable[..., Any]:
    def read(moment: Timestamp, name: str = "UTC") -> Any:
        zone = _zone(name)
        if isinstance(zone, CelError):
            return zone
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment.nanos // 1000)
        try:
            return of(at.astimezone(zone))
        except OverflowError:
            return CelError("timestamp overflow")

    return read


def _part_of(unit: int) -> Callable[[Duration], int]:
    def read(span: Duration) -> int:
        whole = abs(span.nanos) // unit
        return whole if span.nanos >= 0 else -whole

    return read


def _getter(of: Callable[[datetime], int]) -> list[tuple[tuple[str, ...], Callable[..., Any]]]:
    return [(("timestamp",), _reading(of)), (("timestamp", "string"), _reading(of))]


_SPANS, _MOMENTS = ("duration", "duration"), ("timestamp", "timestamp")
_SPAN, _MOMENT = _SPANS[:1], _MOMENTS[:1]
TABLE: Final[Table] = {
    "timestamp": [
        (_MOMENT, lambda moment: moment),
        (("int",), of_seconds),
        (("string",), read_timestamp),
    ],
    "duration": [
        (_SPAN, lambda span: span),
        (
            ("int",),
            lambda _: CelError("type conversion error from 'int' to 'google.protobuf.Duration'"),
        ),
        (("string",), read_duration),
    ],
    "int": [
        (_MOMENT, lambda moment: moment.nanos // _SECOND),
        (_SPAN, lambda span: span.nanos),
    ],
    "string": [(_MOMENT, _text_of_timestamp), (_SPAN, _text_of_duration)],
    "_+_": [
        (_SPANS, lambda one, other: _checked_duration(one.nanos + other.nanos)),
        (
            _SPAN + _MOMENT,
            lambda one, other: _checked_timestamp(one.nanos + other.nanos, other.east),
        ),
        (_MOMENT + _SPAN, lambda one, other: _checked_timestamp(one.nanos + other.nanos, one.east)),
    ],
    "_-_": [
        (_SPANS, lambda one, other: _checked_duration(one.nanos - other.nanos)),
        (_MOMENT + _SPAN, lambda one, other: _checked_timestamp(one.nanos - other.nanos, one.east)),
        (_MOMENTS, lambda one, other: _checked_duration(one.nanos - other.nanos)),
    ],
    "getFullYear": _getter(lambda at: at.year),
    "getMonth": _getter(lambda at: at.month - 1),
    "getDayOfYear": _getter(lambda at: at.timetuple().tm_yday - 1),
    "getDayOfMonth": _getter(lambda at: at.day - 1),
    "getDate": _getter(lambda at: at.day),
    "getDayOfWeek": _getter(lambda at: at.isoweekday() % 7),
    "getHours": [*_getter(lambda at: at.hour), (_SPAN, _part_of(3600 * _SECOND))],
    "getMinutes": [*_getter(lambda at: at.minute), (_SPAN, _part_of(60 * _SECOND))],
    "getSeconds": [*_getter(lambda at: at.second), (_SPAN, _part_of(_SECOND))],
    "getMilliseconds": [
        *_getter(lambda at: at.microsecond // 1000),
        (_SPAN, _part_of(10**6)),
    ],
}
