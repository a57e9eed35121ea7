"""What a watch has told before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

#: So many lines of a watch are known when an older one is told again.
REMEMBERED: Final = 32


class _Told(msgspec.Struct):
    """As much of a line of a watch as tells what it is about."""

    type: str = ""
    object: dict[str, Any] = {}


def earlier(told: Sequence[bytes]) -> Iterator[bytes]:
    """The line before the last that is about the same object, if both show it alive."""
    *before, line = map(_read, told)
    uid = line.object.get("metadata", {}).get("uid")
    for each, text in zip(reversed(before), list(told)[-2::-1], strict=True):
        if uid and each.object.get("metadata", {}).get("uid") == uid:
            if "DELETED" not in (each.type, line.type):
                yield text + b"\n"
            return


def _read(line: bytes) -> _Told:
    """About nothing, where the line is nested more deeply than can be read."""
    try:
        return msgspec.json.decode(line, type=_Told)
    except RecursionError:
        return _Told()
