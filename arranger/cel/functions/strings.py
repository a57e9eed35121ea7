"""Functions on texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import re2

from arranger.cel.errors import CelError, CostLimitError
from arranger.cel.functions.operators import MAX_TEXT
from arranger.cel.functions.table import Table

_UPPER: Final = {n: n - 32 for n in range(ord("a"), ord("z") + 1)}
_LOWER: Final = {n: n + 32 for n in range(ord("A"), ord("Z") + 1)}
#: What counts as white space to Go.
_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20
#: Characters of a pattern, and classes of Unicode in it: so many are compiled in 50 ms.
_MAX_PATTERN: Final = 10_240
_MAX_CLASSES: Final = 500
#: Characters of a text times states of a pattern: so many are gone through in 70 ms.
_MAX_SEARCH: Final = 50_000_000
_SEARCH_A_STEP: Final = 300


@lru_cache(maxsize=64)
def pattern(text: str) -> Any:
    """A compiled pattern, or an error."""
    too_large = len(text) > _MAX_PATTERN or text.count("\\p") + text.count("\\P") > _MAX_CLASSES
    try:
        return CelError("pattern too large") if too_large else re2.compile(text, options=_OPTIONS)
    except re2.error:
        return CelError(f"error parsing regexp: {text[:100]}")


def search_work(args: Sequence[Any]) -> int:
    """How long a search takes at most, in steps.

    Raises:
        CostLimitError: too long.
    """
    if len(args) < 2 or not all(isinstance(each, str) for each in args[:2]):
        return 0
    compiled = pattern(args[1])
    work = 0 if isinstance(compiled, CelError) else len(args[0]) * compiled.programsize
    if work > _MAX_SEARCH:
        raise CostLimitError
    return work // _SEARCH_A_STEP


def _matches(text: str, wanted: str) -> Any:
    compiled = pattern(wanted)
    return compiled if isinstance(compiled, CelError) else compiled.search(text) is not None


def _find(text: str, wanted: str) -> Any:
    compiled = pattern(wanted)
    if isinstance(compiled, CelError):
        return compiled
    found = compiled.search(text)
    return "" if found is None else found[0]


def _find_all(text: str, wanted: str, most: int = -1) -> Any:
    compiled = pattern(wanted)
    if isinstance(compiled, CelError):
        return compiled
    made: list[str] = []
    end = -1
    for found in compiled.finditer(text):
        if 0 <= most <= len(made):
            break
        # An empty match right after another is none.
        if found[0] or found.start() != end:
            made.append(found[0])
        end = found.end()
    return made


def _outside(at: int) -> CelError:
    return CelError(f"index out of range: {at}")


def _char_at(text: str, at: int) -> Any:
    return text[at : at + 1] if 0 <= at <= len(text) else _outside(at)


def _substring(text: str, start: int, end: int | None = None) -> Any:
    last = len(text) if end is None else end
    if end is not None and start > end:
        return CelError(f"invalid substring range. start: {start}, end: {end}")
    for at in (start, last):
        if not 0 <= at <= len(text):
            return _outside(at)
    return text[start:last]


def _index_of(text: str, wanted: str, start: int = 0) -> Any:
    if not wanted:
        return start
    return _outside(start) if start < 0 else text.find(wanted, start)


def _last_index_of(text: str, wanted: str, start: int | None = None) -> Any:
    if start is None:
        return text.rfind(wanted)
    if not wanted:
        return start
    if start < 0:
        return _outside(start)
    return -1 if start >= len(text) else text.rfind(wanted, 0, start + len(wanted))


def _replace(text: str, old: str, new: str, most: int = -1) -> Any:
    places = text.count(old)
    if len(text) + places * len(new) > MAX_TEXT:
        raise CostLimitError
    return text.replace(old, new, most)


def _split(text: str, at: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if most < 0:
        return text.split(at) if at else list(text)
    if at:
        return text.split(at, most - 1)
    return [*text[: most - 1], text[most - 1 :]] if text else []


def _join(texts: list[Any], between: str = "") -> Any:
    if not all(isinstance(each, str) for each in texts):
        return CelError("join: invalid input")
    if sum(map(len, texts)) + len(between) * len(texts) > MAX_TEXT:
        raise CostLimitError
    return between.join(texts)


_TEXT, _TEXTS = ("string",), ("string", "string")
TABLE: Final[Table] = {
    "startsWith": [(_TEXTS, str.startswith)],
    "endsWith": [(_TEXTS, str.endswith)],
    "contains": [(_TEXTS, str.__contains__)],
    "matches": [(_TEXTS, _matches)],
    "find": [(_TEXTS, _find)],
    "findAll": [(_TEXTS, _find_all), ((*_TEXTS, "int"), _find_all)],
    "charAt": [(("string", "int"), _char_at)],
    "substring": [(("string", "int"), _substring), (("string", "int", "int"), _substring)],
    "indexOf": [(_TEXTS, _index_of), ((*_TEXTS, "int"), _index_of)],
    "lastIndexOf": [(_TEXTS, _last_index_of), ((*_TEXTS, "int"), _last_index_of)],
    "lowerAscii": [(_TEXT, lambda text: text.translate(_LOWER))],
    "upperAscii": [(_TEXT, lambda text: text.translate(_UPPER))],
    "trim": [(_TEXT, lambda text: text.strip(_SPACE))],
    "replace": [((*_TEXTS, "string"), _replace), ((*_TEXTS, "string", "int"), _replace)],
    "split": [(_TEXTS, _split), ((*_TEXTS, "int"), _split)],
    "join": [(("list",), _join), (("list", "string"), _join)],
}
