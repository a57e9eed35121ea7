"""What calls cost, in the units of ``cel-go``: about one for each value that is looked at.

Upstream: ``interpreter/runtimecost.go`` and ``ext/{lists,sets}.go`` of ``cel-go``,
``k8s.io/apiserver/pkg/cel/library/cost.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from arranger.cel.errors import EvaluationError
from arranger.cel.values import MAX_LOOKED_AT, CelMap, fraction, kind_of, size_of

#: The cost of a call, from its arguments.
Cost = Callable[[Sequence[Any]], int]
#: The same from its result, where nothing else tells it.
ResultCost = Callable[[Any], int]


def cost_of(function: str, overload: str) -> Cost | int:
    """What a call costs before it is made; ``overload`` is "" where only values can tell it."""
    if function == "join" or overload in _OF_RESULT:
        return 0
    found = _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function)
    return 1 if found is None else found


def cost_of_result(function: str, overload: str) -> ResultCost | None:
    """What a call costs besides, once it is known what it gives; None for nothing."""
    if function == "join":
        return lambda result: fraction(size_of(result) * 2)
    return (lambda result: 11 + size_of(result)) if overload in _OF_RESULT else None


def traversal_cost(value: Any) -> int:
    """The cost of looking at everything inside; no more is counted than is ever paid for."""
    left = [4 * MAX_LOOKED_AT]

    def count(each: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            return 1
        if isinstance(each, str):
            return int(len(each.encode()) * 0.1)
        if isinstance(each, bytes):
            return int(len(each) * 0.1)
        if isinstance(each, list):
            return sum(map(count, each))
        if isinstance(each, CelMap):
            return sum(count(key) + count(each.find(key)) for key in each)
        return 1

    return count(value)


def _once(args: Sequence[Any]) -> int:
    return fraction(size_of(args[0]))


def _twice(args: Sequence[Any]) -> int:
    return fraction(size_of(args[0]) * 2)


def _shorter(args: Sequence[Any]) -> int:
    return fraction(min(size_of(args[0]), size_of(args[1])))


def _equality(args: Sequence[Any]) -> int:
    return 1 if "." in kind_of(args[0]) else _shorter(args)


def _both(args: Sequence[Any]) -> int:
    return fraction(size_of(args[0]) + size_of(args[1]))


def _pattern(args: Sequence[Any]) -> int:
    return fraction(1.0 + size_of(args[0])) * fraction(size_of(args[1]), 0.25)


def _within(args: Sequence[Any]) -> int:
    return fraction(size_of(args[0])) * fraction(size_of(args[1]))


def _second(args: Sequence[Any]) -> int:
    return size_of(args[1])


def _traversal(args: Sequence[Any]) -> int:
    return traversal_cost(args[0])


def _flatten(args: Sequence[Any]) -> int:
    depth = args[1] if len(args) == 2 and isinstance(args[1], int) else 1
    return 11 + max(0, int(depth * size_of(args[0])))


def _self_compare(of: int) -> Cost:
    def cost(args: Sequence[Any]) -> int:
        given = args[of]
        if not isinstance(given, list):
            raise EvaluationError("internal error: interface conversion: not a list")
        size = len(given)
        texts = given and isinstance(given[0], str | bytes)
        return 11 + int(size * size * (2.1 if texts else 2.0))

    return cost


def _sets(factor: int) -> Cost:
    return lambda args: 1 + size_of(args[0]) * size_of(args[1]) * factor


def _contains(cidr: int, *, parsed: bool) -> Cost:
    def cost(args: Sequence[Any]) -> int:
        network, other = size_of(args[0]), size_of(args[1])
        masked = cidr * (fraction(network) + 1)
        return fraction(2 * network) + masked + (fraction(other) if parsed else 0)

    return cost


_OF_RESULT: Final = frozenset(("list_slice", "lists_range", "list_reverse"))
_COMPARED: Final = (*("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp"),)
_BY_OVERLOAD: Final[dict[str, Cost]] = {
    "equals": _equality,
    "not_equals": _shorter,
    "in_list": _second,
    "cidr_ip": lambda _: 1,
    "cidr_contains_ip_ip": _contains(0, parsed=False),
    "cidr_contains_ip_string": _contains(0, parsed=True),
    "cidr_contains_cidr": _contains(1, parsed=False),
    "cidr_contains_cidr_string": _contains(1, parsed=True),
    "matches_string": _pattern,
    "contains_string": _within,
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _once
    ),
    **dict.fromkeys(
        [
            f"{order}_{kind}"
            for order in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ],
        _shorter,
    ),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flatten),
    "list_distinct": _self_compare(0),
    **dict.fromkeys([f"list_{kind}_sort" for kind in _COMPARED], _self_compare(0)),
    **dict.fromkeys([f"list_{kind}_sortByAssociatedKeys" for kind in _COMPARED], _self_compare(1)),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
_BY_FUNCTION: Final[dict[str, Cost]] = {
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"),
        _traversal,
    ),
    **dict.fromkeys(
        (
            *("lowerAscii", "upperAscii", "substring", "trim"),
            *("quantity", "isQuantity", "semver", "isSemver"),
            *("url", "ip", "isIP", "cidr", "isCIDR"),
        ),
        _once,
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _twice),
    **dict.fromkeys(("find", "findAll"), _pattern),
}
