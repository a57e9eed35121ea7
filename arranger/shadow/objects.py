"""The objects of a cluster as the scheduler reads them, copied at no cost and changed at will."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object
from arranger.api.types.core import Namespace, Node, NodeStatus, Pod
from arranger.api.types.queue import Queue
from arranger.api.types.resource_claims import DeviceClass, ResourceSlice
from arranger.api.types.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    StorageClass,
    VolumeAttachment,
)
from arranger.api.types.workloads import Workload
from arranger.engine.handlers.watched_kinds import TYPES
from arranger.gangs.workloads.kinds import WorkloadKind

T = TypeVar("T")

#: How objects are read; owners whose pods are gangs by the path of their kind.
Kind = type[Any] | str
#: Kinds without namespaces.
_CLUSTER_WIDE: Final[frozenset[type[Any]]] = frozenset(
    (
        Node,
        Namespace,
        Queue,
        PersistentVolume,
        StorageClass,
        CSINode,
        CSIDriver,
        VolumeAttachment,
        ResourceSlice,
        DeviceClass,
    )
)
#: The same by their names, and others that come in manifests.
CLUSTER_WIDE: Final = frozenset(
    (*(of.__name__ for of in _CLUSTER_WIDE), "PriorityClass", "CustomResourceDefinition")
)


class ObjectError(ValueError):
    """An object cannot be read; the message gives kind, name and field."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to an object; ``after`` is None for one that is gone."""

    kind: Kind
    before: Any | None
    after: Any | None


@dataclass(eq=False)
class ClusterObjects:
    """Objects by kind, and by ``namespace/name`` (``/name`` for what has no namespace).

    Objects are never changed in place, so that copies share them.

    Attributes:
        unread: what could not be read, a line each.
        served: paths of the kinds of owners that there are, with or without objects.
        terminating: the pods that are being deleted, by ``namespace/name``.
    """

    unread: list[str] = field(default_factory=list)
    served: set[str] = field(default_factory=set)
    terminating: dict[str, Pod] = field(default_factory=dict)
    _objects: dict[Kind, dict[str, Any]] = field(default_factory=dict)
    _recorded: list[Change] | None = field(default=None, init=False)

    @classmethod
    def from_manifests(
        cls, manifests: Iterable[Mapping[str, Any]], workloads: Iterable[WorkloadKind] = ()
    ) -> ClusterObjects:
        """Sort API objects by kind; those that the scheduler does not read are skipped.

        Args:
            workloads: the kinds whose pods are gangs by their owner.

        Raises:
            ObjectError: a field has the wrong type.
        """
        owners = {(kind.group, kind.kind): kind.paths[0] for kind in workloads}
        found = cls()
        for manifest in manifests:
            found.add_manifest(manifest, owners)
        return found

    def add_manifest(
        self,
        manifest: Mapping[str, Any],
        owners: Mapping[tuple[str, str], str] | None = None,
    ) -> Any | None:
        """Read an object and put it among the others; None for a kind that nobody reads.

        What hand-written manifests leave out is put in: a namespace and a uid.

        Raises:
            ObjectError: a field has the wrong type.
        """
        kind = str(manifest.get("kind"))
        name = str(manifest.get("apiVersion", "")).rpartition("/")[0], kind
        path = (owners or {}).get(name)
        of = Workload if path is not None else TYPES.get(name)
        if of is None:
            return None
        try:
            obj = decode_object(msgspec.json.encode(manifest), of)
        except (ParseError, TypeError, ValueError, RecursionError) as error:
            meta = manifest.get("metadata")
            called = meta.get("name", "") if isinstance(meta, Mapping) else ""
            raise ObjectError(f"{kind} {called}: {error}") from error
        meta = obj.metadata
        namespace = "" if of in _CLUSTER_WIDE else meta.namespace or "default"
        uid = meta.uid or f"{kind}/{namespace}/{meta.name}"
        metadata = msgspec.structs.replace(meta, namespace=namespace, uid=uid)
        obj = msgspec.structs.replace(obj, metadata=metadata)
        if isinstance(obj, Node) and not obj.status.allocatable:
            obj = msgspec.structs.replace(obj, status=_all_allocatable(obj.status))
        self.put(obj, path)
        return obj

    def copy(self) -> ClusterObjects:
        """The same objects, to be changed on their own."""
        objects = {kind: dict(objects) for kind, objects in self._objects.items()}
        return ClusterObjects(list(self.unread), set(self.served), dict(self.terminating), objects)

    def put(self, obj: Any, kind: Kind | None = None) -> None:
        """An object is there, or has another state now; ``kind`` is its type unless given."""
        of, key = kind or type(obj), key_of(obj)
        there = self._objects.setdefault(of, {})
        if self._recorded is not None:
            self._recorded.append(Change(of, there.get(key), obj))
        there[key] = obj
        if of is Pod:
            if obj.metadata.deletion_timestamp is not None:
                self.terminating[key] = obj
            else:
                self.terminating.pop(key, None)
        elif isinstance(of, str):
            self.served.add(of)

    def drop(self, kind: Kind, key: str) -> Any | None:
        """An object is gone; returns its last state."""
        last = self._objects.get(kind, {}).pop(key, None)
        if kind is Pod:
            self.terminating.pop(key, None)
        if self._recorded is not None and last is not None:
            self._recorded.append(Change(kind, last, None))
        return last

    @contextmanager
    def recording(self) -> Iterator[list[Change]]:
        """What is put and dropped for as long as the block runs, in order."""
        made: list[Change] = []
        self._recorded = made
        try:
            yield made
        finally:
            self._recorded = None

    def get(self, kind: type[T], key: str) -> T | None:
        """The object of that ``namespace/name``."""
        return self._objects.get(kind, {}).get(key)

    def of(self, kind: type[T] | str) -> Iterator[T]:
        """All objects of a kind."""
        yield from self._objects.get(kind, {}).values()

    def in_namespace(self, namespace: str) -> list[tuple[Kind, str]]:
        """Kind and ``namespace/name`` of all that is in a namespace."""
        start = f"{namespace}/"
        return [
            (kind, key)
            for kind, objects in self._objects.items()
            for key in objects
            if key.startswith(start)
        ]

    def controlled_by(self, kind: str, key: str) -> Iterator[Pod]:
        """The pods that the ``namespace/name`` of a kind controls, by its word in kubectl."""
        namespace, _, name = key.rpartition("/")
        for pod in self.of(Pod):
            owner = pod.metadata.controller
            if owner is None or pod.metadata.namespace != namespace:
                continue
            if owner.name == name and names_kind(kind, owner.kind):
                yield pod


def names_kind(word: str, kind: str) -> bool:
    """Whether a word of kubectl names a kind: its singular or plural."""
    singular = kind.lower()
    plural = f"{singular}es" if singular.endswith("s") else f"{singular}s"
    return word.lower() in (singular, plural)


def _all_allocatable(status: NodeStatus) -> NodeStatus:
    """Of a node that does not say how much of its capacity pods may have: all of it."""
    return msgspec.structs.replace(status, allocatable=status.capacity)


def key_of(obj: Any) -> str:
    """``namespace/name``, ``/name`` for what has no namespace."""
    return f"{obj.metadata.namespace}/{obj.metadata.name}"
