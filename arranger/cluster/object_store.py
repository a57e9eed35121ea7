"""Objects other than nodes and pods that plugins look up: namespaces, storage, devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from arranger.api.types.core import Namespace
from arranger.api.types.resource_claims import DeviceClass, ResourceClaim, ResourceSlice
from arranger.api.types.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from arranger.api.types.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

Storage = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | VolumeAttachment
    | CSIStorageCapacity
)
Devices = ResourceClaim | ResourceSlice | DeviceClass
StoredObject = (
    Namespace | Service | ReplicationController | ReplicaSet | StatefulSet | Storage | Devices
)
#: Told of what an object was and what it is, where there is one.
Listener = Callable[[Any, Any], None]
T = TypeVar("T", bound=StoredObject)

#: The kinds that matter to pods with volumes only, by their API names.
STORAGE_KINDS: Final[dict[str, type[Storage]]] = {
    "PersistentVolume": PersistentVolume,
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "StorageClass": StorageClass,
    "CSINode": CSINode,
    "CSIDriver": CSIDriver,
    "VolumeAttachment": VolumeAttachment,
    "CSIStorageCapacity": CSIStorageCapacity,
}

#: The kinds that matter to pods with resource claims only, by their API names.
DEVICE_KINDS: Final[dict[str, type[Devices]]] = {
    "ResourceClaim": ResourceClaim,
    "ResourceSlice": ResourceSlice,
    "DeviceClass": DeviceClass,
}

#: The kinds a cluster keeps, by their API names: what an edge has to watch.
STORED_KINDS: Final[dict[str, type[StoredObject]]] = {
    "Namespace": Namespace,
    "Service": Service,
    "ReplicationController": ReplicationController,
    "ReplicaSet": ReplicaSet,
    "StatefulSet": StatefulSet,
    **STORAGE_KINDS,
    **DEVICE_KINDS,
}

#: The log of storage is cut to its younger half at this length; slower readers start over.
_LOG_LIMIT: Final = 16384

_Key = tuple[type[StoredObject], str, str]


def alike(one: StoredObject, other: StoredObject) -> bool:
    """Whether two states of an object differ in nothing that is read, but in their version."""
    if one.metadata.resource_version != other.metadata.resource_version:
        metadata = msgspec.structs.replace(
            one.metadata, resource_version=other.metadata.resource_version
        )
        one = msgspec.structs.replace(one, metadata=metadata)
    return one == other


class ObjectStore:
    """Objects by type, namespace and name; ``""`` is the namespace of what has none.

    A storage object may be *assumed* in a state that we are about to write. That state counts
    until the API shows a newer one, or until it is given up.

    Attributes:
        version: number of changes so far of what pods of any kind may depend on.
        storage_version: number of changes so far of the storage kinds.
    """

    def __init__(self) -> None:
        self.version = 0
        self._objects: dict[type[Any], dict[str, dict[str, StoredObject]]] = {}
        #: What the API showed last of the objects that are assumed.
        self._shown: dict[_Key, Storage] = {}
        self._log: list[Storage] = []
        self._log_start = 0
        self._listeners: dict[type[Any], Listener] = {}

    def listen(self, kind: type[StoredObject], listener: Listener) -> None:
        """Have ``listener`` told of every object of a type that comes, changes or goes."""
        self._listeners[kind] = listener

    def set(self, stored: StoredObject) -> StoredObject | None:
        """Take up what the API shows of an object; returns what it showed before."""
        key = _key(stored)
        shown = self._shown.get(key)
        if shown is not None:
            if stored.metadata.resource_version == shown.metadata.resource_version:
                return shown  # a list repeats what we knew when we assumed
            del self._shown[key]
        return self._put(key, stored, shown)

    def remove(self, stored: StoredObject) -> None:
        """Forget an object, if it is known."""
        kind, namespace, name = key = _key(stored)
        self._shown.pop(key, None)
        gone = self._objects.get(kind, {}).get(namespace, {}).pop(name, None)
        if gone is not None:
            self._note(gone, gone, None)

    def touch(self) -> None:
        """Something else that plugins look up has changed: what was judged must be judged anew."""
        self.version += 1

    def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        """The object of that name."""
        found = self._objects.get(kind, {}).get(namespace, {}).get(name)
        return found if isinstance(found, kind) else None

    def of(self, kind: type[T], namespace: str) -> Iterable[T]:
        """All objects of a type in a namespace."""
        found = self._objects.get(kind, {}).get(namespace)
        return [stored for stored in found.values() if isinstance(stored, kind)] if found else ()

    def everywhere(self, kind: type[T]) -> Iterator[T]:
        """All objects of a type in all namespaces."""
        for namespace in self._objects.get(kind, {}):
            yield from self.of(kind, namespace)

    def namespace_labels(self, name: str) -> dict[str, str]:
        """The labels of a namespace; none when it is not known."""
        namespace = self.get(Namespace, "", name)
        return namespace.metadata.labels if namespace is not None else {}

    # --- what we are about to write --------------------------------------------------------

    def assume(self, stored: Storage) -> None:
        """Count an object as being in the state ``stored`` already.

        Raises:
            ValueError: it is not known, or assumed already.
        """
        key = _key(stored)
        shown = self.get(*key)
        if shown is None or key in self._shown:
            name = stored.metadata.name
            raise ValueError(f"{type(stored).__name__} {name!r} cannot be assumed")
        assert isinstance(shown, Storage)
        self._shown[key] = shown
        self._put(key, stored, shown)

    def is_assumed(self, stored: Storage) -> bool:
        """Whether the API has not yet shown that what we assumed has happened."""
        return _key(stored) in self._shown

    def give_up(self, stored: Storage) -> None:
        """End an assumption; nothing happens if it is over."""
        key = _key(stored)
        kind, namespace, name = key
        if key in self._shown and self._objects[kind][namespace][name] is stored:
            self._put(key, self._shown.pop(key), None)

    # --- the log of storage ----------------------------------------------------------------

    @property
    def storage_version(self) -> int:
        """Number of changes so far of the storage kinds."""
        return self._log_start + len(self._log)

    def storage_changed_since(self, version: int) -> list[Storage] | None:
        """The storage objects changed after ``version``, or ``None`` if that is too long ago."""
        if version < self._log_start:
            return None
        return self._log[version - self._log_start :]

    # --- inside ----------------------------------------------------------------------------

    def _put(
        self, key: _Key, stored: StoredObject, shown: StoredObject | None
    ) -> StoredObject | None:
        kind, namespace, name = key
        of_namespace = self._objects.setdefault(kind, {}).setdefault(namespace, {})
        before = of_namespace.get(name)
        of_namespace[name] = stored
        if before is None or not alike(before, stored):
            self._note(stored, before, stored)
        return shown or before

    def _note(
        self, changed: StoredObject, before: StoredObject | None, after: StoredObject | None
    ) -> None:
        listener = self._listeners.get(type(changed))
        if listener is not None:
            listener(before, after)
        if isinstance(changed, Devices):
            return  # no verdict that is shared among pods depends on it
        if not isinstance(changed, Storage):
            self.version += 1
            return
        if len(self._log) >= _LOG_LIMIT:
            del self._log[: _LOG_LIMIT // 2]
            self._log_start += _LOG_LIMIT // 2
        self._log.append(changed)


def _key(stored: StoredObject) -> _Key:
    return type(stored), stored.metadata.namespace, stored.metadata.name
