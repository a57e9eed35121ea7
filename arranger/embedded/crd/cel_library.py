"""What CEL rules see: values typed by their schema, and the functions that Kubernetes adds to CEL.

Loaded only when a definition has a rule.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from celpy import celtypes
from celpy.adapter import json_to_cel

from arranger.api.cel_quantity import QUANTITIES

Object = dict[str, Any]

_KEYWORDS: Final = frozenset(
    [
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for"),
        *("function", "if", "import", "let", "loop", "package", "namespace", "return", "var"),
        *("void", "while"),
    ]
)
_ESCAPES: Final = (
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
)
#: Of the metadata only these can be seen.
_METADATA: Final = ("name", "generateName")


def escaped(name: str) -> str:
    """The name by which rules know a property."""
    if name in _KEYWORDS:
        return f"__{name}__"
    return re.sub(r"__|[.\-/]", lambda found: dict(_ESCAPES)[found[0]], name)


def typed(schema: Object, value: Any, *, root: bool = False) -> Any:
    """A JSON value as CEL has it; of an object, what its schema names."""
    if value is None:
        return None
    if "type" not in schema:
        return json_to_cel(value)
    if isinstance(value, dict):
        return _typed_object(schema, value, root)
    if isinstance(value, list):
        items = schema.get("items") or {}
        return celtypes.ListType([typed(items, item) for item in value])
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


def _typed_object(schema: Object, value: Object, root: bool) -> Any:
    known, more = schema.get("properties") or {}, schema.get("additionalProperties")
    if more and not known:
        inner = more if isinstance(more, dict) else {}
        return celtypes.MapType(
            {celtypes.StringType(name): typed(inner, child) for name, child in value.items()}
        )
    if root or schema.get("x-kubernetes-embedded-resource"):
        text = {"type": "string"}
        metadata = {"type": "object", "properties": dict.fromkeys(_METADATA, text)}
        known = {**known, "apiVersion": text, "kind": text, "metadata": metadata}
    return celtypes.MapType(
        {
            celtypes.StringType(escaped(name)): typed(known[name], child)
            for name, child in value.items()
            if name in known
        }
    )


@dataclass(frozen=True, slots=True)
class OldSelf:
    """The former value where there may be none (``optionalOldSelf``)."""

    value: Any = None
    known: bool = False


def _or_value(old: OldSelf, otherwise: Any) -> Any:
    return old.value if old.known else otherwise


def _sum(items: Any) -> Any:
    total = items[0] if items else celtypes.IntType(0)
    for item in items[1:]:
        total = total + item
    return total


def _is_sorted(items: Any) -> Any:
    return celtypes.BoolType(all(a <= b for a, b in pairwise(items)))


def _index_of(within: Any, what: Any) -> Any:
    if isinstance(within, str):
        return celtypes.IntType(within.find(what))
    return celtypes.IntType(next((n for n, item in enumerate(within) if item == what), -1))


def _last_index_of(within: Any, what: Any) -> Any:
    if isinstance(within, str):
        return celtypes.IntType(within.rfind(what))
    found = [n for n, item in enumerate(within) if item == what]
    return celtypes.IntType(found[-1] if found else -1)


def _text(of: Callable[..., str]) -> Callable[..., Any]:
    return lambda *given: celtypes.StringType(of(*given))


def _texts(found: list[str]) -> Any:
    return celtypes.ListType([celtypes.StringType(text) for text in found])


def _found(text: str, pattern: str) -> str:
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
    "find": _text(_found),
    "findAll": lambda text, pattern: _texts([m[0] for m in re.finditer(pattern, text)]),
    "charAt": _text(lambda text, at: text[at : at + 1]),
    "join": _text(lambda items, between="": between.join(items)),
    "lowerAscii": _text(lambda text: text.lower()),
    "upperAscii": _text(lambda text: text.upper()),
    "replace": _text(lambda text, old, new: text.replace(old, new)),
    "split": lambda text, at: _texts(text.split(at)),
    "substring": _text(lambda text, start, end=None: text[start:end]),
    "trim": _text(lambda text: text.strip()),
}
