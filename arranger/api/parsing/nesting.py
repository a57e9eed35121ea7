"""JSON that is nested too deeply to be decoded, cut so that the rest of it can be.

An API server takes 10,000 levels in fields without a schema; our decoders follow a few hundred.
"""

from __future__ import annotations

import re
from typing import Final

#: Levels that are kept; no type of ours has as many.
_MAX_DEPTH: Final = 64
#: Stands where something was cut out. Whoever writes it into an object himself has it skipped.
CUT: Final = b'"nested too deeply for arranger"'
TOO_DEEP: Final = "it is nested too deeply"

#: Brackets of one object that are looked at. A node with 50 images has a few hundred.
MAX_BRACKETS: Final = 50_000

_CLOSING: Final = {b"{": b"}", b"[": b"]"}
#: A bracket, after texts and whatever else is not one.
_BRACKET: Final = re.compile(
    rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+([\[\]{}])', re.DOTALL
)


def is_too_deep(raw: bytes) -> bool:
    """Whether JSON has more levels than are kept, or more brackets than are looked at."""
    if raw.count(b"{") + raw.count(b"[") <= _MAX_DEPTH:
        return False
    return cut_deep_parts(raw, MAX_BRACKETS) != raw


def cut_deep_parts(raw: bytes, most: int | None = None) -> bytes:
    """The JSON with everything below so many levels replaced by a text.

    Args:
        most: brackets that are opened until everything that follows is cut, too: each takes half a
            microsecond, and an object of 1.5 MB may have half a million. An API server
            writes the metadata first, so that they are kept.
    """
    start, kept = 0, []
    closing: list[bytes] = []
    opened = 0
    for token in _BRACKET.finditer(raw):
        if token[1] in _CLOSING:
            if opened == most:
                if len(closing) <= _MAX_DEPTH:
                    kept += [raw[start : token.start(1)], CUT]
                return b"".join([*kept, *reversed(closing[:_MAX_DEPTH])])
            opened += 1
            if len(closing) == _MAX_DEPTH:
                kept += [raw[start : token.start(1)], CUT]
            closing.append(_CLOSING[token[1]])
        elif closing:
            closing.pop()
            if len(closing) == _MAX_DEPTH:
                start = token.end()
    return b"".join([*kept, raw[start:]])
