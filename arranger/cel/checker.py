"""Types of all parts of an expression, and which functions are meant.

Upstream: ``checker/checker.go`` of ``cel-go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from arranger.cel.errors import CompileError
from arranger.cel.functions.formatting import check_format
from arranger.cel.signatures import SIGNATURES, Signature
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
from arranger.cel.types import (
    BOOL,
    DYN,
    INT,
    Substitutions,
    Type,
    is_dyn,
    list_of,
    map_of,
    most_general,
    optional_of,
)
from arranger.cel.values import kind_of

#: Names of types, which are values too.
TYPE_NAMES: Final = (
    *("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"),
)
#: Objects: their fields, by the names of their types.
Objects = Mapping[str, Mapping[str, Type]]


def check(tree: Node, variables: Mapping[str, Type], objects: Objects) -> Type:
    """Give each part of a tree its type, and each call its overloads; returns the type of all.

    Raises:
        CompileError: something does not fit.
    """
    checker = _Checker(variables, objects)
    checker.check(tree)
    checker.check_literals()
    return checker.types.resolve(tree.type)


class _Checker:
    def __init__(self, variables: Mapping[str, Type], objects: Objects) -> None:
        self.types = Substitutions()
        self._objects = objects
        #: Levels of ``format`` around, whose lists may be of anything.
        self._mixed = 0
        #: Elements of one list, or keys or values of one map.
        self._literals: list[list[Type]] = []
        self._scopes: list[Mapping[str, Type]] = [
            {name: Type("type", (Type(name),)) for name in TYPE_NAMES},
            variables,
        ]

    def check(self, node: Node) -> Type:
        """The type of a part, which is remembered there."""
        if isinstance(node, Literal):
            node.type = Type(kind_of(node.value))
        elif isinstance(node, Ident):
            node.type = self._ident(node.name)
        elif isinstance(node, Select):
            selected = self._field(self.check(node.operand), node.field)
            node.type = BOOL if node.is_test else self.types.resolve(selected)
        elif isinstance(node, Call):
            node.type = self._call(node)
        elif isinstance(node, ListNode):
            node.type = self._list(node)
        elif isinstance(node, MapNode):
            node.type = self._map(node)
        elif isinstance(node, Bind):
            node.type = self._bind(node)
        elif isinstance(node, Fold):
            node.type = self._fold(node)
        return node.type

    def check_literals(self) -> None:
        """See that the parts of each list and map are of one type, known or not."""
        for parts in self._literals:
            first, *others = [_settled(self.types.resolve(each)) for each in parts]
            for other in others:
                if other != first:
                    raise CompileError(f"expected type '{first}' but found '{other}'")

    def _ident(self, name: str) -> Type:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise CompileError(f"undeclared reference to '{name}' (in container '')")

    def _field(self, operand: Type, field: str, *, optional: bool = False) -> Type:
        target = self.types.resolve(operand)
        if target.kind == "optional_type":
            target, optional = self.types.resolve(target.params[0]), True
        if target.kind == "map":
            found = target.params[1]
        elif target.kind == "object":
            fields = self._objects.get(target.name, {})
            if field not in fields:
                raise CompileError(f"undefined field '{field}'")
            found = fields[field]
        elif target.kind == "param":
            self.types.assignable([(DYN, target)])
            found = DYN
        elif is_dyn(target):
            found = DYN
        else:
            raise CompileError(f"type '{target}' does not support field selection")
        return optional_of(found) if optional else found

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, Literal), "so the parser makes it"
            selected = self._field(self.check(node.args[0]), field.value, optional=True)
            return self.types.resolve(selected)
        mixed = node.function == "format" and node.target is not None
        self._mixed += mixed
        args = [self.check(each) for each in node.args]
        self._mixed -= mixed
        if node.function in ("_&&_", "_||_", "_?_:_"):
            return self._logic(node, args)
        if node.target is None:
            return self._overloaded(node, SIGNATURES.get(node.function), args)
        qualified = _qualified_name(node.target)
        if qualified and (found := SIGNATURES.get(f"{qualified}.{node.function}")):
            node.function, node.target = f"{qualified}.{node.function}", None
            return self._overloaded(node, found, args)
        target = self.check(node.target)
        if node.function == "format":
            check_format(node.target, node.args)
        return self._overloaded(node, SIGNATURES.get(node.function), [target, *args])

    def _logic(self, node: Call, args: list[Type]) -> Type:
        for condition in args[:1] if node.function == "_?_:_" else args:
            if not self.types.assignable([(condition, BOOL)]):
                raise self._no_overload(node, args)
        if node.function != "_?_:_":
            return BOOL
        either = self.types.new_parameter()
        if not self.types.assignable([(args[1], either), (args[2], either)]):
            raise self._no_overload(node, args)
        return self.types.resolve(either)

    def _overloaded(
        self, node: Call, signatures: tuple[Signature, ...] | None, args: list[Type]
    ) -> Type:
        if signatures is None:
            raise CompileError(f"undeclared reference to '{node.function}' (in container '')")
        result: Type | None = None
        found: list[str] = []
        for signature in signatures:
            if signature.is_member != (node.target is not None) or len(signature.args) != len(args):
                continue
            fresh = {each: self.types.new_parameter() for each in signature.params}
            wanted = [_replaced(each, fresh) for each in signature.args]
            if not self.types.assignable(list(zip(args, wanted, strict=True))):
                continue
            found.append(signature.id)
            given = self.types.resolve(_replaced(signature.result, fresh))
            if result is None:
                result = given
            elif not is_dyn(result) and given != result:
                result = DYN
        if result is None:
            raise self._no_overload(node, args)
        node.overloads = tuple(found)
        return result

    def _no_overload(self, node: Call, args: list[Type]) -> CompileError:
        applied = ", ".join(str(self.types.resolve(each)) for each in args)
        return CompileError(
            f"found no matching overload for '{node.function}' applied to '({applied})'"
        )

    def _list(self, node: ListNode) -> Type:
        elements = [
            self._present(self.check(element), optional=optional)
            for element, optional in zip(node.elements, node.optional, strict=True)
        ]
        return list_of(self._joined(elements))

    def _map(self, node: MapNode) -> Type:
        keys: list[Type] = []
        values: list[Type] = []
        for key, value, optional in node.entries:
            keys.append(self.check(key))
            values.append(self._present(self.check(value), optional=optional))
        return map_of(self._joined(keys), self._joined(values))

    def _present(self, given: Type, *, optional: bool) -> Type:
        if not optional or is_dyn(given):
            return given
        if given.kind != "optional_type":
            raise CompileError(f"expected type 'optional_type({given})' but found '{given}'")
        return given.params[0]

    def _joined(self, parts: list[Type]) -> Type:
        if not parts:
            return self.types.new_parameter()
        if self._mixed:
            return parts[0] if all(part == parts[0] for part in parts) else DYN
        self._literals.append(parts)
        joined = parts[0]
        for given in parts[1:]:
            if not self.types.assignable([(joined, given)]):
                before, now = self.types.resolve(joined), self.types.resolve(given)
                raise CompileError(f"expected type '{before}' but found '{now}'")
            joined = most_general(joined, given)
        return joined

    def _bind(self, node: Bind) -> Type:
        self._scopes.append({node.name: self.check(node.init)})
        self.check(node.body)
        self._scopes.pop()
        return self.types.resolve(node.body.type)

    def _fold(self, node: Fold) -> Type:
        over = self.types.resolve(self.check(node.over))
        accumulator = self.check(node.init)
        elements: tuple[Type, ...]
        if over.kind == "list":
            elements = (over.params[0],) if len(node.names) == 1 else (INT, over.params[0])
        elif over.kind == "map":
            elements = over.params[: len(node.names)]
        elif over.kind in ("dyn", "param"):
            self.types.assignable([(DYN, over)])
            elements = (DYN,) * len(node.names)
        else:
            raise CompileError(f"expression of type '{over}' cannot be range of a comprehension")
        self._scopes.append({ACCUMULATOR: accumulator})
        self._scopes.append(dict(zip(node.names, elements, strict=True)))
        if node.condition is not None:
            self._assert(node.condition, BOOL)
        self._assert(node.step, accumulator)
        self._scopes.pop()
        self.check(node.result)
        self._scopes.pop()
        return self.types.resolve(node.result.type)

    def _assert(self, node: Node, wanted: Type) -> None:
        given = self.check(node)
        if not self.types.assignable([(wanted, given)]):
            raise CompileError(f"expected type '{wanted}' but found '{given}'")


def _settled(given: Type) -> Type:
    """The type with nothing left open."""
    if given.kind == "param":
        return DYN
    return given._replace(params=tuple(map(_settled, given.params))) if given.params else given


def _replaced(given: Type, fresh: Mapping[Type, Type]) -> Type:
    if given.kind == "param":
        return fresh[given]
    if not given.params:
        return given
    return given._replace(params=tuple(_replaced(each, fresh) for each in given.params))


def _qualified_name(node: Node) -> str:
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.is_test:
        of = _qualified_name(node.operand)
        return f"{of}.{node.field}" if of else ""
    return ""
