"""Objects other than nodes and pods that plugins look up: namespaces, services, controllers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from arranger.api.objects import Namespace
from arranger.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

StoredObject = Namespace | Service | ReplicationController | ReplicaSet | StatefulSet
T = TypeVar("T", Namespace, Service, ReplicationController, ReplicaSet, StatefulSet)

#: The kinds a cluster keeps, by their API names: what an edge has to watch.
STORED_KINDS: Final[dict[str, type[StoredObject]]] = {
    "Namespace": Namespace,
    "Service": Service,
    "ReplicationController": ReplicationController,
    "ReplicaSet": ReplicaSet,
    "StatefulSet": StatefulSet,
}


class ObjectStore:
    """Objects by type, namespace and name.

    Attributes:
        version: number of changes so far.
    """

    def __init__(self) -> None:
        self.version = 0
        self._objects: dict[type[StoredObject], dict[str, dict[str, StoredObject]]] = {}

    def set(self, stored: StoredObject) -> StoredObject | None:
        """Add or update an object; returns what it was before."""
        metadata = stored.metadata
        of_namespace = self._objects.setdefault(type(stored), {}).setdefault(metadata.namespace, {})
        before = of_namespace.get(metadata.name)
        of_namespace[metadata.name] = stored
        self.version += 1
        return before

    def remove(self, stored: StoredObject) -> None:
        """Forget an object, if it is known."""
        metadata = stored.metadata
        of_namespace = self._objects.get(type(stored), {}).get(metadata.namespace, {})
        if of_namespace.pop(metadata.name, None) is not None:
            self.version += 1

    def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        """The object of that name; ``namespace`` is ``""`` for namespaces."""
        found = self._objects.get(kind, {}).get(namespace, {}).get(name)
        return found if isinstance(found, kind) else None

    def of(self, kind: type[T], namespace: str) -> Iterable[T]:
        """All objects of a type in a namespace."""
        found = self._objects.get(kind, {}).get(namespace)
        return [stored for stored in found.values() if isinstance(stored, kind)] if found else ()

    def namespace_labels(self, name: str) -> dict[str, str]:
        """The labels of a namespace; none when it is not known."""
        namespace = self.get(Namespace, "", name)
        return namespace.metadata.labels if namespace is not None else {}
