"""The expressions by which a configuration says where in an object a number or a name is read.

An expression is a path such as ``spec.runPolicy.schedulingPolicy.minAvailable``, or paths, numbers
and strings put together by ``+ - *``, ``== !=``, ``and or not``, ``a if condition else b``, and
the functions ``first`` (the first argument that is there), ``min`` and ``max``. A key that is no
name is written ``metadata.labels["example.com/queue"]``. A path through a list gives what its
elements have. What is not there is absent, and so is what is worked out from it.

An expression has no loops, and what it reads is bounded, so that no object makes it expensive.
"""

from __future__ import annotations

import ast
import operator as operator_functions
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final

from arranger.api.parsing.scalars import parse_int_or

#: The largest number that is read or worked out.
MAX_NUMBER: Final = 1_000_000_000
#: Elements of a list that a path goes through at most.
MAX_ELEMENTS: Final = 1000

#: What an expression can read: by the first word of a path.
Scope = Mapping[str, Any]
_Evaluate = Callable[[Scope], Any]
_Function = Callable[[list[_Evaluate], ast.Call], _Evaluate]


class ExpressionError(ValueError):
    """An expression cannot be read."""


class ExpressionValueError(ValueError):
    """An object has a value that cannot be used; the message says where and why."""


class Expression:
    """One expression, read once.

    Args:
        text: as in the configuration.
        words: the first words that its paths may have.

    Raises:
        ExpressionError: it cannot be read.
    """

    def __init__(self, text: str, words: frozenset[str]) -> None:
        self.text = text
        #: The first words of its paths; and itself, as Python reads it.
        self.words, self.tree = _read(text)
        for unknown in sorted(self.words - words):
            raise ExpressionError(f"{text!r}: {unknown} is none of {', '.join(sorted(words))}")
        self._evaluate = _compiled(text)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def value(self, scope: Scope) -> Any:
        """The value; None where it is absent.

        Raises:
            ExpressionValueError: a number is needed, and something else is there.
        """
        return self._evaluate(scope)

    def number(self, scope: Scope) -> int | None:
        """The value as a number of pods or seconds, which is not negative; None where absent.

        Raises:
            ExpressionValueError: it is no number, or too large.
        """
        value = self._evaluate(scope)
        return None if value is None else max(_number(value), 0)

    def name(self, scope: Scope) -> str:
        """The value as a name; "" where it is absent, or is no text and no number."""
        value = self._evaluate(scope)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return value if isinstance(value, str) else ""

    def holds(self, scope: Scope) -> bool:
        """Whether the value is neither absent nor false, zero or empty."""
        return bool(self._evaluate(scope))


@lru_cache(maxsize=1024)
def _read(text: str) -> tuple[frozenset[str], ast.expr]:
    """The first words of an expression's paths, and its tree."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"{text!r} cannot be read") from error
    return frozenset(_first_words(tree)), tree.body


@lru_cache(maxsize=1024)
def _compiled(text: str) -> _Evaluate:
    return _compile(_read(text)[1], text)


def _first_words(tree: ast.AST) -> list[str]:
    functions = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n not in functions]


def _compile(node: ast.expr, text: str) -> _Evaluate:
    match node:
        case ast.Constant(value=bool() | None):
            pass
        case ast.Constant(value=str() | int() as constant):
            return lambda _: constant
        case ast.Name(id=word):
            return lambda scope: scope.get(word)
        case ast.Attribute(value=inner, attr=key):
            return _field(_compile(inner, text), key)
        case ast.Subscript(value=inner, slice=ast.Constant(value=str() as key)):
            return _field(_compile(inner, text), key)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as operator, right=right):
            return _arithmetic(_compile(left, text), operator, _compile(right, text), node)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as operator], comparators=[right]):
            a, b, equal = _compile(left, text), _compile(right, text), isinstance(operator, ast.Eq)
            return lambda scope: (a(scope) == b(scope)) is equal
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner_value = _compile(operand, text)
            return lambda scope: not inner_value(scope)
        case ast.BoolOp(op=operator, values=values):
            parts, decide = [_compile(each, text) for each in values], isinstance(operator, ast.Or)
            combine = any if decide else all
            return lambda scope: combine(bool(part(scope)) for part in parts)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            given = [_compile(each, text) for each in (test, body, orelse)]
            return lambda scope: given[1](scope) if given[0](scope) else given[2](scope)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (
            args and name in _FUNCTIONS
        ):
            return _FUNCTIONS[name]([_compile(each, text) for each in args], node)
    raise ExpressionError(f"{text!r}: {ast.unparse(node)!r} is not understood")


def _field(inner: _Evaluate, key: str) -> _Evaluate:
    def read(scope: Scope) -> Any:
        value = inner(scope)
        if isinstance(value, Mapping):
            return value.get(key)
        if isinstance(value, list):
            elements = [each for each in value[:MAX_ELEMENTS] if isinstance(each, dict)]
            return [each[key] for each in elements if each.get(key) is not None] or None
        return None

    return read


def _arithmetic(
    left: _Evaluate, operator: ast.operator, right: _Evaluate, node: ast.BinOp
) -> _Evaluate:
    here, there = ast.unparse(node.left), ast.unparse(node.right)
    combine = _OPERATORS[type(operator)]

    def work_out(scope: Scope) -> int | None:
        a, b = left(scope), right(scope)
        if a is None or b is None:
            return None
        return combine(_number(a, here), _number(b, there))

    return work_out


def _first(parts: list[_Evaluate], _node: ast.Call) -> _Evaluate:
    def choose(scope: Scope) -> Any:
        values = (part(scope) for part in parts)
        return next((value for value in values if value is not None), None)

    return choose


def _extreme(
    choose: Callable[[list[int]], int], parts: list[_Evaluate], node: ast.Call
) -> _Evaluate:
    texts = [ast.unparse(each) for each in node.args]

    def work_out(scope: Scope) -> int | None:
        values = [part(scope) for part in parts]
        if any(value is None for value in values):
            return None
        return choose([_number(v, t) for v, t in zip(values, texts, strict=True)])

    return work_out


_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator_functions.add,
    ast.Sub: operator_functions.sub,
    ast.Mult: operator_functions.mul,
}
_FUNCTIONS: Final[Mapping[str, _Function]] = {
    "first": _first,
    "min": partial(_extreme, min),
    "max": partial(_extreme, max),
}


def _number(value: Any, where: str = "") -> int:
    """A number, also one written as text, as in annotations."""
    where = f"{where}: " if where else ""
    if isinstance(value, str) and (number := parse_int_or(value, -1)) >= 0:
        value = number
    if isinstance(value, bool) or not isinstance(value, int):
        raise ExpressionValueError(f"{where}{_shown(value)} is not a number")
    if abs(value) > MAX_NUMBER:
        raise ExpressionValueError(f"{where}the number is larger than {MAX_NUMBER}")
    return value


def _shown(value: Any) -> str:
    """The beginning of a value, for a message."""
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, float | bool):
        return repr(value)
    return "an object" if isinstance(value, Mapping) else "a list"
