"""Reading expressions.

Upstream: ``parser/gen/CEL.g4`` and ``parser/parser.go`` of ``cel-go``.
"""

from __future__ import annotations

from typing import Final

from arranger.cel.errors import CompileError
from arranger.cel.macros import expand
from arranger.cel.syntax import Call, Ident, ListNode, Literal, MapNode, Node, Select
from arranger.cel.tokens import Token, tokenize
from arranger.cel.values import INT_MAX, Uint

#: Levels of brackets and of the tree; ``cel-go`` reads 250 of each.
MAX_NESTING: Final = 64
MAX_DEPTH: Final = 200
#: Parts of the tree; of what is written at most.
MAX_SIZE: Final = 20_000

_RELATIONS: Final = ("<", "<=", ">=", ">", "==", "!=", "in")
_PRECEDENCE: Final[dict[str, int]] = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(_RELATIONS, 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
}
_RESERVED: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let"),
        *("loop", "package", "namespace", "return", "var", "void", "while"),
    )
)


def parse(expression: str, *, bindings: bool = True) -> Node:
    """The tree of an expression.

    Args:
        bindings: whether there is the macro ``cel.bind``.

    Raises:
        CompileError: it cannot be read.
    """
    return _Parser(tokenize(expression), bindings).parse()


class _Parser:
    def __init__(self, tokens: list[Token], bindings: bool) -> None:
        self._tokens, self._bindings = tokens, bindings
        self._at = 0
        self._nesting = 0

    def parse(self) -> Node:
        whole = self._expression()
        if self._next.kind != "end":
            raise self._unexpected()
        return whole

    # --- tokens ------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *kinds: str) -> Token | None:
        token = self._tokens[self._at]
        if token.kind not in kinds:
            return None
        self._at += 1
        return token

    def _expect(self, *kinds: str) -> Token:
        token = self._take(*kinds)
        if token is None:
            raise self._unexpected()
        return token

    def _unexpected(self) -> CompileError:
        token = self._next
        what = "<EOF>" if token.kind == "end" else token.value
        return CompileError(f"Syntax error: mismatched input {what!r} at {token.at}")

    # --- operators ---------------------------------------------------------------------------

    def _expression(self) -> Node:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise CompileError("nested too deeply")
        found = self._binary(1)
        if self._take("?"):
            chosen = self._binary(1)
            self._expect(":")
            found = _checked(Call("_?_:_", found, chosen, self._expression()))
        self._nesting -= 1
        return found

    def _binary(self, least: int) -> Node:
        left = self._operand()
        while (level := _PRECEDENCE.get(self._next.kind, 0)) >= least:
            sign = self._expect(self._next.kind).kind
            if level > 2:
                left = _checked(Call(f"_{sign}_", left, self._binary(level + 1)))
                continue
            terms = [left, self._binary(level + 1)]
            while self._take(sign):
                terms.append(self._binary(level + 1))
            left = _checked(_balanced(f"_{sign}_", terms))
        return left

    def _operand(self) -> Node:
        sign, count = self._next.kind, 0
        if sign in ("!", "-"):
            while self._take(sign):
                count += 1
        negative = sign == "-" and count == 1
        number = self._next.value if self._next.kind == "literal" else None
        if negative and isinstance(number, int | float) and not isinstance(number, Uint):
            self._at += 1
            return self._members(Literal(-number))
        operand = self._members(self._primary())
        return Call(f"{sign}_", operand) if count % 2 else operand

    # --- members -----------------------------------------------------------------------------

    def _members(self, operand: Node) -> Node:
        while True:
            if self._take("."):
                operand = self._member(operand)
            elif self._take("["):
                function = "_[?_]" if self._take("?") else "_[_]"
                index = self._expression()
                self._expect("]")
                operand = Call(function, operand, index)
            else:
                return operand
            _checked(operand)

    def _member(self, operand: Node) -> Node:
        if self._take("?"):
            return Call("_?._", operand, Literal(self._expect("name").value))
        name = self._expect("name").value
        return self._call(name, operand) if self._take("(") else Select(operand, name)

    def _call(self, function: str, target: Node | None) -> Node:
        args: list[Node] = []
        if not self._take(")"):
            args.append(self._expression())
            while self._take(","):
                args.append(self._expression())
            self._expect(")")
        expanded = expand(function, target, args)
        if function == "bind" and expanded is not None and not self._bindings:
            raise CompileError("undeclared reference to 'cel' (in container '')")
        return Call(function, *args, target=target) if expanded is None else expanded

    # --- what stands for itself --------------------------------------------------------------

    def _primary(self) -> Node:
        token = self._expect("literal", "true", "false", "null", "name", "(", "[", "{", ".")
        match token.kind:
            case "literal":
                if type(token.value) is int and token.value > INT_MAX:
                    raise CompileError("invalid int literal")
                return Literal(token.value)
            case "true" | "false":
                return Literal(token.kind == "true")
            case "null":
                return Literal(None)
            case "(":
                inner = self._expression()
                self._expect(")")
                return inner
            case "[":
                return self._list()
            case "{":
                return self._map()
        name = self._expect("name").value if token.kind == "." else token.value
        if self._take("("):
            return self._call(name, None)
        if name in _RESERVED:
            raise CompileError(f"reserved identifier: {name}")
        return Ident(name)

    def _list(self) -> Node:
        elements: list[Node] = []
        optional: list[bool] = []
        while self._has_more("]", first=not elements):
            optional.append(self._take("?") is not None)
            elements.append(self._expression())
        return _checked(ListNode(*elements, optional=tuple(optional)))

    def _map(self) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while self._has_more("}", first=not entries):
            optional = self._take("?") is not None
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), optional))
        return _checked(MapNode(*entries))

    def _has_more(self, end: str, *, first: bool) -> bool:
        """Whether another part follows; a comma may stand before the end."""
        comma = self._take(",")
        if self._take(end):
            return False
        if first == (comma is not None):
            raise self._unexpected()
        return True


def _balanced(function: str, terms: list[Node]) -> Node:
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return Call(function, _balanced(function, terms[:middle]), _balanced(function, terms[middle:]))


def _checked(node: Node) -> Node:
    if node.depth > MAX_DEPTH:
        raise CompileError("nested too deeply")
    if node.size > MAX_SIZE:
        raise CompileError("it says too much")
    return node
