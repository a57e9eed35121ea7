"""Durations as Go writes them."""

from __future__ import annotations

import re
from typing import Final

from arranger.api.parsing.errors import ParseError, shown

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
#: Seconds that Go's durations can hold, which is about 292 years.
MAX_DURATION: Final = 290 * 365.25 * 86400
_MAX_LENGTH: Final = 1000


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as ``1h30m``; a bare number counts as seconds.

    Raises:
        ParseError: it is neither, or too long for a clock.
    """
    if len(text) <= _MAX_LENGTH and _SECONDS.fullmatch(text):
        seconds = float(text)
    elif not text or len(text) > _MAX_LENGTH or _PART.sub("", text):
        raise ParseError(f"{shown(text)} is not a duration such as 90s or 1h30m")
    else:
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds > MAX_DURATION:
        raise ParseError(f"{shown(text)} is longer than 290 years")
    return seconds
