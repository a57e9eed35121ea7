"""A cluster frozen in a file: its nodes, what runs on them, and what waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar, get_args

import msgspec

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import convert_object
from arranger.api.quantity import QuantityError
from arranger.api.types.core import Namespace, Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
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
from arranger.cluster.cluster import Cluster
from arranger.cluster.object_store import StoredObject
from arranger.cluster.pod_info import PodInfo

T = TypeVar("T", Pod, PersistentVolumeClaim, ResourceClaim)


class SnapshotError(ValueError):
    """A snapshot cannot be used; the message gives file, line and field."""


class SnapshotObjects(msgspec.Struct, rename="camel"):
    """The objects of a snapshot; sections that nothing reads are skipped."""

    nodes: list[Node] = []
    pods: list[Pod] = []
    pending: list[Pod] = []
    namespaces: list[Namespace] = []
    services: list[Service] = []
    replication_controllers: list[ReplicationController] = []
    replica_sets: list[ReplicaSet] = []
    stateful_sets: list[StatefulSet] = []
    persistent_volumes: list[PersistentVolume] = []
    persistent_volume_claims: list[PersistentVolumeClaim] = []
    storage_classes: list[StorageClass] = []
    csi_nodes: list[CSINode] = []
    csi_drivers: list[CSIDriver] = []
    volume_attachments: list[VolumeAttachment] = []
    csi_storage_capacities: list[CSIStorageCapacity] = []
    resource_claims: list[ResourceClaim] = []
    resource_slices: list[ResourceSlice] = []
    device_classes: list[DeviceClass] = []
    reservations: list[Reservation] = []
    pod_disruption_budgets: list[PodDisruptionBudget] = []


#: Kind → the section of a snapshot that holds it; pods are in ``pods`` or ``pending``.
SECTIONS: Final[Mapping[str, str]] = {
    kind.__name__: field.encode_name
    for field in msgspec.structs.fields(SnapshotObjects)
    for kind in get_args(field.type)
    if kind is not Pod
}
#: Fields that do not go into the cluster's store of other objects.
_NOT_STORED: Final = ("nodes", "pods", "pending", "pod_disruption_budgets")


@dataclass(eq=False)
class Snapshot:
    """The objects, and the cluster they make.

    Attributes:
        origin: where it came from, for messages: ``file`` or ``file:line``.
        pending: the pods to be evaluated.
    """

    _objects: SnapshotObjects
    origin: str

    @classmethod
    def parse(cls, data: Mapping[str, Any], origin: str = "snapshot") -> Snapshot:
        """Read a snapshot from plain data.

        Raises:
            SnapshotError: a field has the wrong type; the message gives its path.
        """
        try:
            return cls(convert_object(data, SnapshotObjects), origin)
        except ParseError as error:
            raise SnapshotError(f"{origin}: {error}") from error

    @classmethod
    def from_objects(cls, manifests: Iterable[Mapping[str, Any]], origin: str) -> Snapshot:
        """Sort API objects of any kind into a snapshot; pods without a node are pending.

        Raises:
            SnapshotError: a field has the wrong type; the message gives its path.
        """
        sections: dict[str, list[Mapping[str, Any]]] = {}
        for manifest in manifests:
            if manifest.get("kind") == "Pod":
                spec = manifest.get("spec")
                placed = spec.get("nodeName") if isinstance(spec, Mapping) else None
                sections.setdefault("pods" if placed else "pending", []).append(manifest)
            elif (section := SECTIONS.get(str(manifest.get("kind")))) is not None:
                sections.setdefault(section, []).append(manifest)
        return cls.parse(sections, origin)

    @cached_property
    def pending(self) -> list[PodInfo]:
        """The pods to be evaluated, without those that have ended.

        Raises:
            SnapshotError: a request is not a quantity.
        """
        return self._pod_infos("pending", self._objects.pending)

    @property
    def reservations(self) -> int:
        """How many Reservations there are, which are not looked at: they are about times."""
        return len(self._objects.reservations)

    @cached_property
    def cluster(self) -> Cluster:
        """The nodes with the pods that run on them.

        Raises:
            SnapshotError: an amount is not a quantity, or two objects have one name.
        """
        cluster = Cluster()
        for place, node in enumerate(self._objects.nodes):
            where = f"{self.origin}: nodes[{place}] ({node.metadata.name})"
            try:
                before = cluster.set_node(node)
            except QuantityError as error:
                raise SnapshotError(f"{where}: status.allocatable: {error}") from error
            if before is not None:
                raise SnapshotError(f"{where}: a second node of that name")
        for name in self._objects.__struct_fields__:
            for stored in getattr(self._objects, name) if name not in _NOT_STORED else ():
                cluster.objects.set(_as_served(stored))
        for budget in self._objects.pod_disruption_budgets:
            cluster.budgets.set(budget)
        for pod in self._pod_infos("pods", self._objects.pods):
            if pod.uid in cluster:
                raise SnapshotError(f"{self.origin}: pods: two have uid {pod.uid}")
            cluster.observe_pod(pod)
        return cluster

    def _pod_infos(self, section: str, pods: list[Pod]) -> list[PodInfo]:
        infos: list[PodInfo] = []
        for place, pod in enumerate(pods):
            try:
                if not pod.terminal:
                    infos.append(PodInfo(_with_identity(pod)))
            except QuantityError as error:
                where = f"{self.origin}: {section}[{place}] ({pod.key})"
                raise SnapshotError(f"{where}: resources: {error}") from error
        return infos


def _as_served(stored: StoredObject) -> StoredObject:
    if isinstance(stored, PersistentVolumeClaim):
        return _with_identity(stored, uid=False)
    return _with_identity(stored) if isinstance(stored, ResourceClaim) else stored


def _with_identity(obj: T, *, uid: bool = True) -> T:
    """The object with what hand-written manifests leave out: a namespace, and perhaps a uid."""
    metadata = obj.metadata
    namespace = metadata.namespace or "default"
    made = f"{namespace}/{metadata.name}" if uid else ""
    metadata = msgspec.structs.replace(metadata, namespace=namespace, uid=metadata.uid or made)
    return msgspec.structs.replace(obj, metadata=metadata)
