"""Which fields there are to attack: of our definitions by their schemas, of Kubernetes' kinds by
the types that the processes read them as."""

from __future__ import annotations

import datetime
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec

from arranger.api.quantity import RawQuantity
from arranger.embedded.bundled_crds import bundled_crds

Path = tuple[str | int, ...]
#: How deep types and schemas are gone into.
_DEPTH: Final = 8


@dataclass(frozen=True, slots=True)
class Field:
    """Where a value is, and of which type: ``string``, ``integer``, ``quantity``, ``texts``…"""

    path: Path
    type: str

    def __str__(self) -> str:
        return ".".join(map(str, self.path))


def fields_of_type(kind: type) -> list[Field]:
    """The fields of a struct that objects are decoded as, at any depth."""
    return list(_of_struct(kind, ()))


def _of_struct(kind: type, path: Path) -> Iterator[Field]:
    hints = typing.get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        yield from _of_hint(hints[field.name], (*path, field.encode_name))


def _of_hint(hint: Any, path: Path) -> Iterator[Field]:
    if len(path) > _DEPTH:
        return
    if hint == RawQuantity:
        yield Field(path, "quantity")
        return
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        for option in typing.get_args(hint):
            if option is not type(None):
                yield from _of_hint(option, path)
    elif origin in (list, Sequence):
        yield Field(path, "array")
        yield from _of_hint(typing.get_args(hint)[0], (*path, 0))
    elif origin in (dict, Mapping):
        yield Field(path, "object")
        yield from _of_hint(typing.get_args(hint)[1], (*path, "example.com/key"))
    elif origin is typing.Literal:
        yield Field(path, "string")
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield Field(path, "object")
        yield from _of_struct(hint, path)
    else:
        yield Field(path, _SCALARS.get(hint, "any"))


_SCALARS: Final[dict[Any, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    datetime.datetime: "time",
}


def schemas() -> dict[str, dict[str, Any]]:
    """``group/version/Kind`` of our definitions → schema of it."""
    return {
        f"{crd['spec']['group']}/{version['name']}/{crd['spec']['names']['kind']}": version[
            "schema"
        ]["openAPIV3Schema"]
        for crd in bundled_crds()
        for version in crd["spec"]["versions"]
    }


def fields_of_schema(schema: dict[str, Any], path: Path = ()) -> Iterator[Field]:
    """The fields that a schema describes, but for ``apiVersion``, ``kind`` and ``metadata``."""
    if path:
        integer_or_text = schema.get("x-kubernetes-int-or-string")
        yield Field(path, "quantity" if integer_or_text else schema.get("type", "any"))
    if len(path) > _DEPTH:
        return
    for name, part in (schema.get("properties") or {}).items():
        if path or name not in ("apiVersion", "kind", "metadata"):
            yield from fields_of_schema(part, (*path, name))
    if isinstance(entry := schema.get("additionalProperties"), dict):
        yield from fields_of_schema(entry, (*path, "example.com/key"))
    if isinstance(item := schema.get("items"), dict):
        yield from fields_of_schema(item, (*path, 0))


def with_value(obj: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """The object with another value at a place, whose way is made where there is none."""
    copy = _copy(obj)
    here: Any = copy
    for step, following in pairwise(path):
        there = _entry(here, step)
        right = list if isinstance(following, int) else dict
        if not isinstance(there, right) or (right is list and not there):
            there = right() if right is dict else [{}]
            _set(here, step, there)
        here = there
    _set(here, path[-1], value)
    return copy


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(part) for name, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value


def _entry(parent: Any, step: str | int) -> Any:
    return parent.get(step) if isinstance(parent, dict) else parent[step]


def _set(parent: Any, step: str | int, value: Any) -> None:
    parent[step] = value
