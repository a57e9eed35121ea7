"""The fields of the built-in kinds and their types, as the client library's models know them.

The models of ``kubernetes_asyncio`` are generated from the OpenAPI document of each Kubernetes
release, so the fields known here are those of the release that the package follows. They are
loaded when the first object is looked at, because that takes a third of a second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib import import_module
from typing import Any, Final

from arranger.embedded import Object
from arranger.embedded.crd.schema import PrunedObject, WrongTypeError

#: Where several groups have a kind of one name, the model's name includes the group.
_MODEL_NAMES: Final[Mapping[tuple[str, str], str]] = {
    ("v1", "Event"): "CoreV1Event",
    ("events.k8s.io/v1", "Event"): "EventsV1Event",
    ("resource.k8s.io/v1", "ResourceClaim"): "ResourceV1ResourceClaim",
}
#: The path of a field with quantities, or of an entry of it: resources have names with dots.
#: Quantities may be sent as numbers; the models call them strings.
_QUANTITY_PATH: Final = re.compile(
    r"(?:^|\.)(?:allocatable|allocatedResources|capacity|divisor|limits|maximumVolumeSize|overhead"
    r"|requests|sizeLimit)(?:\.[^\[]*)?$"
)
_SCALARS: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
    "datetime": (str,),
}
#: Scalars whose values are right if they are of this very type.
_PLAIN: Final[Mapping[str, type]] = {"str": str, "int": int, "bool": bool}
#: What is known of a field that the kind does not have.
_UNKNOWN: Final[tuple[str, type | None]] = ("", None)

_JSON_TYPES: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
}


def prune(obj: Object, api_version: str, kind: str) -> PrunedObject:
    """Copy an object of a built-in kind without its unknown and null fields, checking types.

    Raises:
        KeyError: there is no such kind.
        WrongTypeError: a field has a value of another type.
    """
    model = _MODEL_NAMES.get((api_version, kind))
    if model is None:
        _, _, version = api_version.rpartition("/")
        model = f"{version[0].upper()}{version[1:]}{kind}"
    return _prune(obj, model, "")


def prune_metadata(metadata: Object) -> PrunedObject:
    """The same for the metadata of an object of any kind.

    Raises:
        WrongTypeError: a field has a value of another type.
    """
    return _prune(metadata, "V1ObjectMeta", "metadata")


def _prune(obj: Object, model: str, path: str) -> PrunedObject:
    unknown: list[str] = []
    return PrunedObject(_prune_value(obj, model, path, unknown), unknown)


def _prune_value(value: Any, kind: str, path: str, unknown: list[str]) -> Any:
    """``value`` as its type would be decoded; paths of unknown fields are added to ``unknown``."""
    if kind == "object":
        return value
    if kind in _SCALARS:
        return _check_scalar(value, kind, path)
    if kind.startswith("list["):
        if not isinstance(value, list):
            raise _wrong_type(value, kind, path)
        inner = kind[5:-1]
        return [_prune_value(v, inner, f"{path}[{n}]", unknown) for n, v in enumerate(value)]
    if not isinstance(value, dict):
        raise _wrong_type(value, kind, path)
    if kind.startswith("dict("):
        inner = _values_of(kind)
        if inner == "str" and _are_texts(value):
            return dict(value)
        return {
            name: _prune_value(child, inner, f"{path}.{name}", unknown)
            for name, child in value.items()
            if child is not None
        }
    fields, fitted = _fields(kind), {}
    for name, child in value.items():
        expected, plain = fields.get(name, _UNKNOWN)
        if type(child) is plain:
            fitted[name] = child
        elif not expected:
            unknown.append(f"{path}.{name}" if path else name)
        elif child is not None:
            place = f"{path}.{name}" if path else name
            fitted[name] = _prune_value(child, expected, place, unknown)
    return fitted


@cache
def _values_of(kind: str) -> str:
    """The kind of the values of ``dict(…, …)``."""
    return kind[5:-1].split(", ", 1)[1]


def _are_texts(value: Object) -> bool:
    return all(type(child) is str for child in value.values())


def _check_scalar(value: Any, kind: str, path: str) -> Any:
    right = isinstance(value, _SCALARS[kind]) and (kind == "bool" or not isinstance(value, bool))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "str" and number and _QUANTITY_PATH.search(path):
        return str(value)
    if not right:
        raise _wrong_type(value, kind, path)
    if kind == "datetime":
        try:
            datetime.fromisoformat(value)
        except ValueError as error:
            raise WrongTypeError(f'parsing time "{value}" of {path}: {error}') from error
    return value


def _wrong_type(value: Any, kind: str, path: str) -> WrongTypeError:
    actual = _JSON_TYPES.get(type(value), "null")
    return WrongTypeError(f"json: cannot unmarshal {actual} into field {path} of type {kind}")


@cache
def _fields(model: str) -> Mapping[str, tuple[str, type | None]]:
    """JSON names of a model's fields, with their types, and that of values that fit as they are."""
    known = getattr(import_module("kubernetes_asyncio.client.models"), model, None)
    if known is None:
        raise KeyError(f"no model {model}")
    types: Mapping[str, str] = known.openapi_types
    names: Mapping[str, str] = known.attribute_map
    return {names[attribute]: (kind, _PLAIN.get(kind)) for attribute, kind in types.items()}
