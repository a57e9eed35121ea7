"""Whole numbers and booleans."""

from __future__ import annotations

import re
from typing import Final

from arranger.api.parsing.errors import ParseError, shown

MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")


def parse_int(text: str, *, minimum: int = 0, maximum: int = MAX_INT64) -> int:
    """A whole number within bounds; none has more than 20 digits.

    Raises:
        ParseError: it is none.
    """
    number = int(text) if _INTEGER.fullmatch(text) else None
    if number is None or not minimum <= number <= maximum:
        raise ParseError(f"{shown(text)} is not a whole number from {minimum} to {maximum}")
    return number


def parse_int_or(text: str, default: int) -> int:
    """A whole number that is not negative, or ``default`` where the text is none."""
    try:
        return parse_int(text)
    except ParseError:
        return default


def parse_bool(text: str) -> bool:
    """``true`` or ``false``, in any case.

    Raises:
        ParseError: it is neither.
    """
    if len(text) > len("false") or text.lower() not in ("true", "false"):
        raise ParseError(f"{shown(text)} is neither true nor false")
    return text.lower() == "true"
