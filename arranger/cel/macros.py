"""Macros: calls that stand for loops and names.

Upstream: ``parser/macro.go``, ``ext/comprehensions.go``, ``ext/bindings.go``, ``ext/lists.go`` and
``cel/library.go`` of ``cel-go``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from arranger.cel.errors import CompileError
from arranger.cel.syntax import (
    ACCUMULATOR,
    Bind,
    Call,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
)

_SORT_INPUT: Final = "@sorted"
_Macro = Callable[[Node, Sequence[Node]], Node | None]


def expand(function: str, target: Node | None, args: Sequence[Node]) -> Node | None:
    """What a call stands for; None if it is just a call.

    Raises:
        CompileError: a macro is used as it cannot be.
    """
    if target is None:
        if function != "has" or len(args) != 1:
            return None
        if not isinstance(args[0], Select) or args[0].is_test:
            raise CompileError("invalid argument to has() macro")
        return Select(args[0].operand, args[0].field, is_test=True)
    macro = _MACROS.get((function, len(args)))
    return None if macro is None else macro(target, args)


def _accumulator() -> Ident:
    return Ident(ACCUMULATOR)


def _names(*args: Node) -> tuple[str, ...]:
    names = tuple(each.name for each in args if isinstance(each, Ident))
    if len(names) != len(args):
        raise CompileError("argument is not an identifier")
    if len(set(names)) != len(names):
        raise CompileError(f"duplicate variable name: {names[0]}")
    if {ACCUMULATOR, "__result__"} & set(names):
        raise CompileError("iteration variable overwrites accumulator variable")
    return names


def _all(target: Node, args: Sequence[Node]) -> Node:
    go_on = Call("@not_strictly_false", _accumulator())
    step = Call("_&&_", _accumulator(), args[-1])
    return Fold(target, _names(*args[:-1]), Literal(True), go_on, step, _accumulator())


def _exists(target: Node, args: Sequence[Node]) -> Node:
    go_on = Call("@not_strictly_false", Call("!_", _accumulator()))
    step = Call("_||_", _accumulator(), args[-1])
    return Fold(target, _names(*args[:-1]), Literal(False), go_on, step, _accumulator())


def _exists_one(target: Node, args: Sequence[Node]) -> Node:
    counted = Call("_+_", _accumulator(), Literal(1))
    step = Call("_?_:_", args[-1], counted, _accumulator())
    result = Call("_==_", _accumulator(), Literal(1))
    return Fold(target, _names(*args[:-1]), Literal(0), None, step, result)


def _collect(target: Node, names: tuple[str, ...], condition: Node | None, made: Node) -> Node:
    step: Node = Call("_+_", _accumulator(), ListNode(made))
    if condition is not None:
        step = Call("_?_:_", condition, step, _accumulator())
    return Fold(target, names, ListNode(), None, step, _accumulator())


def _map(target: Node, args: Sequence[Node]) -> Node:
    return _collect(target, _names(args[0]), args[1] if len(args) == 3 else None, args[-1])


def _filter(target: Node, args: Sequence[Node]) -> Node:
    names = _names(args[0])
    return _collect(target, names, args[1], Ident(names[0]))


def _transform_list(target: Node, args: Sequence[Node]) -> Node:
    return _collect(target, _names(*args[:2]), args[2] if len(args) == 4 else None, args[-1])


def _transform_map(target: Node, args: Sequence[Node]) -> Node:
    names = _names(*args[:2])
    return _insert(target, names, args, Ident(names[0]), args[-1])


def _transform_entry(target: Node, args: Sequence[Node]) -> Node:
    return _insert(target, _names(*args[:2]), args, args[-1])


def _insert(target: Node, names: tuple[str, ...], args: Sequence[Node], *made: Node) -> Node:
    step: Node = Call("cel.@mapInsert", _accumulator(), *made)
    if len(args) == 4:
        step = Call("_?_:_", args[2], step, _accumulator())
    return Fold(target, names, MapNode(), None, step, _accumulator())


def _sort_by(target: Node, args: Sequence[Node]) -> Node:
    if isinstance(target, Literal | MapNode):
        raise CompileError("sortBy can only be applied to a list")
    keys = _map(Ident(_SORT_INPUT), args)
    return Bind(_SORT_INPUT, target, Call("@sortByAssociatedKeys", keys, target=Ident(_SORT_INPUT)))


def _bind(target: Node, args: Sequence[Node]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    if not isinstance(args[0], Ident):
        raise CompileError("cel.bind() variable names must be simple identifiers")
    return Bind(args[0].name, args[1], args[2])


def _opt_map(target: Node, args: Sequence[Node]) -> Node:
    return _if_present(target, Call("optional.of", _with_value(target, args)))


def _opt_flat_map(target: Node, args: Sequence[Node]) -> Node:
    return _if_present(target, _with_value(target, args))


def _with_value(target: Node, args: Sequence[Node]) -> Node:
    if not isinstance(args[0], Ident):
        raise CompileError("optMap() variable name must be a simple identifier")
    return Bind(args[0].name, Call("value", target=target), args[1])


def _if_present(target: Node, then: Node) -> Node:
    return Call("_?_:_", Call("hasValue", target=target), then, Call("optional.none"))


_MACROS: Final[dict[tuple[str, int], _Macro]] = {
    ("all", 2): _all,
    ("all", 3): _all,
    ("exists", 2): _exists,
    ("exists", 3): _exists,
    ("exists_one", 2): _exists_one,
    ("exists_one", 3): _exists_one,
    ("existsOne", 3): _exists_one,
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entry,
    ("transformMapEntry", 4): _transform_entry,
    ("sortBy", 2): _sort_by,
    ("bind", 3): _bind,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
}
