"""Finds undeclared variables, functions and fields in CEL rules.

The API server checks types as well; here an operator that does not fit its operands is found when
the rule is evaluated, and refuses the object then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from lark import Token, Tree

from arranger.embedded import Object
from arranger.embedded.crd.cel_library import escape_identifier

Scope = Mapping[str, Object | None]

#: Macros: their first argument is a name that they bind to each item.
_MACROS: Final = frozenset({"all", "exists", "exists_one", "map", "filter"})
_ROOT_FIELDS: Final = ("apiVersion", "kind", "metadata")
_TYPE_NAMES: Final = frozenset(
    [
        *("bool", "bytes", "double", "duration", "int", "list", "map", "null_type", "string"),
        *("timestamp", "type", "uint"),
    ]
)


def undeclared_references(tree: Any, scope: Scope, functions: Collection[str]) -> Iterator[str]:
    """A message for each undeclared name in a rule.

    Args:
        scope: the schema of each variable; None where any field may follow.
        functions: that may be called.
    """
    yield from _Checker(functions).check(tree, scope)


def references_variable(tree: Any, name: str) -> bool:
    """Whether a rule uses a variable."""
    return any(str(ident.children[0]) == name for ident in tree.find_data("ident"))


class _Checker:
    def __init__(self, functions: Collection[str]) -> None:
        self._functions = functions

    def check(self, tree: Any, scope: Scope) -> Iterator[str]:
        if isinstance(tree, Token):
            return
        match tree.data:
            case "ident":
                name = str(tree.children[0])
                if name not in scope and name not in _TYPE_NAMES:
                    yield f"undeclared reference to '{name}'"
            case "ident_arg":
                yield from self._check_function(tree.children[0])
                yield from self._check_all(tree.children[1:], scope)
            case "member_dot":
                yield from self.check(tree.children[0], scope)
                owner, name = _schema_of(tree.children[0], scope), str(tree.children[1])
                if owner is not None and name not in (fields := _fields(owner)):
                    yield f"undefined field '{name}'" if fields else f"no field '{name}' here"
            case "member_dot_arg":
                yield from self._check_call(tree, scope)
            case _:
                yield from self._check_all(tree.children, scope)

    def _check_call(self, tree: Any, scope: Scope) -> Iterator[str]:
        target, name, *arguments = tree.children
        yield from self.check(target, scope)
        given = list(arguments[0].children) if arguments else []
        if str(name) not in _MACROS or not given:
            yield from self._check_function(name)
            yield from self._check_all(given, scope)
            return
        variable = _identifier(given[0])
        if variable is None:
            yield f"{name}() needs a name as its first argument"
            return
        inner = {**scope, variable: _item_schema(_schema_of(target, scope))}
        yield from self._check_all(given[1:], inner)

    def _check_function(self, name: Any) -> Iterator[str]:
        if str(name) not in self._functions and str(name) not in ("has", "dyn"):
            yield f"undeclared reference to '{name}'"

    def _check_all(self, trees: list[Any], scope: Scope) -> Iterator[str]:
        for tree in trees:
            yield from self.check(tree, scope)


def _unwrap(tree: Any) -> Any:
    """The expression without the nodes around it that have one child only."""
    while isinstance(tree, Tree) and len(tree.children) == 1 and tree.data not in ("ident",):
        tree = tree.children[0]
    return tree


def _identifier(tree: Any) -> str | None:
    """The name, if the expression is a plain identifier."""
    inner = _unwrap(tree)
    return str(inner.children[0]) if isinstance(inner, Tree) and inner.data == "ident" else None


def _schema_of(tree: Any, scope: Scope) -> Object | None:
    """The schema of what an expression yields; None where it is not known."""
    inner = _unwrap(tree)
    if not isinstance(inner, Tree):
        return None
    match inner.data:
        case "ident":
            return scope.get(str(inner.children[0]))
        case "member_dot":
            owner = _schema_of(inner.children[0], scope)
            return None if owner is None else _fields(owner).get(str(inner.children[1]))
        case "member_index":
            return _item_schema(_schema_of(inner.children[0], scope), values=True)
    return None


def _fields(schema: Object) -> Mapping[str, Object | None]:
    """The fields that may be named, with their schemas; a map has every name."""
    known, more = schema.get("properties") or {}, schema.get("additionalProperties")
    if "type" not in schema:
        return _Any(None)
    if more and not known:
        return _Any(more if isinstance(more, dict) else None)
    fields: dict[str, Object | None] = {
        escape_identifier(name): child for name, child in known.items()
    }
    if schema.get("x-kubernetes-embedded-resource"):
        fields.update(dict.fromkeys(_ROOT_FIELDS))
    return fields


class _Any(dict[str, "Object | None"]):
    """Fields of every name."""

    def __init__(self, schema: Object | None) -> None:
        super().__init__()
        self._schema = schema

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:
        return self._schema


def _item_schema(schema: Object | None, *, values: bool = False) -> Object | None:
    """The schema of what macros iterate over: items of a list, keys of a map."""
    if schema is None:
        return None
    if isinstance(items := schema.get("items"), dict):
        return items
    more = schema.get("additionalProperties")
    return more if values and isinstance(more, dict) else None
