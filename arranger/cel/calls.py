"""Calls of functions: which is meant is told by the types of the values.

Upstream: ``common/stdlib``, ``ext`` and ``k8s.io/apiserver/pkg/cel/library``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from arranger.cel.costs import Cost, ResultCost
from arranger.cel.errors import CelError, CompileError
from arranger.cel.functions import (
    addresses,
    conversions,
    formatting,
    kubernetes,
    lists,
    operators,
    strings,
    times,
)
from arranger.cel.functions.table import Function
from arranger.cel.machine import Machine, Step
from arranger.cel.values import CelMap, deep_size, kind_of

_TABLES: Final = (
    operators.TABLE,
    conversions.TABLE,
    strings.TABLE,
    lists.TABLE,
    kubernetes.TABLE,
    times.TABLE,
    addresses.TABLE,
    formatting.TABLE,
)
_FUNCTIONS: Final[dict[str, list[tuple[tuple[str, ...], Function]]]] = {}
for _table in _TABLES:
    for _name, _overloads in _table.items():
        _FUNCTIONS.setdefault(_name, []).extend(_overloads)


class _Dispatcher:
    """Finds the overload for values, by their types."""

    __slots__ = ("_known", "_overloads")

    def __init__(self, name: str) -> None:
        self._overloads = _FUNCTIONS[name]
        self._known: dict[tuple[type, ...], Function | None] = {}

    def __call__(self, args: Sequence[Any]) -> Any:
        types = tuple(map(type, args))
        try:
            found = self._known[types]
        except KeyError:
            found = self._known[types] = self._find(args)
        return CelError("no such overload") if found is None else found(*args)

    def _find(self, args: Sequence[Any]) -> Function | None:
        kinds = [kind_of(each) for each in args]
        for wanted, function in self._overloads:
            if len(wanted) == len(kinds) and all(
                w in ("any", kind) for w, kind in zip(wanted, kinds, strict=True)
            ):
                return function
        return None


_DISPATCHERS: Final[dict[str, _Dispatcher]] = {name: _Dispatcher(name) for name in _FUNCTIONS}


def _comparing(args: Sequence[Any]) -> int:
    return sum(deep_size(each) for each in args if type(each) is list)


#: Calls that may take much longer than they cost.
_TOIL: Final[dict[str, Cost]] = {
    **dict.fromkeys(("matches", "find", "findAll"), strings.search_work),
    **dict.fromkeys(("_==_", "_!=_", "_in_", "indexOf", "lastIndexOf", "distinct"), _comparing),
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects"), _comparing),
    **dict.fromkeys(("flatten", "join"), _comparing),
}


def call_function(name: str, args: Sequence[Any]) -> Any:
    """What a function gives, an error included."""
    return _DISPATCHERS[name](args)


def compile_pattern(pattern: str) -> None:
    """See whether a pattern can be read.

    Raises:
        CompileError: it cannot.
    """
    found = strings.pattern(pattern)
    if isinstance(found, CelError):
        raise CompileError(found.message)


def call(
    name: str, count: int, cost: Cost | int, paid: ResultCost | None, *, in_place: bool
) -> Step:
    """A call with the values on the stack; ``in_place`` where the first is nobody else's."""
    dispatcher: Callable[[Sequence[Any]], Any] = _DISPATCHERS[name]
    if in_place and name in ("_+_", "cel.@mapInsert"):
        dispatcher = _grown

    toil = _TOIL.get(name)

    def step(m: Machine) -> None:
        stack = m.stack
        at = len(stack) - count
        args = stack[at:]
        del stack[at:]
        m.spend(cost if isinstance(cost, int) else cost(args))
        if toil is not None:
            m.toil += toil(args)
        result = next((each for each in args if type(each) is CelError), None)
        if result is None or name == "@not_strictly_false":
            result = dispatcher(args)
        if paid is not None:
            m.cost += paid(result)
        stack.append(result)

    return step


def _grown(args: Sequence[Any]) -> Any:
    of, *more = args
    if isinstance(of, list) and isinstance(more[0], list):
        of += more[0]
        return of
    if isinstance(of, CelMap):
        made = more[0] if len(more) == 1 else CelMap({0: (more[0], more[1])})
        for key in made:
            if of.has(key):
                return CelError(f"insert failed: key {key} already exists")
            of.put(key, made.find(key) if len(more) == 1 else more[1])
        return of
    return _DISPATCHERS["_+_"](args)
