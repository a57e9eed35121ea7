"""Types of expressions, and which may stand for which.

Upstream: ``checker/types.go`` of ``cel-go``.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Type(NamedTuple):
    """A type: its kind (``int``, ``list``, ``param``, ``object`` …), and what it is made of."""

    kind: str
    params: tuple[Type, ...] = ()
    name: str = ""

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.params))
        return (self.name or self.kind) + (f"({inner})" if inner else "")


DYN: Final = Type("dyn")
ANY: Final = Type("any")
BOOL: Final = Type("bool")
INT: Final = Type("int")
STRING: Final = Type("string")
NULL: Final = Type("null_type")
_WRAPPERS: Final = ("list", "map", "optional_type", "type")
_NULLABLE: Final = ("object", "optional_type", "any", "duration", "timestamp")


def list_of(element: Type) -> Type:
    """Lists of such elements."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Maps of such keys and values."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """Such a value, or none."""
    return Type("optional_type", (value,))


def is_dyn(given: Type) -> bool:
    """Whether only an evaluation can tell."""
    return given.kind in ("dyn", "any")


class Substitutions:
    """What the parameters of types stand for."""

    def __init__(self) -> None:
        self._known: dict[Type, Type] = {}
        #: What has been added or replaced, so that it can be undone.
        self._trail: list[tuple[Type, Type | None]] = []
        self._made = 0

    def new_parameter(self) -> Type:
        """A parameter that stands for nothing yet."""
        self._made += 1
        return Type("param", (), f"_{self._made}")

    def assignable(self, pairs: list[tuple[Type, Type]]) -> bool:
        """Whether each first may stand for the second; what that settles is kept if all may."""
        mark = len(self._trail)
        if all(self._assignable(one, other) for one, other in pairs):
            return True
        while len(self._trail) > mark:
            parameter, before = self._trail.pop()
            if before is None:
                del self._known[parameter]
            else:
                self._known[parameter] = before
        return False

    def resolve(self, given: Type) -> Type:
        """The type with all parameters replaced that stand for something."""
        found = self._known.get(given)
        if found is not None:
            return self.resolve(found)
        if given.params:
            return given._replace(params=tuple(map(self.resolve, given.params)))
        return given

    def _set(self, parameter: Type, given: Type) -> None:
        self._trail.append((parameter, self._known.get(parameter)))
        self._known[parameter] = given

    def _assignable(self, one: Type, other: Type) -> bool:
        if other.kind == "param":
            valid, known = self._substitutes(one, other)
            if valid or known:
                return valid
        if one.kind == "param":
            return self._substitutes(other, one)[0]
        if is_dyn(one) or is_dyn(other):
            return True
        if one.kind == "null_type" or other.kind == "null_type":
            return one == other or (other if one.kind == "null_type" else one).kind in _NULLABLE
        if one.kind != other.kind or one.name != other.name:
            return False
        if one.kind == "type":
            return True
        return len(one.params) == len(other.params) and all(
            self._assignable(a, b) for a, b in zip(one.params, other.params, strict=True)
        )

    def _substitutes(self, given: Type, parameter: Type) -> tuple[bool, bool]:
        """Whether a type can be what the parameter stands for; whether that is known already."""
        if given == parameter:
            return True, True
        known = self._known.get(parameter)
        if known is not None:
            if given == known:
                return True, True
            if not self._assignable(given, known):
                return False, True
            general = most_general(given, known)
            if not self._occurs(parameter, general):
                self._set(parameter, general)
            return True, True
        if self._occurs(parameter, given):
            return False, False
        self._set(parameter, given)
        return True, False

    def _occurs(self, parameter: Type, within: Type) -> bool:
        if parameter == within:
            return True
        if within.kind == "param":
            known = self._known.get(within)
            return known is not None and self._occurs(parameter, known)
        return any(self._occurs(parameter, each) for each in within.params)


def most_general(one: Type, other: Type) -> Type:
    """The less specific of two types that fit."""
    return one if _less_specific(one, other) else other


def _less_specific(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind == "param":
        return True
    if is_dyn(other) or other.kind == "param":
        return False
    if one.kind != other.kind or one.name != other.name or len(one.params) != len(other.params):
        return False
    return one.kind == "type" or all(map(_less_specific, one.params, other.params))


def parse_type(text: str) -> Type:
    """Read a type as signatures write it: ``map(K, list(string))``."""
    parsed, rest = _parse(text.strip())
    if rest:
        raise ValueError(text)
    return parsed


def _parse(text: str) -> tuple[Type, str]:
    end = next((n for n, sign in enumerate(text) if sign in "(),"), len(text))
    name, rest = text[:end].strip(), text[end:]
    params: list[Type] = []
    while rest and rest[0] in "(," and (rest[0] == "(" or params):
        if rest[0] == "," and not params:
            break
        inner, rest = _parse(rest[1:])
        params.append(inner)
        if rest[:1] == ")":
            rest = rest[1:]
            break
    if len(name) == 1:
        return Type("param", (), name), rest
    if "." in name and not name.startswith("google."):
        return Type("object", (), name), rest
    return Type(name, tuple(params)), rest
