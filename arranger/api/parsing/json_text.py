"""JSON in a text, as annotations have it."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from arranger.api.parsing.errors import ParseError, shown

#: An annotation is at most four times as long; whoever needs more says so.
MAX_LENGTH: Final = 65_536
MAX_DEPTH: Final = 16
MAX_ELEMENTS: Final = 10_000
#: Digits of a number, as many as 64 bits have.
MAX_DIGITS: Final = 19

#: Strings, whole or not; and what counts outside of them.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[\]{},]|[0-9]{20,}', re.DOTALL)


def parse_json(text: str, *, max_length: int = MAX_LENGTH, max_elements: int = MAX_ELEMENTS) -> Any:
    """The value of a JSON text.

    Raises:
        ParseError: it is not JSON, or larger or deeper than anything that we are told in it.
    """
    if len(text) > max_length:
        raise ParseError(f"{shown(text)} has more than {max_length} characters")
    depth = elements = 0
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if first in "[{":
            depth += 1
        elif first in "]}":
            depth -= 1
        elif first == ",":
            elements += 1
        elif first != '"':
            raise ParseError(f"{shown(text)} has a number with more than {MAX_DIGITS} digits")
        if depth > MAX_DEPTH:
            raise ParseError(f"{shown(text)} is nested more than {MAX_DEPTH} deep")
        if elements >= max_elements:
            raise ParseError(f"{shown(text)} has more than {max_elements} elements")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise ParseError(f"{shown(text)} is not JSON") from None
