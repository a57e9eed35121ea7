"""Every way in which one field of a status may be wrong, made from the definitions."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from arranger.embedded.bundled_crds import bundled_crds

Object = dict[str, Any]
#: Steps to a place in a status: names of fields, keys of maps, numbers of items.
Path = tuple[str | int, ...]
_MISSING: Any = object()

#: The API server defines it itself; there is no definition to read.
_NATIVE: Object = {
    "type": "object",
    "properties": {
        "conditions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "status", "lastTransitionTime"],
                "properties": {
                    "type": {"type": "string"},
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "reason": {"type": "string"},
                    "message": {"type": "string"},
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                },
            },
        }
    },
}


@dataclass(frozen=True, slots=True)
class StatusKind:
    """A kind whose status is judged."""

    plural: str
    group: str
    schema: Object

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}"

    def fields(self) -> set[str]:
        """Every field of the status, ``.bundles[].name`` for one of each item."""
        return set(_leaves(self.schema, ""))

    def mutations(self, status: Object) -> Iterator[tuple[str, Object]]:
        """(a field, the status with that field changed), for every field and several values."""
        for field, path, value in _changes(self.schema, status, "", ()):
            yield field, _with(status, path, value)


def status_kinds() -> list[StatusKind]:
    """All of them."""
    found = [StatusKind("podgroups", "scheduling.k8s.io", _NATIVE)]
    for definition in bundled_crds():
        spec = definition["spec"]
        (version,) = spec["versions"]
        schema = version["schema"]["openAPIV3Schema"]["properties"].get("status")
        if schema is not None:  # a Command has none
            found.append(StatusKind(spec["names"]["plural"], spec["group"], schema))
    return found


def _leaves(schema: Object, name: str) -> Iterator[str]:
    if "properties" in schema:
        for field, inner in schema["properties"].items():
            yield from _leaves(inner, f"{name}.{field}")
    elif schema.get("type") == "array":
        yield from _leaves(schema["items"], f"{name}[]")
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from _leaves(schema["additionalProperties"], f"{name}{{}}")
    else:
        yield name


def _changes(
    schema: Object, value: Any, name: str, path: Path, *, required: bool = False
) -> Iterator[tuple[str, Path, Any]]:
    if value is _MISSING:
        for field in _leaves(schema, name):
            yield field, path, _sample(schema)
    elif "properties" in schema:
        for field, inner in schema["properties"].items():
            known, must = value.get(field, _MISSING), field in schema.get("required", ())
            yield from _changes(inner, known, f"{name}.{field}", (*path, field), required=must)
    elif schema.get("type") == "array":
        for number, item in enumerate(value):
            yield from _changes(schema["items"], item, f"{name}[]", (*path, number))
    elif isinstance(schema.get("additionalProperties"), dict):
        inner = schema["additionalProperties"]
        for key, item in value.items():
            yield from _changes(inner, item, f"{name}{{}}", (*path, key))
    else:
        if value and not required:
            yield name, path, _MISSING
        for other in _others(schema, value):
            yield name, path, other


def _others(schema: Object, value: Any) -> Iterator[Any]:
    """Other values that a field may have."""
    if "enum" in schema:
        yield from (other for other in schema["enum"] if other != value)
    elif schema.get("type") == "boolean":
        yield not value
    elif schema.get("type") == "integer":
        yield value + 1
        if value > 0:
            yield value - 1
    elif schema.get("format") == "date-time":
        for hours in (-1, 1):
            moved = datetime.fromisoformat(value) + timedelta(hours=hours)
            yield moved.isoformat().replace("+00:00", "Z")
    else:
        yield _sample(schema)


def _sample(schema: Object) -> Any:
    """A value that nothing gives."""
    if "properties" in schema:
        return {name: _sample(inner) for name, inner in schema["properties"].items()}
    if schema.get("type") == "array":
        return [_sample(schema["items"])]
    if isinstance(schema.get("additionalProperties"), dict):
        return {"something": _sample(schema["additionalProperties"])}
    if "enum" in schema:
        return schema["enum"][-1]
    samples = {"boolean": True, "integer": 77, "string": "77"}
    return (
        "2026-01-01T00:00:01Z"
        if schema.get("format") == "date-time"
        else samples.get(schema.get("type", ""), "77")
    )


def _with(status: Object, path: Path, value: Any) -> Object:
    changed = deepcopy(status)
    inner: Any = changed
    for step in path[:-1]:
        inner = inner[step]
    if value is _MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return changed
