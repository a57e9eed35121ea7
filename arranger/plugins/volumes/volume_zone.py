"""VolumeZone: a volume labelled with a zone or region is used there only."""

from __future__ import annotations

from typing import Final

from arranger.api.types.core import Requirement
from arranger.api.types.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from arranger.cluster import ABSENT, BoolArray, Cluster, NodeView, PodInfo
from arranger.cluster.object_store import StorageObject
from arranger.framework import ActionType, DependsOn, FilterResult, QueueingHint, Rejection
from arranger.framework.status import SKIP, Code, CycleState, Status
from arranger.plugins.helpers.node_selectors import NodeTerm
from arranger.plugins.volumes.claims import (
    VolumePlugin,
    is_used_by_pod,
    not_found_message,
    storage_hint,
)
from arranger.plugins.volumes.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE

CONFLICT: Final = Rejection(("node(s) had no available volume zone",), Code.UNRESOLVABLE)

#: The labels that count → the stable label of each.
_KEYS: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}

#: A label, and the values of which the node must have one.
Topology = tuple[str, list[str]]


class VolumeZone(VolumePlugin):
    """Reject nodes outside the zones of the pod's bound volumes."""

    depends_on = DependsOn.NODE

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Find the volumes' zones; skip pods whose volumes have none."""
        if not pod.volumes:
            return SKIP
        topologies: list[Topology] = []
        for namespace, name in pod.pvc_keys:
            volume = self._volume(cluster, namespace, name)
            if isinstance(volume, str):
                return self.reject(volume, resolvable=False)
            if volume is not None:
                topologies += _topologies(volume)
        if not topologies:
            return SKIP
        state[self.name] = topologies
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes in all the zones, and those without any zone label."""
        topologies: list[Topology] = state[self.name]
        placed = nodes.empty_mask()
        for key in _KEYS:
            placed |= nodes.label(key) != ABSENT
        fits = nodes.full_mask()
        for key, values in topologies:
            inside = _label_in(nodes, key, values)
            today = _KEYS[key]
            if today != key:
                unlabelled = nodes.label(key) == ABSENT
                inside |= unlabelled & _label_in(nodes, today, values)
            fits &= inside
        return FilterResult(fits | ~placed, CONFLICT)

    def _volume(self, cluster: Cluster, namespace: str, name: str) -> PersistentVolume | str | None:
        """A claim's volume, ``None`` before its first consumer; or the reason against the pod."""
        objects = cluster.objects
        if not name:
            return "PersistentVolumeClaim had no name"
        claim = objects.get(PersistentVolumeClaim, namespace, name)
        if claim is None:
            return not_found_message("persistentvolumeclaim", name)
        if claim.spec.volume_name:
            volume = objects.get(PersistentVolume, "", claim.spec.volume_name)
            return volume or not_found_message("persistentvolume", claim.spec.volume_name)
        if not claim.class_name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = objects.get(StorageClass, "", claim.class_name)
        if storage_class is None:
            return not_found_message("storageclass.storage.k8s.io", claim.class_name)
        if storage_class.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{claim.class_name}"'
        if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return None
        return "PersistentVolume had no name"

    @staticmethod
    def _class_added(_pod: PodInfo, after: StorageClass, before: StorageClass | None) -> bool:
        return before is None and after.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    @staticmethod
    def _zones_changed(_pod: PodInfo, after: StorageObject, before: StorageObject | None) -> bool:
        assert isinstance(after, PersistentVolume)
        if before is None:
            return True
        assert isinstance(before, PersistentVolume)
        return _topologies(before) != _topologies(after)

    queueing_hints = (
        QueueingHint(ActionType.NODE_ADDED | ActionType.NODE_LABELS),
        storage_hint(StorageClass, _class_added),
        storage_hint(PersistentVolumeClaim, is_used_by_pod),
        storage_hint(PersistentVolume, _zones_changed),
    )


def _label_in(nodes: NodeView, key: str, values: list[str]) -> BoolArray:
    return NodeTerm([Requirement(key, "In", values)], ()).mask(nodes)


def _topologies(volume: PersistentVolume) -> list[Topology]:
    """The zones and regions a volume is labelled with, without unreadable ones."""
    found: list[Topology] = []
    for key in _KEYS:
        if key in volume.metadata.labels:
            values = [part.strip() for part in volume.metadata.labels[key].split("__")]
            if all(values):
                found.append((key, values))
    return found
