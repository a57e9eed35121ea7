"""A device as selectors see it; what they read of it is recorded.

Upstream: ``k8s.io/dynamic-resource-allocation/cel``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from arranger.api.types.resource_claims import Device, DeviceAttribute
from arranger.cel.errors import CelError
from arranger.cel.functions.kubernetes import quantity, version
from arranger.cel.types import ANY, BOOL, STRING, Type, map_of
from arranger.cel.values import ABSENT, CelMap

#: A part of a device, such as ``("attributes", domain, name)``; () is all of it.
Path = tuple[str, ...]

_DEVICE: Final = Type("object", (), "kubernetes.DRADevice")
_QUANTITY: Final = Type("object", (), "kubernetes.Quantity")
#: The variables of a selector, and the fields of objects in them.
VARIABLES: Final = {"device": _DEVICE}
OBJECTS: Final = {
    _DEVICE.name: {
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(STRING, map_of(STRING, ANY)),
        "capacity": map_of(STRING, map_of(STRING, _QUANTITY)),
    }
}


def variables_of(driver: str, device: Device, reads: dict[Path, None]) -> Mapping[str, Any]:
    """The variables of an evaluation; the paths it reads are added to ``reads``."""
    return {"device": _Device(driver, device, reads)}


def value_at(driver: str, device: Device, path: Path) -> Any:
    """The value at a path of a device, in a form that can be compared and hashed."""
    if not path:
        return driver, digest(device)
    if path[0] == "driver":
        return driver
    if path[0] == "allowMultipleAllocations":
        return device.allow_multiple_allocations
    field: dict[str, Any] = getattr(device, path[0])
    if len(path) == 3:
        found = _named(field, driver, path[1], path[2])
        return None if found is None else msgspec.structs.astuple(found)
    return driver, digest(field)


def digest(value: Any) -> bytes:
    """Stands for a value that may be large."""
    return blake2b(msgspec.json.encode(value, order="sorted"), digest_size=16).digest()


def _named(field: Mapping[str, Any], driver: str, domain: str, name: str) -> Any:
    """What a device has by that name; without a domain it is in the driver's."""
    found = field.get(f"{domain}/{name}")
    return field.get(name) if found is None and domain == driver else found


class _Recorded(CelMap):
    """A map that records that all of it was read."""

    __slots__ = ("_path", "_reads")

    def __init__(self, reads: dict[Path, None], path: Path) -> None:
        super().__init__()
        self._reads, self._path = reads, path

    def has(self, key: Any) -> bool:
        return key in self._all()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> list[str]:
        self._reads[self._path] = None
        return self._names()

    def _names(self) -> list[str]:
        raise NotImplementedError


class _Device(_Recorded):
    __slots__ = ("_device", "_driver")

    def __init__(self, driver: str, device: Device, reads: dict[Path, None]) -> None:
        super().__init__(reads, ())
        self._driver, self._device = driver, device

    def find(self, key: Any) -> Any:
        if key in ("attributes", "capacity"):
            return _Domains(self._reads, key, self._driver, getattr(self._device, key))
        if key in ("driver", "allowMultipleAllocations"):
            self._reads[(key,)] = None
            allowed = bool(self._device.allow_multiple_allocations)
            return self._driver if key == "driver" else allowed
        return ABSENT

    def _names(self) -> list[str]:
        return [*OBJECTS[_DEVICE.name]]


class _Domains(_Recorded):
    """Attributes or capacity by their domains; one that is not there is empty."""

    __slots__ = ("_driver", "_field")

    def __init__(
        self, reads: dict[Path, None], path: str, driver: str, field: Mapping[str, Any]
    ) -> None:
        super().__init__(reads, (path,))
        self._driver, self._field = driver, field

    def find(self, key: Any) -> Any:
        if not isinstance(key, str):
            return CelMap()
        return _Names(self._reads, (*self._path, key), self._driver, self._field)

    def _names(self) -> list[str]:
        found = (name.partition("/") for name in self._field)
        return [*dict.fromkeys(first if sign else self._driver for first, sign, _ in found)]


class _Names(_Recorded):
    """What there is in one domain."""

    __slots__ = ("_driver", "_field")

    def __init__(
        self, reads: dict[Path, None], path: Path, driver: str, field: Mapping[str, Any]
    ) -> None:
        super().__init__(reads, path)
        self._driver, self._field = driver, field

    def find(self, key: Any) -> Any:
        if not isinstance(key, str):
            return ABSENT
        self._reads[(*self._path, key)] = None
        kind, domain = self._path
        found = _named(self._field, self._driver, domain, key)
        name = f"{domain}/{key}" if f"{domain}/{key}" in self._field else key
        return ABSENT if found is None else _READERS[kind](name, found)

    def _names(self) -> list[str]:
        domain = self._path[1]
        split = (name.partition("/") for name in self._field)
        return [
            last if sign else first
            for first, sign, last in split
            if (first if sign else self._driver) == domain
        ]


def _attribute(name: str, given: DeviceAttribute) -> Any:
    for value in (given.int_value, given.bool_value, given.string_value):
        if value is not None:
            return value
    if given.version_value is None:
        return CelError(f"attribute {name}: unsupported attribute value")
    return _explained(f"attribute {name}", version(given.version_value))


def _explained(what: str, value: Any) -> Any:
    return CelError(f"{what}: {value.message}") if isinstance(value, CelError) else value


_READERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "attributes": _attribute,
    "capacity": lambda name, given: _explained(f"capacity {name}", quantity(given.value)),
}
