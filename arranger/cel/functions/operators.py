"""Operators, and equality."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from arranger.cel.errors import CelError, CostLimitError, no_such_overload
from arranger.cel.functions.table import Table
from arranger.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    CelMap,
    Comparison,
    Uint,
    compare,
    equal,
)

#: Characters of a text and elements of a list; more cannot be paid for, or take too long.
MAX_TEXT: Final = 10_000_000
MAX_LIST: Final = 1_000_000


def checked_int(value: int) -> Any:
    """A number, if it has 64 bits."""
    return value if INT_MIN <= value <= INT_MAX else CelError("integer overflow")


def checked_uint(value: int) -> Any:
    """An unsigned number, if it has 64 bits."""
    return Uint(value) if 0 <= value <= UINT_MAX else CelError("unsigned integer overflow")


def _ints(of: Callable[[int, int], int]) -> Callable[[int, int], Any]:
    return lambda one, other: checked_int(of(one, other))


def _uints(of: Callable[[int, int], int]) -> Callable[[int, int], Any]:
    return lambda one, other: checked_uint(of(int(one), int(other)))


def _whole(one: int, other: int) -> int:
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _divide(one: int, other: int) -> Any:
    return CelError("division by zero") if other == 0 else checked_int(_whole(one, other))


def _divide_uint(one: int, other: int) -> Any:
    return CelError("division by zero") if other == 0 else Uint(int(one) // int(other))


def _modulo(one: int, other: int) -> Any:
    if other == 0:
        return CelError("modulus by zero")
    if one == INT_MIN and other == -1:
        return CelError("integer overflow")
    return one - other * _whole(one, other)


def _modulo_uint(one: int, other: int) -> Any:
    return CelError("modulus by zero") if other == 0 else Uint(int(one) % int(other))


def _divide_double(one: float, other: float) -> float:
    if other:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def joined(one: Any, other: Any) -> Any:
    """Two texts or lists, one after the other."""
    if len(one) + len(other) > (MAX_LIST if isinstance(one, list) else MAX_TEXT):
        raise CostLimitError
    return one + other


def _ordered(wanted: tuple[int, ...]) -> Callable[[Any, Any], Any]:
    def function(one: Any, other: Any) -> Any:
        order = compare(one, other)
        if order is not None:
            return order in wanted
        if isinstance(one, int | float) and isinstance(other, int | float):
            return CelError("NaN values cannot be ordered")
        return no_such_overload()

    return function


def _within(value: Any, container: Any) -> bool:
    return Comparison().is_in(container, value)


def _is_key(value: Any, container: CelMap) -> bool:
    return container.has(value)


def _inserted(of: CelMap, key: Any, value: Any) -> Any:
    if of.has(key):
        return CelError(f"insert failed: key {key} already exists")
    return of.with_entry(key, value)


def _inserted_all(of: CelMap, more: CelMap) -> Any:
    made: Any = of
    for key in more:
        made = _inserted(made, key, more.find(key))
        if isinstance(made, CelError):
            break
    return made


_INTS, _UINTS, _DOUBLES = ("int", "int"), ("uint", "uint"), ("double", "double")
_ANY_TWO: Final = ("any", "any")
TABLE: Final[Table] = {
    "_==_": [(_ANY_TWO, equal)],
    "_!=_": [(_ANY_TWO, lambda one, other: equal(one, other) is not True)],
    "!_": [(("bool",), lambda value: not value)],
    "@not_strictly_false": [(("any",), lambda value: value is not False)],
    "-_": [(("int",), lambda value: checked_int(-value)), (("double",), lambda value: -value)],
    "_+_": [
        (_INTS, _ints(lambda one, other: one + other)),
        (_UINTS, _uints(lambda one, other: one + other)),
        (_DOUBLES, lambda one, other: one + other),
        (("string", "string"), joined),
        (("bytes", "bytes"), joined),
        (("list", "list"), joined),
    ],
    "_-_": [
        (_INTS, _ints(lambda one, other: one - other)),
        (_UINTS, _uints(lambda one, other: one - other)),
        (_DOUBLES, lambda one, other: one - other),
    ],
    "_*_": [
        (_INTS, _ints(lambda one, other: one * other)),
        (_UINTS, _uints(lambda one, other: one * other)),
        (_DOUBLES, lambda one, other: one * other),
    ],
    "_/_": [(_INTS, _divide), (_UINTS, _divide_uint), (_DOUBLES, _divide_double)],
    "_%_": [(_INTS, _modulo), (_UINTS, _modulo_uint)],
    "_<_": [(_ANY_TWO, _ordered((-1,)))],
    "_<=_": [(_ANY_TWO, _ordered((-1, 0)))],
    "_>_": [(_ANY_TWO, _ordered((1,)))],
    "_>=_": [(_ANY_TWO, _ordered((0, 1)))],
    "_in_": [(("any", "list"), _within), (("any", "map"), _is_key)],
    "size": [((kind,), len) for kind in ("string", "bytes", "list", "map")],
    "cel.@mapInsert": [(("map", "any", "any"), _inserted), (("map", "map"), _inserted_all)],
}
