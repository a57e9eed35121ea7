"""Which parts of an object expressions read, so that the others need not be kept or compared."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, Final

from arranger.gangs.workloads.expressions import MAX_ELEMENTS, Expression

#: In a path: any element of a list, or of a map.
ANY: Final = None
#: The keys that lead to something, from the outermost; :data:`ANY` for each.
Path = tuple[str | None, ...]
#: Letters of a text that are kept.
_MAX_TEXT: Final = 1024
#: What stands for all that is left out of an object which would be empty without it.
_MORE: Final = ""


class PathTree:
    """Paths that are read, and what of an object lies on them."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._keys: dict[str | None, PathTree] = {}
        for path in paths:
            self.add(path)

    def add(self, path: Path) -> None:
        """One more path is read."""
        if path:
            self._keys.setdefault(path[0], PathTree(())).add(path[1:])

    def part_of(self, value: Any) -> Any:
        """What is read of a value; it is empty, or false, where the value is.

        Where a path ends at a list or an object only that is kept that it is there.
        """
        if isinstance(value, str):
            return value[:_MAX_TEXT]
        if isinstance(value, list):
            return [self._element(one) for one in value[: MAX_ELEMENTS + 1]]
        if not isinstance(value, dict):
            return value
        found = self._named(value)
        if (each := self._keys.get(ANY)) is not None:
            for key in list(value)[: MAX_ELEMENTS + 1]:
                found.setdefault(key[:_MAX_TEXT], each.part_of(value[key]))
        return found or ({_MORE: None} if value else {})

    def _named(self, value: dict[str, Any]) -> dict[str, Any]:
        named = ((key, tree) for key, tree in self._keys.items() if key is not ANY)
        return {key: tree.part_of(value[key]) for key, tree in named if key in value}

    def _element(self, one: Any) -> Any:
        """What is read of an element of a list, through which paths go as well."""
        if (each := self._keys.get(ANY)) is None:
            return self.part_of(one)
        found = each.part_of(one)
        return {**self._named(one), **found} if isinstance(one, dict) else found


def paths_of(expression: Expression, role_of: Path | None = None) -> list[Path]:
    """The paths that an expression reads, from their first words.

    Args:
        role_of: where ``role`` is, if it is said.
    """
    found: list[Path] = []
    _collect(expression.tree, found)
    if role_of is None:
        return found
    return [(*role_of, *path[1:]) if path[0] == "role" else path for path in found]


def _collect(node: ast.expr, found: list[Path]) -> None:
    path = _path(node)
    if path is not None:
        found.append(path)
        return
    calls = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
    for child in calls:
        if isinstance(child, ast.expr):
            _collect(child, found)


def _path(node: ast.expr) -> Path | None:
    match node:
        case ast.Name(id=word):
            return (word,)
        case ast.Attribute(value=inner, attr=key):
            pass
        case ast.Subscript(value=inner, slice=ast.Constant(value=str() as key)):
            pass
        case _:
            return None
    before = _path(inner)
    return None if before is None else (*before, key)
