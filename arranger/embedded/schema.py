"""Structural schemas of custom resources: defaults, pruning and validation.

Covers what OpenAPI v3 structural schemas are made of. CEL rules (``x-kubernetes-validations``) are
refused when the definition is registered, because a rule that is not checked would be a lie.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from arranger.embedded.fitting import Fitted

Object = dict[str, Any]

#: Fields of every object, which no schema describes.
_HEAD: Final = ("apiVersion", "kind", "metadata")
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One violation: the field's path, the cause's reason, and the message without the path."""

    field: str
    type: str
    message: str
    bad_value: Any = None


@dataclass(frozen=True, slots=True)
class CustomSchema:
    """The schema of one version of a custom resource."""

    root: Object

    @classmethod
    def parse(cls, schema: Object) -> CustomSchema:
        """Take a schema as a definition has it.

        Raises:
            ValueError: it has a rule that we cannot check; the message names its place.
        """
        for path in _rules(schema, "openAPIV3Schema"):
            raise ValueError(f"{path}.x-kubernetes-validations: CEL rules are not supported here")
        return cls(schema)

    def prune(self, obj: Object) -> Fitted:
        """A copy without nulls and without the fields that nobody knows, which are told.

        ``metadata`` is not looked at.
        """
        unknown: list[str] = []
        body = {k: v for k, v in obj.items() if k not in _HEAD}
        pruned = _prune(self.root, body, "", unknown)
        return Fitted({**{k: obj[k] for k in _HEAD if k in obj}, **pruned}, unknown)

    def default(self, obj: Object) -> None:
        """Fill in defaults, in place."""
        _default(self.root, obj)

    def validate(self, obj: Object, old: Object | None = None) -> list[FieldError]:
        """Every violation; ``old`` is what an update replaces."""
        del old  # only CEL's transition rules would look at it
        return list(_validate(self.root, obj, ""))


def _rules(schema: Object, path: str) -> Iterator[str]:
    if schema.get("x-kubernetes-validations"):
        yield path
    for name, child in (schema.get("properties") or {}).items():
        yield from _rules(child, f"{path}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _rules(schema[name], f"{path}.{name}")


def _prune(schema: Object, value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items") or {"x-kubernetes-preserve-unknown-fields": True}
        return [_prune(items, v, f"{path}[{n}]", unknown) for n, v in enumerate(value)]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    keep = schema.get("x-kubernetes-preserve-unknown-fields") or more is True
    pruned: Object = {}
    for name, child in value.items():
        inner = known.get(name, more if isinstance(more, dict) else None)
        if inner is None and keep:
            pruned[name] = deepcopy(child)
        elif inner is None:
            unknown.append(_join(path, name))
        elif child is not None or inner.get("nullable"):
            pruned[name] = _prune(inner, child, _join(path, name), unknown)
    return pruned


def _default(schema: Object, value: Any) -> None:
    if isinstance(value, dict):
        for name, child in (schema.get("properties") or {}).items():
            if name not in value and "default" in child:
                value[name] = deepcopy(child["default"])
            if name in value:
                _default(child, value[name])
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            for child_value in value.values():
                _default(more, child_value)
    elif isinstance(value, list):
        for item in value:
            _default(schema.get("items") or {}, item)


def _validate(schema: Object, value: Any, path: str) -> Iterator[FieldError]:
    if value is None and schema.get("nullable"):
        return
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield _wrong_type(path, value, "integer,string")
        return
    wanted = schema.get("type")
    if wanted and not _has_type(value, wanted):
        yield _wrong_type(path, value, wanted)
        return
    yield from _bounds(schema, value, path)
    if isinstance(value, dict):
        for name in schema.get("required") or ():
            if name not in value:
                yield FieldError(_join(path, name), "FieldValueRequired", "Required value")
        known = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        for name, child in value.items():
            if name in known:
                yield from _validate(known[name], child, _join(path, name))
            elif isinstance(more, dict):
                yield from _validate(more, child, _join(path, name))
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for n, item in enumerate(value):
            yield from _validate(schema["items"], item, f"{path}[{n}]")


def _bounds(schema: Object, value: Any, path: str) -> Iterator[FieldError]:
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{v}"' for v in schema["enum"])
        message = f'Unsupported value: "{value}": supported values: {supported}'
        yield FieldError(path, "FieldValueNotSupported", message, value)
    size = len(value) if isinstance(value, str | list | dict) else 0
    for broken, text in (
        (_beyond(schema, "minimum", value, -1), "greater than or equal to"),
        (_beyond(schema, "maximum", value, 1), "less than or equal to"),
    ):
        if broken is not None:
            message = f"Invalid value: {value}: {path} in body should be {text} {broken}"
            yield FieldError(path, "FieldValueInvalid", message, value)
    for low, high, kind in (
        ("minLength", "maxLength", str),
        ("minItems", "maxItems", list),
        ("minProperties", "maxProperties", dict),
    ):
        if not isinstance(value, kind):
            continue
        if size < schema.get(low, 0) or size > schema.get(high, size):
            limit = schema.get(low) if size < schema.get(low, 0) else schema.get(high)
            message = f"Invalid value: {path} in body should have a size within {limit}"
            yield FieldError(path, "FieldValueInvalid", message, value)
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        message = f"Invalid value: \"{value}\": {path} in body should match '{schema['pattern']}'"
        yield FieldError(path, "FieldValueInvalid", message, value)


def _beyond(schema: Object, name: str, value: Any, sign: int) -> Any:
    limit = schema.get(name)
    if limit is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return limit if (value - limit) * sign > 0 else None


def _has_type(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[wanted])


def _wrong_type(path: str, value: Any, wanted: str) -> FieldError:
    actual = next((n for n, kind in _TYPES.items() if isinstance(value, kind)), "null")
    message = f'Invalid value: "{actual}": {path} in body must be of type {wanted}: "{actual}"'
    return FieldError(path, "FieldValueTypeInvalid", message, value)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
