"""The largest objects that an API server stores: one for each list and map of a kind.

They are made from the types that we decode into, so a field that is added is filled here, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import inspect

from arranger.api.types import core, resource_claims

#: etcd takes no object of more bytes.
LARGEST: Final = 1_500_000

Manifest = dict[str, Any]
#: What stands in a list of these, the n-th of many. Whatever else is asked of it is filled in.
EXAMPLES: Final[dict[type[Any], Callable[[int], Manifest]]] = {
    core.Requirement: lambda n: {"key": f"k{n}", "operator": "NotIn", "values": [f"v{n}"]},
    core.NodeSelectorTerm: lambda n: {"matchExpressions": [{"key": f"k{n}", "operator": "Exists"}]},
    core.PreferredSchedulingTerm: lambda n: {
        "weight": 1,
        "preference": {"matchExpressions": [{"key": f"k{n}", "operator": "Exists"}]},
    },
    core.PodAffinityTerm: lambda n: {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": f"a{n}"}},
    },
    core.WeightedPodAffinityTerm: lambda n: {
        "weight": 1,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": f"a{n}"}},
        },
    },
    core.Toleration: lambda n: {"key": f"k{n}", "operator": "Exists"},
    core.TopologySpreadConstraint: lambda n: {
        "maxSkew": 1,
        "topologyKey": f"topology.kubernetes.io/zone{n or ''}",
        "whenUnsatisfiable": "ScheduleAnyway" if n % 2 else "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": f"a{n}"}},
    },
    core.Container: lambda n: {"name": f"c{n}", "image": f"i{n}"},
    core.ContainerPort: lambda n: {"hostPort": n % 65535 + 1},
    core.Volume: lambda n: {"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{n}"}},
    core.PodResourceClaim: lambda n: {"name": f"c{n}", "resourceClaimName": f"r{n}"},
    core.OwnerReference: lambda n: {"kind": "Job", "name": f"o{n}", "uid": f"u{n}"},
    resource_claims.DeviceRequest: lambda n: {
        "name": f"r{n}",
        "exactly": {"name": "", "deviceClassName": "gpu"},
    },
    resource_claims.DeviceSubRequest: lambda n: {"name": f"s{n}", "deviceClassName": "gpu"},
    resource_claims.DeviceSelector: lambda n: {"cel": {"expression": f"device.driver != '{n}'"}},
    resource_claims.DeviceConstraint: lambda n: {"matchAttribute": f"gpu.example.com/a{n}"},
    resource_claims.Device: lambda n: {"name": f"d{n}"},
}


def fields_that_grow(kind: type[Any]) -> Iterator[tuple[str, ...]]:
    """The paths of the lists and maps of a type; ``[]`` stands for what is in a list."""
    yield from _walk(inspect.type_info(kind), (), ())


def _walk(
    info: inspect.Type, path: tuple[str, ...], inside: tuple[type[Any], ...]
) -> Iterator[tuple[str, ...]]:
    if isinstance(info, inspect.UnionType):
        for each in info.types:
            if not isinstance(each, inspect.NoneType):
                yield from _walk(each, path, inside)
    elif isinstance(info, inspect.DictType):
        yield path
        yield from _walk(info.value_type, (*path, "{}"), inside)
    elif isinstance(info, inspect.ListType):
        yield path
        yield from _walk(info.item_type, (*path, "[]"), inside)
    elif isinstance(info, inspect.StructType) and info.cls not in inside:
        for field in info.fields:
            yield from _walk(field.type, (*path, field.encode_name), (*inside, info.cls))


def largest(kind: type[Any], path: tuple[str, ...], base: Manifest) -> Manifest:
    """A manifest of a kind in which the field of that path is as large as it can be."""
    low, high = 1, 200_000
    while low < high - high // 50 - 1:
        middle = (low + high) // 2
        if len(json.dumps(with_many(kind, path, middle, base))) <= LARGEST:
            low = middle
        else:
            high = middle
    return with_many(kind, path, low, base)


def with_many(kind: type[Any], path: tuple[str, ...], count: int, base: Manifest) -> Manifest:
    """A manifest of a kind in which the field of that path has so many entries."""
    made = _fill(inspect.type_info(kind), path, count, {})
    return _merged(base, made)


def _fill(info: inspect.Type, path: tuple[str, ...], count: int, base: Any) -> Any:
    if isinstance(info, inspect.UnionType):
        info = next(each for each in info.types if not isinstance(each, inspect.NoneType))
    if isinstance(info, inspect.StructType):
        field = next(f for f in info.fields if f.encode_name == path[0])
        inner = base.get(path[0], {})
        return {**base, path[0]: _fill(field.type, path[1:], count, inner)}
    if isinstance(info, inspect.ListType):
        if not path:
            return [_example(info.item_type, n) for n in range(count)]
        return [_fill(info.item_type, path[1:], count, _example(info.item_type, 0))]
    assert isinstance(info, inspect.DictType), path
    if not path:
        return {f"example.com/k{n}": _example(info.value_type, n) for n in range(count)}
    return {"example.com/k": _fill(info.value_type, path[1:], count, {})}


def _example(info: inspect.Type, n: int) -> Any:
    if isinstance(info, inspect.StructType):
        return EXAMPLES.get(info.cls, _plain_example(info))(n)
    if isinstance(info, inspect.UnionType):
        return str(n + 1)  # a quantity
    return {"k": n} if isinstance(info, inspect.DictType) else f"v{n}"


def _plain_example(info: inspect.StructType) -> Callable[[int], Manifest]:
    texts = [f.encode_name for f in info.fields if isinstance(f.type, inspect.StrType)]
    return lambda n: {name: f"{name}-{n}" for name in texts}


def _merged(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    return {**one, **{key: _merged(one.get(key), value) for key, value in other.items()}}


__all__ = ["EXAMPLES", "LARGEST", "fields_that_grow", "largest", "with_many"]
