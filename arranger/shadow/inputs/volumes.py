"""Volumes for claims, as the controllers of a cluster would bind and make them."""

from __future__ import annotations

from typing import Final

import msgspec

from arranger.api.annotations import BIND_COMPLETED, SELECTED_NODE
from arranger.api.quantity import QuantityError
from arranger.api.types.core import (
    Node,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    Requirement,
)
from arranger.api.types.storage import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    ClaimReference,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PhaseStatus,
    StorageClass,
    VolumeNodeAffinity,
)
from arranger.plugins.volumes.free_volumes import FreeVolumes
from arranger.shadow.inputs.objects import ClusterObjects

_BOUND: Final = PhaseStatus("Bound")


class VolumeBinder:
    """Finds or makes the volume of one claim after the other, among all that there are now."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        #: Claim (``namespace/name``) → the volume that is kept for it.
        self._kept: dict[str, PersistentVolume] = {}
        #: Class → the volumes that are nobody's.
        self._free: dict[str, list[PersistentVolume]] = {}
        for volume in objects.of(PersistentVolume):
            if (kept := volume.spec.claim_ref) is not None:
                self._kept[f"{kept.namespace}/{kept.name}"] = volume
            else:
                self._free.setdefault(volume.class_name, []).append(volume)

    def volume_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume that a claim is bound to soon; None where it waits.

        That is the one which is kept for it. A claim that does not wait for a pod is bound to the
        smallest that is large enough (``findBestMatchForClaim`` of the controller of volumes). Else
        it is a new one for the node that its pod was given, reached from where the provisioner's
        CSINode says; for a claim that did not wait, from everywhere. Classes whose volumes are made
        by hand have none.
        """
        kept = self._kept.get(claim.key)
        if kept is not None and kept.is_bound_to(claim):
            return msgspec.structs.replace(kept, status=_BOUND)
        made_by = self._objects.get(StorageClass, f"/{claim.class_name}")
        if made_by is None or made_by.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
            if (free := self._take(claim)) is not None:
                return free
            node = None
        else:
            name = claim.metadata.annotations.get(SELECTED_NODE, "")
            node = self._objects.get(Node, f"/{name}")
            if node is None:
                return None
        if made_by is None or made_by.provisioner == NO_PROVISIONER:
            return None
        affinity = _reach(self._objects, node, made_by.provisioner) if node is not None else None
        return _made(claim, affinity)

    def _take(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The smallest volume that the claim can have, which is nobody else's from now on."""
        free = self._free.get(claim.class_name, [])
        try:
            found = FreeVolumes(free, [claim.class_name]).candidates_for(claim).volumes
        except QuantityError:
            return None
        if not found:
            return None
        free.remove(found[0])
        spec = msgspec.structs.replace(found[0].spec, claim_ref=_reference(claim))
        return msgspec.structs.replace(found[0], spec=spec, status=_BOUND)


def _made(claim: PersistentVolumeClaim, affinity: VolumeNodeAffinity | None) -> PersistentVolume:
    """A volume as a provisioner makes it."""
    uid = claim.metadata.uid
    spec = PersistentVolumeSpec(
        capacity={"storage": claim.spec.resources.requests.get("storage", 0)},
        access_modes=claim.spec.access_modes,
        claim_ref=_reference(claim),
        storage_class_name=claim.class_name,
        volume_mode=claim.spec.volume_mode,
        volume_attributes_class_name=claim.spec.volume_attributes_class_name,
        node_affinity=affinity,
    )
    return PersistentVolume(ObjectMeta(name=f"pvc-{uid}", uid=f"pv-{uid}"), spec, _BOUND)


def _reference(claim: PersistentVolumeClaim) -> ClaimReference:
    meta = claim.metadata
    return ClaimReference("PersistentVolumeClaim", meta.namespace, meta.name, meta.uid)


def bound(claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
    """The claim once it has that volume."""
    replace = msgspec.structs.replace
    annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
    metadata = replace(claim.metadata, annotations=annotations)
    spec = replace(claim.spec, volume_name=volume.metadata.name)
    return replace(claim, metadata=metadata, spec=spec, status=_BOUND)


def _reach(objects: ClusterObjects, node: Node, provisioner: str) -> VolumeNodeAffinity | None:
    """From where the volumes of a provisioner are reached that are made for a node."""
    there = objects.get(CSINode, f"/{node.metadata.name}")
    drivers = there.spec.drivers if there is not None else ()
    keys = [key for each in drivers if each.name == provisioner for key in each.topology_keys]
    labels = node.metadata.labels
    terms = [Requirement(key, "In", [labels[key]]) for key in keys if key in labels]
    if not terms:
        return None
    return VolumeNodeAffinity(NodeSelector([NodeSelectorTerm(terms)]))
