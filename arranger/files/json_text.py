"""JSON in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from arranger.files.limits import LIMITS, TOO_DEEP, FileError, Limits

_NUMBER: Final = re.compile(r"[0-9]{20,}")


def parse_json(text: str, limits: Limits = LIMITS) -> Any:
    """The value of a JSON text.

    Raises:
        FileError: it is not JSON, or too large or too deep.
    """
    # No more elements than these: strings may hold some of the characters.
    if sum(map(text.count, ",[{")) > limits.elements:
        raise FileError(f"more than {limits.elements} elements")
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise FileError(TOO_DEEP) from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise _why_not(text, error) from None
    if _depth(value, limits.depth) > limits.depth:
        raise FileError(TOO_DEEP)
    return value


def _why_not(text: str, error: Exception) -> FileError:
    """The same in the words of Python's own parser, which knows the line."""
    try:
        json.loads(text)
    except json.JSONDecodeError as known:
        return FileError(f"not JSON: {known.msg}", known.lineno, known.colno)
    except RecursionError:
        return FileError(TOO_DEEP)
    except ValueError:
        pass
    if _NUMBER.search(text):
        return FileError("not JSON: a number with too many digits")
    return FileError(f"not JSON: {' '.join(str(error).split())}")


def _depth(value: Any, limit: int) -> int:
    """How deep lists and maps are inside of each other; no further than just above the limit."""
    level, depth = _containers([value]), 0
    while level and depth <= limit:
        depth += 1
        level = [inner for each in level for inner in _inside(each)]
    return depth


def _inside(container: Any) -> Iterator[Any]:
    return iter(_containers(container.values() if isinstance(container, dict) else container))


def _containers(values: Any) -> list[Any]:
    return [value for value in values if isinstance(value, list | dict)]
