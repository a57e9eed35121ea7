"""What rules see of a schema, as types, and of a value, as CEL's values.

Upstream: ``k8s.io/apiserver/pkg/cel/common/{schemas,valuesunstructured}.go`` and ``escaping.go``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from arranger.cel import types
from arranger.cel.errors import CelError
from arranger.cel.functions.times import read_duration, read_timestamp
from arranger.cel.types import Type
from arranger.cel.values import CelMap, key_of
from arranger.embedded import Object

_KEYWORDS: Final = frozenset(
    [
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for"),
        *("function", "if", "import", "let", "loop", "package", "namespace", "return", "var"),
        *("void", "while"),
    ]
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[.\-/]")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./\-]*", re.ASCII)
_TEXT: Final[Object] = {"type": "string"}
_METADATA: Final[Object] = {
    "type": "object",
    "properties": {"name": _TEXT, "generateName": _TEXT},
}
_SCALARS: Final[dict[str, Type]] = {
    "boolean": types.BOOL,
    "number": Type("double"),
    "integer": types.INT,
}
_FORMATS: Final[dict[str, Type]] = {
    "byte": Type("bytes"),
    "duration": Type("duration"),
    "date": Type("timestamp"),
    "date-time": Type("timestamp"),
}
#: Bytes are written in the alphabet for URLs, and no other; ends of lines are passed over.
_FROM_URL_ALPHABET: Final = str.maketrans("-_+/", "+/  ", "\r\n")
_UNKNOWN: Final = "\0"


def escape_identifier(name: str) -> str | None:
    """A property's name as rules must write it; None where they cannot."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], name)


def properties_of(schema: Object, *, root: bool) -> Mapping[str, Object]:
    """The properties of an object that rules see."""
    known: Mapping[str, Object] = schema.get("properties") or {}
    if root or schema.get("x-kubernetes-embedded-resource"):
        known = {**known, "apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}
    return known


class DeclaredTypes:
    """The types of a schema and what is in it.

    Attributes:
        objects: the fields of each type of objects, by its name.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Mapping[str, Type]] = {}

    def declare(self, schema: Object, *, root: bool = False) -> Type | None:
        """The type of values of a schema; None where rules see nothing of them."""
        if schema.get("x-kubernetes-int-or-string"):
            return types.DYN
        match schema.get("type"):
            case "array":
                inner = self.declare(schema.get("items") or {})
                return None if inner is None else types.list_of(inner)
            case "object":
                return self._object(schema, root)
            case "string":
                return _FORMATS.get(schema.get("format", ""), types.STRING)
            case str(kind):
                return _SCALARS.get(kind)
        return None

    def _object(self, schema: Object, root: bool) -> Type | None:
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            inner = self.declare(more)
            return None if inner is None else types.map_of(types.STRING, inner)
        fields: dict[str, Type] = {}
        for name, child in properties_of(schema, root=root).items():
            declared, escaped = self.declare(child), escape_identifier(name)
            if declared is not None and escaped is not None:
                fields[escaped] = declared
        made = Type("object", (), f"object.{len(self.objects)}")
        self.objects[made.name] = fields
        return made


def _is_seen(schema: Object) -> bool:
    """Whether rules see something of values of a schema."""
    if schema.get("x-kubernetes-int-or-string"):
        return True
    match schema.get("type"):
        case "array":
            return _is_seen(schema.get("items") or {})
        case "object":
            more = schema.get("additionalProperties")
            return not isinstance(more, dict) or _is_seen(more)
    return "type" in schema


def to_cel(schema: Object, value: Any, *, root: bool = False) -> Any:
    """A JSON value as rules see it; an error where it is none of its schema."""
    if value is None:
        return None
    if schema.get("x-kubernetes-int-or-string"):
        return value
    match schema.get("type"):
        case "object" if isinstance(value, dict):
            return _map(schema, value, root)
        case "array" if isinstance(value, list):
            items = schema.get("items") or {}
            return [to_cel(items, item) for item in value]
        case "number" if isinstance(value, int | float):
            return float(value)
        case "integer" if isinstance(value, int | float):
            return int(value)
        case "string" if isinstance(value, str):
            return _text(schema.get("format", ""), value)
    return value


def _text(form: str, value: str) -> Any:
    match form:
        case "date-time":
            moment = read_timestamp(value or "1970-01-01T00:00:00Z")
            # Without an offset it is of UTC.
            return read_timestamp(f"{value}Z") if isinstance(moment, CelError) else moment
        case "date":
            return read_timestamp(f"{value}T00:00:00Z")
        case "duration":
            return read_duration(value)
        case "byte":
            try:
                return base64.b64decode(value.translate(_FROM_URL_ALPHABET), validate=True)
            except (binascii.Error, ValueError):
                return CelError("Invalid byte formatted string")
    return value


def _map(schema: Object, value: Object, root: bool) -> CelMap:
    made: dict[Any, tuple[Any, Any]] = {}
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        for name, child in value.items():
            made[key_of(name)] = name, to_cel(more, child)
        return CelMap(made)
    known = properties_of(schema, root=root)
    for name, child in value.items():
        inner, escaped = known.get(name), escape_identifier(name)
        if inner is not None and escaped is not None and _is_seen(inner):
            if child is not None:  # as if it were not there
                made[escaped] = escaped, to_cel(inner, child)
        elif not root:
            # No rule can name it; two objects are equal only where it is.
            text = msgspec.json.encode(child, order="deterministic")
            made[_UNKNOWN + name] = _UNKNOWN + name, text
    return CelMap(made)
