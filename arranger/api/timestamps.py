"""Calendar time as the API writes it; nothing here is used to measure durations."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The calendar clock."""
    return datetime.now(UTC)


def micro_time(moment: datetime) -> str:
    """``metav1.MicroTime``: RFC 3339 in UTC with exactly six decimals."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def second_time(moment: datetime) -> str:
    """``metav1.Time``: RFC 3339 in UTC, whole seconds."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")[:-6] + "Z"
