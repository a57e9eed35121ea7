"""Durations as Go writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
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


def parse_lasting_duration(text: str) -> float:
    """Seconds of a duration of one second at least, as of ``activeDeadlineSeconds``.

    Raises:
        ParseError: it is no duration, shorter than a second, or too long for a clock.
    """
    seconds = parse_duration(text)
    if seconds < 1.0:
        raise ParseError(f"{shown(text)} is shorter than a second")
    return seconds


def lasting_duration_of(annotations: Mapping[str, str], key: str) -> float | None:
    """The same of an annotation; None where it says nothing, or nothing that can be read."""
    text = annotations.get(key)
    if not text:
        return None
    try:
        return parse_lasting_duration(text)
    except ParseError:
        return None
