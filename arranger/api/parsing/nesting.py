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

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def cut_deep_parts(raw: bytes) -> bytes:
    """The JSON with everything below so many levels replaced by a text."""
    depth, start, kept = 0, 0, []
    for token in _TOKEN.finditer(raw):
        if token[0] in (b"{", b"["):
            if depth == _MAX_DEPTH:
                kept += [raw[start : token.start()], CUT]
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
            if depth == _MAX_DEPTH:
                start = token.end()
    return b"".join([*kept, raw[start:]])
