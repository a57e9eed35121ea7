"""What device selectors can compute with: versions, quantities, and functions on them.

Upstream: the CEL libraries ``quantity``, ``semver`` and the strings extension of
``k8s.io/apiserver/pkg/cel/library``. Imported only when a selector is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, Final

from celpy import celtypes
from celpy.evaluation import CELEvalError

from arranger.api.cel_quantity import QUANTITIES, Quantity, compare
from arranger.api.parsing.errors import ParseError, shown
from arranger.api.parsing.scalars import parse_int

_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*))*))?"
    r"(?:\+[\dA-Za-z-]+(?:\.[\dA-Za-z-]+)*)?",
    re.ASCII,
)
#: The function that ``.?`` stands for.
SELECT: Final = "optSelect"


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version; equal to others of the same precedence."""

    release: tuple[int, int, int]
    pre: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, *, normalize: bool = False) -> Version:
        """Read a version; ``normalize`` accepts a leading ``v``, missing parts and leading zeros.

        Raises:
            ParseError: it is not a semantic version.
        """
        found = _VERSION.fullmatch(_normal(text) if normalize else text)
        if found is None:
            raise ParseError(f"{shown(text)} is not a semantic version")
        major, minor, patch, pre = found.groups()
        parts = tuple(pre.split(".")) if pre else ()
        for part in filter(str.isdigit, parts):
            _parse_uint64(part)
        release = _parse_uint64(major), _parse_uint64(minor), _parse_uint64(patch)
        return cls(release, parts)

    def __lt__(self, other: Version) -> bool:
        return self._order() < other._order()

    def _order(self) -> tuple[Any, ...]:
        # Numbers come before words, and pre-releases before the release itself.
        pre = [(False, _parse_uint64(p)) if p.isdigit() else (True, p) for p in self.pre]
        return self.release, not self.pre, pre


def _parse_uint64(text: str) -> int:
    return parse_int(text, maximum=2**64 - 1)


def _normal(text: str) -> str:
    bare = text.removeprefix("v")
    end = min((n for n in (bare.find("-"), bare.find("+")) if n >= 0), default=len(bare))
    parts = [part.lstrip("0") or "0" for part in bare[:end].split(".")]
    return ".".join([*parts, *["0"] * (3 - len(parts))]) + bare[end:]


class CelOptional(celtypes.MapType):
    """A value that may be absent (``device.?name``); selecting from it gives another one."""

    def __init__(self, values: tuple[Any, ...] = ()) -> None:
        super().__init__()
        self.values_ = values

    def __getitem__(self, key: Any) -> CelOptional:
        return opt_select(self, key)


def opt_select(of: Any, key: Any) -> CelOptional:
    """The value of that key in a map or optional, as an optional."""
    for found in of.values_ if isinstance(of, CelOptional) else (of,):
        try:
            return CelOptional((found[key],))
        except KeyError:
            break
    return CelOptional()


def _or_value(maybe: CelOptional, otherwise: Any) -> Any:
    return maybe.values_[0] if maybe.values_ else otherwise


def _value(maybe: CelOptional) -> Any:
    if not maybe.values_:
        raise ValueError("optional.none() dereference")
    return maybe.values_[0]


def equal(one: Any, other: Any) -> Any:
    """CEL's equality: values of different types are unequal, which is no error."""
    for given in (one, other):
        if isinstance(given, CELEvalError):
            return given
    if isinstance(one, celtypes.BoolType) != isinstance(other, celtypes.BoolType):
        return celtypes.BoolType(False)
    try:
        return celtypes.BoolType(bool(one == other))
    except TypeError:
        return celtypes.BoolType(False)


def _unequal(one: Any, other: Any) -> Any:
    same = equal(one, other)
    return same if isinstance(same, CELEvalError) else celtypes.BoolType(not same)


def _within(item: Any, container: Any) -> Any:
    for given in (item, container):
        if isinstance(given, CELEvalError):
            return given
    return celtypes.BoolType(any(bool(equal(item, other)) for other in container))


def _compare(one: Any, other: Any) -> int:
    if type(one) is not type(other) or not isinstance(one, Version | Quantity):
        raise TypeError("no such overload")
    if isinstance(one, Quantity):
        return compare(one, other)
    return bool(one > other) - bool(one < other)


def _semver(text: Any, normalize: Any = False) -> Version:
    return Version.parse(str(text), normalize=bool(normalize))


def _is_semver(text: Any, normalize: Any = False) -> Any:
    try:
        _semver(text, normalize)
    except ValueError:
        return celtypes.BoolType(False)
    return celtypes.BoolType(True)


def _part(n: int) -> Callable[[Version], Any]:
    return lambda version: celtypes.IntType(version.release[n])


def _text(of: Callable[..., str]) -> Callable[..., Any]:
    return lambda *given: celtypes.StringType(of(*given))


#: By name, for functions and methods alike.
FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **QUANTITIES,
    "_==_": equal,
    "_!=_": _unequal,
    "_in_": _within,
    "orValue": _or_value,
    "hasValue": lambda maybe: celtypes.BoolType(bool(maybe.values_)),
    "value": _value,
    SELECT: opt_select,
    "semver": _semver,
    "isSemver": _is_semver,
    "compareTo": lambda one, other: celtypes.IntType(_compare(one, other)),
    "isGreaterThan": lambda one, other: celtypes.BoolType(_compare(one, other) > 0),
    "isLessThan": lambda one, other: celtypes.BoolType(_compare(one, other) < 0),
    "major": _part(0),
    "minor": _part(1),
    "patch": _part(2),
    "lowerAscii": _text(lambda text: text.lower()),
    "upperAscii": _text(lambda text: text.upper()),
    "trim": _text(lambda text: text.strip()),
    "replace": _text(lambda text, old, new: text.replace(old, new)),
    "substring": _text(lambda text, start, end=None: text[start:end]),
    "split": lambda text, at: celtypes.ListType([celtypes.StringType(t) for t in text.split(at)]),
    "indexOf": lambda text, what: celtypes.IntType(text.find(what)),
}
