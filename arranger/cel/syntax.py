"""The tree of an expression, with macros expanded."""

from __future__ import annotations

from typing import Any, Final

from arranger.cel.types import Type

#: What results of loops are called; no expression can say so.
ACCUMULATOR: Final = "@result"


class Node:
    """A part of an expression.

    Attributes:
        depth: the number of levels below and including it.
        size: the number of parts; macros that say something twice make it more than is written.
    """

    __slots__ = ("depth", "overloads", "size", "type")

    type: Type
    depth: int
    size: int
    overloads: tuple[str, ...]

    def __init__(self, *parts: Node | None) -> None:
        self.depth = self.size = 1
        for part in parts:
            if part is not None:
                self.depth = max(self.depth, 1 + part.depth)
                self.size += part.size
        self.overloads = ()


class Literal(Node):
    """A constant."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Ident(Node):
    """A name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class Select(Node):
    """``operand.field``, or whether it is there."""

    __slots__ = ("field", "is_test", "operand")

    def __init__(self, operand: Node, field: str, *, is_test: bool = False) -> None:
        super().__init__(operand)
        self.operand, self.field, self.is_test = operand, field, is_test


class Call(Node):
    """``function(args)`` or ``target.function(args)``; operators are functions too."""

    __slots__ = ("args", "function", "target")

    def __init__(self, function: str, *args: Node, target: Node | None = None) -> None:
        super().__init__(target, *args)
        self.function, self.args, self.target = function, args, target


class ListNode(Node):
    """``[a, ?b]``; ``optional`` says for each element whether it may be absent."""

    __slots__ = ("elements", "optional")

    def __init__(self, *elements: Node, optional: tuple[bool, ...] = ()) -> None:
        super().__init__(*elements)
        self.elements = elements
        self.optional = optional or (False,) * len(elements)


class MapNode(Node):
    """``{a: b, ?c: d}``."""

    __slots__ = ("entries",)

    def __init__(self, *entries: tuple[Node, Node, bool]) -> None:
        super().__init__(*(part for entry in entries for part in entry[:2]))
        self.entries = entries


class Bind(Node):
    """``cel.bind(name, init, body)``: ``init`` is evaluated where ``body`` first needs it."""

    __slots__ = ("body", "init", "name")

    def __init__(self, name: str, init: Node, body: Node) -> None:
        super().__init__(init, body)
        self.name, self.init, self.body = name, init, body


class Fold(Node):
    """A loop over a list or map, with an accumulator that each step makes anew.

    Attributes:
        init: the accumulator's first value, a constant.
        condition: whether to go on; None for always.
    """

    __slots__ = ("condition", "init", "names", "over", "result", "step")

    def __init__(
        self,
        over: Node,
        names: tuple[str, ...],
        init: Node,
        condition: Node | None,
        step: Node,
        result: Node,
    ) -> None:
        super().__init__(over, init, condition, step, result)
        self.over, self.names, self.init = over, names, init
        self.condition, self.step, self.result = condition, step, result
