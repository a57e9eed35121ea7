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
from arranger.api.types.reservation import Reservation
from arranger.api.types.resource_claims import DeviceClass, ResourceClaimTemplate, ResourceSlice
from arranger.api.types.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    StorageClass,
    VolumeAttachment,
)
from arranger.api.types.workloads import Owner, Workload
from arranger.daemon.config.schema import Config
from arranger.engine.handlers.watched_kinds import TYPES
from arranger.shadow.inputs.words import names_kind

T = TypeVar("T")

#: (API group, kind) → how objects are read: those that the scheduler reads, and others.
_READ: Final[Mapping[tuple[str, str], type[Any]]] = {
    **TYPES,
    ("resource.k8s.io", "ResourceClaimTemplate"): ResourceClaimTemplate,
}
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
        Reservation,
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


#: (API group, plural) → path of the kind, and how its objects are read.
OwnerKinds = Mapping[tuple[str, str], tuple[str, type[Any]]]
#: Owners between a pod and one that is named: a CronJob's Job, a Deployment's ReplicaSet.
_GENERATIONS: Final = 4


def owner_kinds(config: Config) -> OwnerKinds:
    """The kinds that own pods and that a configuration has read, beside those that always are."""
    found: dict[tuple[str, str], tuple[str, type[Any]]] = {}
    for resource in config.queues.owner_resources:
        group, _, plural = resource.split("/")
        found[group, plural] = f"/apis/{resource}", Owner
    for kind in config.workload_kinds():
        found[kind.group, kind.resource] = kind.paths[0], Workload
    return found


@dataclass(eq=False)
class ClusterObjects:
    """Objects by kind, and by ``namespace/name`` (``/name`` for what has no namespace).

    Objects are never changed in place, so that copies share them.

    Args:
        owners: of which kinds owners are read, beside those that always are.

    Attributes:
        unread: what could not be read, a line each.
        served: paths of the kinds of owners that there are, with or without objects.
        terminating: the pods that are being deleted, by ``namespace/name``.
    """

    owners: OwnerKinds = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    served: set[str] = field(default_factory=set)
    terminating: dict[str, Pod] = field(default_factory=dict)
    _objects: dict[Kind, dict[str, Any]] = field(default_factory=dict)
    _recorded: list[Change] | None = field(default=None, init=False)

    @classmethod
    def from_manifests(
        cls, manifests: Iterable[Mapping[str, Any]], owners: OwnerKinds | None = None
    ) -> ClusterObjects:
        """Sort API objects by kind; those that nobody reads are skipped.

        Args:
            owners: of which kinds owners are read, beside those that always are.

        Raises:
            ObjectError: a field has the wrong type.
        """
        found = cls(owners or {})
        for manifest in manifests:
            found.add_manifest(manifest)
        return found

    def add_manifest(self, manifest: Mapping[str, Any]) -> Any | None:
        """Read an object and put it among the others; None for a kind that nobody reads.

        What hand-written manifests leave out is put in: a namespace and a uid.

        Raises:
            ObjectError: a field has the wrong type.
        """
        kind = str(manifest.get("kind"))
        group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
        found = _READ.get((group, kind))
        path, of = self.owners.get((group, f"{kind.lower()}s"), (None, found))
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
        return ClusterObjects(
            self.owners, list(self.unread), set(self.served), dict(self.terminating), objects
        )

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

    def all_of(self, kind: type[T]) -> list[T]:
        """The same in one step, which nobody comes between."""
        return list(self._objects.get(kind, {}).values())

    def in_namespace(self, namespace: str) -> list[tuple[Kind, str]]:
        """Kind and ``namespace/name`` of all that is in a namespace."""
        start = f"{namespace}/"
        return [
            (kind, key)
            for kind, objects in self._objects.items()
            for key in objects
            if key.startswith(start)
        ]

    def named(self, word: str, key: str) -> list[tuple[Kind, str]]:
        """What is called ``namespace/name``, ``/name`` for what has none, and of a kind that a word
        of kubectl names."""
        return [
            (kind, key)
            for kind, objects in self._objects.items()
            if key in objects and names_kind(word, _title(kind))
        ]

    def controlled_by(self, word: str, key: str) -> tuple[list[Pod], list[tuple[Kind, str]]]:
        """The pods of the ``namespace/name`` of a kind, by its word in kubectl, whoever stands
        between; and the owners that do, by kind and ``namespace/name``."""
        namespace, _, name = key.rpartition("/")
        pods: list[Pod] = []
        between: dict[tuple[Kind, str], None] = {}
        known: dict[tuple[str, str, str], bool] = {}
        for pod in self.of(Pod):
            if pod.metadata.namespace != namespace or (owner := pod.metadata.controller) is None:
                continue
            identity = owner.kind, owner.name, owner.uid
            if identity not in known:
                passed = self._way_to(pod, word, name)
                known[identity] = passed is not None
                between |= dict.fromkeys(passed or ())
            if known[identity]:
                pods.append(pod)
        return pods, list(between)

    def _way_to(self, pod: Pod, word: str, name: str) -> list[tuple[Kind, str]] | None:
        """The owners between a pod and one of that kind and name; None where it is no owner."""
        passed: list[tuple[Kind, str]] = []
        metadata = pod.metadata
        for _ in range(_GENERATIONS):
            owner = metadata.controller
            if owner is None:
                return None
            if owner.name == name and names_kind(word, owner.kind):
                return passed
            at = self.named(owner.kind, f"{metadata.namespace}/{owner.name}")
            above = next(
                (each for each in at if self._objects[each[0]][each[1]].metadata.uid == owner.uid),
                None,
            )
            if above is None:
                return None
            passed.append(above)
            metadata = self._objects[above[0]][above[1]].metadata
        return None


def _title(kind: Kind) -> str:
    """What a kind is called: of an owner that is read by its path, its plural."""
    if isinstance(kind, str):
        return kind.rpartition("/")[2]
    return next((name for (_, name), of in _READ.items() if of is kind), kind.__name__)


def _all_allocatable(status: NodeStatus) -> NodeStatus:
    """Of a node that does not say how much of its capacity pods may have: all of it."""
    return msgspec.structs.replace(status, allocatable=status.capacity)


def key_of(obj: Any) -> str:
    """``namespace/name``, ``/name`` for what has no namespace."""
    return f"{obj.metadata.namespace}/{obj.metadata.name}"
