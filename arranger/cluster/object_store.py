"""Objects other than nodes and pods that plugins look up: namespaces, storage, devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar, get_args

import msgspec

from arranger.api.types.core import Namespace, Node
from arranger.api.types.reservation import Reservation
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
from arranger.cluster.change_log import ChangeLog

StorageObject = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | VolumeAttachment
    | CSIStorageCapacity
)
DeviceObject = ResourceClaim | ResourceSlice | DeviceClass
StoredObject = (
    Namespace
    | Service
    | ReplicationController
    | ReplicaSet
    | StatefulSet
    | Reservation
    | StorageObject
    | DeviceObject
)
#: Called with an object before and after its change, None where there is none; what it returns is
#: true if pods of any kind may depend on the change.
ObjectListener = Callable[[Any, Any], bool | None]
T = TypeVar("T", bound=StoredObject)
KubeObject = TypeVar("KubeObject", bound=StoredObject | Node)


#: The kinds a cluster keeps, by their API names: what has to be watched.
STORED_KINDS: Final[dict[str, type[StoredObject]]] = {k.__name__: k for k in get_args(StoredObject)}

#: Changes of storage kept in the log.
_LOG_LIMIT: Final = 16384

_ObjectKey = tuple[type[StoredObject], str, str]


def equal_but_version(one: KubeObject, other: KubeObject) -> bool:
    """Whether two states of an object differ in no field we read but the resource version."""
    if one.metadata.resource_version != other.metadata.resource_version:
        version = other.metadata.resource_version
        metadata = msgspec.structs.replace(one.metadata, resource_version=version)
        one = msgspec.structs.replace(one, metadata=metadata)
    return one == other


class ObjectStore:
    """Objects by type, namespace and name; ``""`` is the namespace of cluster-scoped ones.

    A storage object may be *assumed* in a state that we are about to write. That state counts
    until the API shows a newer one, or until :meth:`restore` ends the assumption.

    Args:
        listeners: for some types what is called when an object is added, changed or removed.

    Attributes:
        version: number of changes so far of what pods of every namespace may depend on.
        reservation_version: number of changes so far of Reservations.
        storage_rules_version: number of changes so far of StorageClasses and CSIDrivers.
    """

    def __init__(self, listeners: Mapping[type[Any], ObjectListener] | None = None) -> None:
        self.version = self.reservation_version = self.storage_rules_version = 0
        #: Namespace → changes of what only its own pods may depend on.
        self._changes_in: Counter[str] = Counter()
        self._objects: dict[type[Any], dict[str, dict[str, StoredObject]]] = {}
        #: The state that the API showed last of the objects that are assumed.
        self._observed: dict[_ObjectKey, StorageObject] = {}
        self._log: ChangeLog[StorageObject] = ChangeLog(_LOG_LIMIT)
        self._listeners = listeners or {}

    def set(self, stored: StoredObject) -> StoredObject | None:
        """Store the state that the API shows of an object; returns what it showed before."""
        key = _object_key(stored)
        observed = self._observed.get(key)
        if observed is not None:
            if stored.metadata.resource_version == observed.metadata.resource_version:
                return observed  # a list repeats what we knew when we assumed
            del self._observed[key]
        return self._put(key, stored, observed)

    def remove(self, stored: StoredObject) -> None:
        """Drop an object, if it is known."""
        kind, namespace, name = key = _object_key(stored)
        self._observed.pop(key, None)
        of_kind = self._objects.get(kind, {})
        of_namespace = of_kind.get(namespace, {})
        gone = of_namespace.pop(name, None)
        if gone is not None:
            if not of_namespace:
                del of_kind[namespace]
            self._log_change(gone, gone, None)

    def version_for(self, namespace: str) -> Hashable:
        """Another one whenever something changes that pods of a namespace may depend on.

        That is what is in no namespace, and its own Services and controllers: others may change
        theirs as often as they like.
        """
        return self.version, self._changes_in[namespace]

    def invalidate(self) -> None:
        """Have every pod evaluated anew: something else that plugins look up has changed."""
        self.version += 1

    def invalidate_in(self, *namespaces: str) -> None:
        """The same of the pods of some namespaces."""
        for namespace in namespaces:
            if self.get(Namespace, "", namespace) is not None:
                self._changes_in[namespace] += 1
            else:
                self.version += 1

    def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        """The object of that name."""
        found = self._objects.get(kind, {}).get(namespace, {}).get(name)
        return found if isinstance(found, kind) else None

    def shown(self, kind: type[Any], namespace: str, name: str) -> StoredObject | None:
        """The state that the API showed last of an object."""
        observed = self._observed.get((kind, namespace, name))
        return observed or self._objects.get(kind, {}).get(namespace, {}).get(name)

    def in_namespace(self, kind: type[T], namespace: str) -> Iterable[T]:
        """All objects of a type in a namespace."""
        found = self._objects.get(kind, {}).get(namespace)
        return [stored for stored in found.values() if isinstance(stored, kind)] if found else ()

    def in_all_namespaces(self, kind: type[T]) -> Iterator[T]:
        """All objects of a type in all namespaces."""
        for namespace in self._objects.get(kind, {}):
            yield from self.in_namespace(kind, namespace)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none when it is not known."""
        namespace = self.get(Namespace, "", name)
        return namespace.metadata.labels if namespace is not None else {}

    def assume(self, stored: StorageObject) -> None:
        """Count an object as being in the state ``stored`` already.

        Raises:
            ValueError: it is not known, or assumed already.
        """
        key = _object_key(stored)
        observed = self.get(*key)
        if observed is None or key in self._observed:
            name = stored.metadata.name
            raise ValueError(f"{type(stored).__name__} {name!r} cannot be assumed")
        assert isinstance(observed, StorageObject)
        self._observed[key] = observed
        self._put(key, stored, observed)

    def is_assumed(self, stored: StorageObject) -> bool:
        """Whether the API has not yet shown the state that we assumed."""
        return _object_key(stored) in self._observed

    def restore(self, stored: StorageObject) -> None:
        """End an assumption; nothing happens if it is over."""
        key = _object_key(stored)
        kind, namespace, name = key
        if key in self._observed and self._objects[kind][namespace][name] is stored:
            self._put(key, self._observed.pop(key), None)

    @property
    def storage_version(self) -> int:
        """Number of changes so far of the storage kinds."""
        return self._log.version

    def storage_changed_since(self, version: int) -> list[StorageObject] | None:
        """The storage objects changed after ``version``, or ``None`` if that is too long ago."""
        return self._log.since(version)

    def _put(
        self, key: _ObjectKey, stored: StoredObject, observed: StoredObject | None
    ) -> StoredObject | None:
        kind, namespace, name = key
        of_namespace = self._objects.setdefault(kind, {}).setdefault(namespace, {})
        before = of_namespace.get(name)
        of_namespace[name] = stored
        if before is None or not equal_but_version(before, stored):
            self._log_change(stored, before, stored)
        return observed or before

    def _log_change(
        self, changed: StoredObject, before: StoredObject | None, after: StoredObject | None
    ) -> None:
        listener = self._listeners.get(type(changed))
        if listener is not None and listener(before, after):
            self.version += 1
        if isinstance(changed, StorageObject):
            self._log.append(changed)
            self.storage_rules_version += isinstance(changed, StorageClass | CSIDriver)
        elif isinstance(changed, Reservation):
            self.reservation_version += 1
        elif not isinstance(changed, DeviceObject):  # on those no shared evaluation depends
            self.invalidate_in(changed.metadata.namespace)
        if isinstance(changed, Namespace) and after is None:
            self._changes_in.pop(changed.metadata.name, None)


def _object_key(stored: StoredObject) -> _ObjectKey:
    return type(stored), stored.metadata.namespace, stored.metadata.name
