"""Values as CEL sees them, typed by their schema, and the functions Kubernetes adds to CEL.

Loaded only when a definition has a rule.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, Final

from celpy import celtypes
from celpy.adapter import json_to_cel

from arranger.embedded import Object
from arranger.embedded.crd.cel_quantity import QUANTITIES

_KEYWORDS: Final = frozenset(
    [
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for"),
        *("function", "if", "import", "let", "loop", "package", "namespace", "return", "var"),
        *("void", "while"),
    ]
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
#: The fields of ``metadata`` that rules may read.
_VISIBLE_METADATA: Final = ("name", "generateName")


def escape_identifier(name: str) -> str:
    """A property's name as rules must write it."""
    if name in _KEYWORDS:
        return f"__{name}__"
    return re.sub(r"__|[.\-/]", lambda found: _ESCAPES[found[0]], name)


def to_cel(schema: Object, value: Any, *, root: bool = False) -> Any:
    """A JSON value as a CEL value; of an object only the fields in its schema."""
    if value is None:
        return None
    if "type" not in schema:
        return json_to_cel(value)
    if isinstance(value, dict):
        return _object_to_cel(schema, value, root)
    if isinstance(value, list):
        items = schema.get("items") or {}
        return celtypes.ListType([to_cel(items, item) for item in value])
    match schema.get("type"), schema.get("format"):
        case "number", _:
            return celtypes.DoubleType(value)
        case "integer", _:
            return celtypes.IntType(int(value))
        case "string", "date-time" | "datetime":
            return celtypes.TimestampType(value)
        case "string", "date":
            return celtypes.TimestampType(f"{value}T00:00:00Z")
        case "string", "duration":
            return celtypes.DurationType(value)
        case "string", "byte":
            return celtypes.BytesType(base64.b64decode(value))
    return json_to_cel(value)


def _object_to_cel(schema: Object, value: Object, root: bool) -> Any:
    known, more = schema.get("properties") or {}, schema.get("additionalProperties")
    if more and not known:
        inner = more if isinstance(more, dict) else {}
        return celtypes.MapType(
            {celtypes.StringType(name): to_cel(inner, child) for name, child in value.items()}
        )
    if root or schema.get("x-kubernetes-embedded-resource"):
        text = {"type": "string"}
        metadata = {"type": "object", "properties": dict.fromkeys(_VISIBLE_METADATA, text)}
        known = {**known, "apiVersion": text, "kind": text, "metadata": metadata}
    fields = {
        celtypes.StringType(escape_identifier(name)): to_cel(known[name], child)
        for name, child in value.items()
        if name in known
    }
    if not schema.get("x-kubernetes-preserve-unknown-fields"):
        return celtypes.MapType(fields)
    return _PreservingMap(fields, {n: child for n, child in value.items() if n not in known})


class _PreservingMap(celtypes.MapType):
    """An object of which rules see the known fields, and compare the others all the same."""

    def __init__(self, fields: Mapping[Any, Any], unknown: Object) -> None:
        super().__init__(fields)
        self._unknown = unknown

    def __eq__(self, other: Any) -> Any:
        unknown = other._unknown if isinstance(other, _PreservingMap) else {}
        return super().__eq__(other) if self._unknown == unknown else celtypes.BoolType(False)

    def __ne__(self, other: Any) -> Any:
        return celtypes.BoolType(not self == other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class OldSelf:
    """``oldSelf`` of a rule with ``optionalOldSelf``: the former value, if there is one."""

    value: Any = None
    known: bool = False


def _or_value(old: OldSelf, otherwise: Any) -> Any:
    return old.value if old.known else otherwise


def _sum(items: Any) -> Any:
    return reduce(add, items) if items else celtypes.IntType(0)


def _is_sorted(items: Any) -> Any:
    return celtypes.BoolType(all(a <= b for a, b in pairwise(items)))


def _index_of(within: Any, what: Any) -> Any:
    if isinstance(within, str):
        return celtypes.IntType(within.find(what))
    return celtypes.IntType(next((n for n, item in enumerate(within) if item == what), -1))


def _last_index_of(within: Any, what: Any) -> Any:
    if isinstance(within, str):
        return celtypes.IntType(within.rfind(what))
    places = reversed(range(len(within)))
    return celtypes.IntType(next((n for n in places if within[n] == what), -1))


def _returning_string(of: Callable[..., str]) -> Callable[..., Any]:
    return lambda *given: celtypes.StringType(of(*given))


def _string_list(found: list[str]) -> Any:
    return celtypes.ListType([celtypes.StringType(text) for text in found])


def _first_match(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


#: Kubernetes' own functions on lists and quantities, and CEL's extended ones on strings.
FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **QUANTITIES,
    "hasValue": lambda old: celtypes.BoolType(old.known),
    "value": lambda old: old.value,
    "orValue": _or_value,
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": lambda items: min(items),
    "max": lambda items: max(items),
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "find": _returning_string(_first_match),
    "findAll": lambda text, pattern: _string_list([m[0] for m in re.finditer(pattern, text)]),
    "charAt": _returning_string(lambda text, at: text[at : at + 1]),
    "join": _returning_string(lambda items, between="": between.join(items)),
    "lowerAscii": _returning_string(str.lower),
    "upperAscii": _returning_string(str.upper),
    "replace": _returning_string(str.replace),
    "split": lambda text, at: _string_list(text.split(at)),
    "substring": _returning_string(lambda text, start, end=None: text[start:end]),
    "trim": _returning_string(str.strip),
}
