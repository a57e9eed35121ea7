"""Functions on lists and sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any, Final

from arranger.cel.errors import CelError, CostLimitError, no_such_overload
from arranger.cel.functions import operators, times
from arranger.cel.functions.table import Table
from arranger.cel.values import Comparison, Optional, compare, kind_of

_COMPARABLE: Final = ("bool", "int", "uint", "double", "string", "bytes", "duration", "timestamp")


def _all_comparable(given: list[Any]) -> bool:
    return all(kind_of(each) in _COMPARABLE for each in given)


def _is_sorted(given: list[Any]) -> Any:
    if not _all_comparable(given):
        return no_such_overload()
    return all(compare(one, other) != 1 for one, other in pairwise(given))


def _sum(given: list[Any]) -> Any:
    kinds = {kind_of(each) for each in given}
    if not kinds:
        return 0
    if kinds == {"double"}:
        return reduce(lambda one, other: one + other, given, 0.0)
    if kinds == {"duration"}:
        return times.total(given)
    if kinds == {"int"}:
        return _added(given, operators.checked_int)
    return _added(given, operators.checked_uint) if kinds == {"uint"} else no_such_overload()


def _added(given: list[Any], checked: Callable[[int], Any]) -> Any:
    total = 0
    for each in given:
        found = checked(total + int(each))
        if isinstance(found, CelError):
            return found
        total = found
    return checked(total)


def _extreme(name: str, worse: int) -> Callable[[list[Any]], Any]:
    def function(given: list[Any]) -> Any:
        if not given:
            return CelError(f"{name} called on empty list")
        if not _all_comparable(given):
            return no_such_overload()
        return reduce(lambda a, b: b if compare(a, b) == worse else a, given)

    return function


def _index_of(given: list[Any], wanted: Any) -> int:
    comparison = Comparison()
    return next((n for n, each in enumerate(given) if comparison.equal(each, wanted) is True), -1)


def _last_index_of(given: list[Any], wanted: Any) -> int:
    comparison, places = Comparison(), range(len(given) - 1, -1, -1)
    return next((n for n in places if comparison.equal(given[n], wanted) is True), -1)


def _range(count: int) -> list[int]:
    if count > operators.MAX_LIST:
        raise CostLimitError
    return list(range(count))


def _slice(given: list[Any], start: int, end: int) -> Any:
    if not 0 <= start <= end <= len(given):
        return CelError(f"cannot slice({start}, {end}), list is length {len(given)}")
    return given[start:end]


def _flatten(given: list[Any], depth: int = 1) -> Any:
    if depth < 0:
        return CelError("level must be non-negative")
    made: list[Any] = []
    for each in given:
        inner = _flatten(each, depth - 1) if isinstance(each, list) and depth else [each]
        if len(made) + len(inner) > operators.MAX_LIST:
            raise CostLimitError
        made += inner
    return made


def _distinct(given: list[Any]) -> list[Any]:
    made: list[Any] = []
    comparison = Comparison()
    for each in given:
        if not comparison.is_in(made, each):
            made.append(each)
    return made


def _sorted_by(given: list[Any], keys: list[Any]) -> Any:
    if len(given) != len(keys):
        return CelError("expected a list of the same size as the associated keys list")
    if not given:
        return given
    if kind_of(keys[0]) not in _COMPARABLE:
        return CelError("list elements must be comparable")
    if len(keys) > 1 and len({kind_of(key) for key in keys}) > 1:
        return CelError("list elements must have the same type")
    order = sorted(range(len(given)), key=lambda n: keys[n])
    return [given[n] for n in order]


def _contains_all(given: list[Any], wanted: list[Any]) -> bool:
    comparison = Comparison()
    return all(comparison.is_in(given, each) for each in wanted)


def _equivalent(one: list[Any], other: list[Any]) -> bool:
    return _contains_all(one, other) and _contains_all(other, one)


def _intersects(one: list[Any], other: list[Any]) -> bool:
    comparison = Comparison()
    return any(comparison.is_in(other, each) for each in one)


_LIST, _LISTS = ("list",), ("list", "list")
TABLE: Final[Table] = {
    "isSorted": [(_LIST, _is_sorted)],
    "sum": [(_LIST, _sum)],
    "min": [(_LIST, _extreme("min", 1))],
    "max": [(_LIST, _extreme("max", -1))],
    "indexOf": [(("list", "any"), _index_of)],
    "lastIndexOf": [(("list", "any"), _last_index_of)],
    "lists.range": [(("int",), _range)],
    "slice": [(("list", "int", "int"), _slice)],
    "flatten": [(_LIST, _flatten), (("list", "int"), _flatten)],
    "reverse": [(_LIST, lambda given: given[::-1])],
    "distinct": [(_LIST, _distinct)],
    "sort": [(_LIST, lambda given: _sorted_by(given, given))],
    "@sortByAssociatedKeys": [(_LISTS, _sorted_by)],
    "first": [(_LIST, lambda given: Optional(given[0]) if given else Optional())],
    "last": [(_LIST, lambda given: Optional(given[-1]) if given else Optional())],
    "sets.contains": [(_LISTS, _contains_all)],
    "sets.equivalent": [(_LISTS, _equivalent)],
    "sets.intersects": [(_LISTS, _intersects)],
}
