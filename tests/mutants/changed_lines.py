"""Which lines a mutant changes: a test that runs none of them cannot tell it from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.mutants.names import mangled_function_of

_Block = ast.stmt | ast.ExceptHandler | ast.match_case
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def changed_lines(source: str) -> dict[str, range]:
    """For each mutant in a file that mutmut has written, the lines of the original that it changes.

    A change in the head of a function, which runs elsewhere, is one of all its lines.
    """
    functions = {each.name: each for each in ast.walk(ast.parse(source)) if _is_function(each)}
    found: dict[str, range] = {}
    for name, mutant in functions.items():
        original = functions.get(f"{mangled_function_of(name)}__mutmut_orig")
        if original is not None and original is not mutant:
            found[name] = _difference(original.body, mutant.body) or _lines(original)
    return found


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, _Function)


def _difference(original: list[_Block], mutant: list[_Block]) -> range | None:
    """The lines of the first block that differs; of its head alone if that does."""
    for one, other in zip(original, mutant, strict=False):
        if ast.dump(one) == ast.dump(other):
            continue
        inner, others = list(_blocks(one)), list(_blocks(other))
        if not inner or len(inner) != len(others):
            return _lines(one)
        if (below := _difference(inner, others)) is None or _head(one) != _head(other):
            return range(_lines(one).start, max(_lines(one).start, _lines(inner[0]).start - 1) + 1)
        return below
    return None


def _blocks(node: _Block) -> Iterator[_Block]:
    """The statements, handlers and cases below."""
    return (each for each in ast.iter_child_nodes(node) if isinstance(each, _Block))


def _head(node: _Block) -> list[str]:
    """All of a statement but those below it."""
    return [ast.dump(e) for e in ast.iter_child_nodes(node) if not isinstance(e, _Block)]


def _lines(node: _Block) -> range:
    if isinstance(node, ast.match_case):
        return range(node.pattern.lineno, (_lines(node.body[-1]).stop))
    assert node.end_lineno is not None, ast.dump(node)
    return range(node.lineno, node.end_lineno + 1)
