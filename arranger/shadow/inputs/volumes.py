"""Volumes for claims, as the controllers of a cluster would bind and make them."""

from __future__ import annotations

from typing import Final

import msgspec

from arranger.api.annotations import BIND_COMPLETED, SELECTED_NODE
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
from arranger.shadow.inputs.objects import ClusterObjects

_BOUND: Final = PhaseStatus("Bound")


def kept_volumes(objects: ClusterObjects) -> dict[str, PersistentVolume]:
    """Claim (``namespace/name``) → the volume that is kept for it."""
    return {
        f"{kept.namespace}/{kept.name}": volume
        for volume in objects.of(PersistentVolume)
        if (kept := volume.spec.claim_ref) is not None
    }


def volume_for(
    objects: ClusterObjects, claim: PersistentVolumeClaim, kept: PersistentVolume | None
) -> PersistentVolume | None:
    """The volume that a claim is bound to soon; None where it waits.

    That is the one which is ``kept`` for it, else a new one for the node that its pod was given,
    reached from where the provisioner's CSINode says; of a class whose volumes do not wait for a
    pod, one that is reached from everywhere. Classes whose volumes are made by hand have none.
    """
    if kept is not None and kept.is_bound_to(claim):
        return msgspec.structs.replace(kept, status=_BOUND)
    name = claim.metadata.annotations.get(SELECTED_NODE, "")
    node, made_by = objects.get(Node, f"/{name}"), objects.get(StorageClass, f"/{claim.class_name}")
    if made_by is None or made_by.provisioner == NO_PROVISIONER:
        return None
    if node is None and made_by.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return None
    meta = claim.metadata
    spec = PersistentVolumeSpec(
        capacity={"storage": claim.spec.resources.requests.get("storage", 0)},
        access_modes=claim.spec.access_modes,
        claim_ref=ClaimReference("PersistentVolumeClaim", meta.namespace, meta.name, meta.uid),
        storage_class_name=claim.class_name,
        volume_mode=claim.spec.volume_mode,
        volume_attributes_class_name=claim.spec.volume_attributes_class_name,
        node_affinity=_reach(objects, node, made_by.provisioner) if node is not None else None,
    )
    return PersistentVolume(ObjectMeta(name=f"pvc-{meta.uid}", uid=f"pv-{meta.uid}"), spec, _BOUND)


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
