"""Calendar time as the API writes it; nothing here is used to measure durations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_LAST: Final = datetime.max.replace(tzinfo=UTC)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = datetime.min.replace(tzinfo=UTC)


def utc_now() -> datetime:
    """The calendar clock."""
    return datetime.now(UTC)


def after(moment: datetime, seconds: float) -> datetime:
    """So many seconds later; at the end of the calendar where that is beyond it."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST if seconds > 0 else _FIRST


def from_unix(seconds: float) -> datetime:
    """The moment so many seconds since 1970, within the calendar."""
    return after(_EPOCH, seconds)


def micro_time(moment: datetime) -> str:
    """``metav1.MicroTime``: RFC 3339 in UTC with exactly six decimals."""
    return _in_utc(moment).isoformat(timespec="microseconds")[:-6] + "Z"


def second_time(moment: datetime) -> str:
    """``metav1.Time``: RFC 3339 in UTC, whole seconds."""
    return _in_utc(moment).isoformat(timespec="seconds")[:-6] + "Z"


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is UTC:
        return moment
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # at one of the calendar's ends, by the hours of a zone
        return _FIRST if moment.year == 1 else _LAST
