"""What the engine is told of, one entry a kind: who hears of it, and how an Event names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from arranger.api.effects import ObjectReference
from arranger.api.quarantine import QuarantineKey
from arranger.api.types import pod_groups, storage
from arranger.api.types.core import Namespace, Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.queue import Queue
from arranger.api.types.reservation import Reservation
from arranger.api.types.resource_claims import DeviceClass, ResourceClaim, ResourceSlice
from arranger.api.types.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

T = TypeVar("T")

_VERSIONS: dict[type[Any], str] = {
    **dict.fromkeys((Node, Pod, Namespace, Service, ReplicationController), "v1"),
    **dict.fromkeys((storage.PersistentVolume, storage.PersistentVolumeClaim), "v1"),
    **dict.fromkeys((ReplicaSet, StatefulSet), "apps/v1"),
    **dict.fromkeys(
        (
            storage.StorageClass,
            storage.CSINode,
            storage.CSIDriver,
            storage.VolumeAttachment,
            storage.CSIStorageCapacity,
        ),
        "storage.k8s.io/v1",
    ),
    **dict.fromkeys((ResourceClaim, ResourceSlice, DeviceClass), "resource.k8s.io/v1"),
    **{group: group.api_version for group in pod_groups.POD_GROUPS},
    PodDisruptionBudget: "policy/v1",
    Queue: "scheduling.volcano.sh/v1beta1",
    **dict.fromkeys((pod_groups.GangObject, Reservation), "arranger.io/v1alpha1"),
}


@dataclass(frozen=True, slots=True)
class WatchedKind(Generic[T]):
    """Objects of one kind.

    Attributes:
        api_version: as an Event names it.
        kind: likewise.
        updated: hears, with the time, of an object that appeared or was edited.
        deleted: hears of one that is gone.
        owns_pods: whether what its objects say counts for the pods below them.
    """

    api_version: str
    kind: str
    updated: Callable[[T, float], None]
    deleted: Callable[[T, float], None]
    owns_pods: bool = False

    def key_of(self, metadata: Any) -> QuarantineKey:
        """The key of an object, of which the metadata are given."""
        return self.kind, metadata.namespace, metadata.name

    def about(self, metadata: Any) -> ObjectReference:
        """An object, of which the metadata are given, as the subject of an Event."""
        name, uid = metadata.name, metadata.uid
        return ObjectReference(self.api_version, self.kind, metadata.namespace, name, uid)


#: All of them, by the types of their objects.
WatchedKinds = dict[type[Any], WatchedKind[Any]]


def watched_kind(
    of: type[T], updated: Callable[[T, float], None], deleted: Callable[[T, float], None]
) -> WatchedKind[T]:
    """The entry of a kind that the engine always reads."""
    return WatchedKind(_VERSIONS[of], _name(of), updated, deleted)


def _name(of: type[Any]) -> str:
    if issubclass(of, pod_groups.PodGroup | pod_groups.NativePodGroup):
        return "PodGroup"
    return "Gang" if issubclass(of, pod_groups.GangObject) else of.__name__


#: (API group, kind) → how its objects are read, of all kinds that the engine always reads.
TYPES: Final[Mapping[tuple[str, str], type[Any]]] = {
    (version.rpartition("/")[0], _name(of)): of for of, version in _VERSIONS.items()
}
