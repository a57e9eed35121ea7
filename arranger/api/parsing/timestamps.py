"""Points in time as the API writes them (RFC 3339)."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from arranger.api.parsing.errors import ParseError, shown

_MAX_LENGTH: Final = 64


def parse_time(text: str) -> datetime:
    """A point in time, in UTC; without a zone it is taken for UTC.

    Raises:
        ParseError: it is none, or not within the years 1 to 9999 in UTC.
    """
    try:
        if len(text) > _MAX_LENGTH:
            raise ParseError("too long")
        moment = msgspec.convert(text, datetime)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (msgspec.ValidationError, ValueError, OverflowError):
        raise ParseError(f"{shown(text)} is not a time such as 2026-01-31T12:00:00Z") from None


def parse_zone(text: str) -> tzinfo:
    """A time zone by its name in the IANA database; ``UTC`` is known without one.

    Raises:
        ParseError: there is none of that name on this machine.
    """
    if text == "UTC":
        return UTC
    try:
        if len(text) > _MAX_LENGTH:
            raise ParseError("too long")
        return ZoneInfo(text)
    except (ValueError, OSError, LookupError):
        raise ParseError(f"{shown(text)} is no time zone such as Europe/Berlin") from None
