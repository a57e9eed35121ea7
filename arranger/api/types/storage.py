"""Storage as the scheduler reads it: volumes, claims, classes, drivers and what is attached.

Structs with only the fields we use, as in :mod:`arranger.api.types.core`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from arranger.api.annotations import BETA_STORAGE_CLASS, BIND_COMPLETED, MIGRATED_PLUGINS
from arranger.api.quantity import RawQuantity, value
from arranger.api.types.core import (
    LabelSelector,
    NamespacedObject,
    NodeSelector,
    ObjectMeta,
    ResourceRequirements,
    Struct,
)

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
#: The provisioner of classes whose volumes are made by hand.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class ClaimReference(Struct):
    """``spec.claimRef`` of a volume."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Struct):
    """``spec.nodeAffinity`` of a volume."""

    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Struct):
    """``spec.csi`` of a volume."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Struct):
    """``spec`` of a PersistentVolume."""

    capacity: dict[str, RawQuantity] = msgspec.field(default_factory=dict)
    access_modes: list[str] = msgspec.field(default_factory=list)
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    aws_elastic_block_store: dict[str, Any] | None = None
    azure_disk: dict[str, Any] | None = None
    cinder: dict[str, Any] | None = None
    portworx_volume: dict[str, Any] | None = None


class PhaseStatus(Struct):
    """``status`` of a volume or a claim."""

    phase: str = ""


class PersistentVolume(Struct):
    """A PersistentVolume."""

    metadata: ObjectMeta
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: PhaseStatus = msgspec.field(default_factory=PhaseStatus)

    @property
    def class_name(self) -> str:
        """The name of its class, "" for none."""
        return self.metadata.annotations.get(BETA_STORAGE_CLASS, self.spec.storage_class_name)

    @property
    def size(self) -> int:
        """Bytes.

        Raises:
            QuantityError: the capacity is not a quantity.
        """
        return value(self.spec.capacity.get("storage", 0))

    def is_bound_to(self, claim: PersistentVolumeClaim) -> bool:
        """Whether it is bound to that claim, or reserved for it by name."""
        ref, meta = self.spec.claim_ref, claim.metadata
        return (
            ref is not None
            and (ref.namespace, ref.name) == (meta.namespace, meta.name)
            and ref.uid in ("", meta.uid)
        )


class PersistentVolumeClaimSpec(Struct):
    """``spec`` of a PersistentVolumeClaim."""

    access_modes: list[str] = msgspec.field(default_factory=list)
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None
    selector: LabelSelector | None = None


class PersistentVolumeClaim(NamespacedObject):
    """A PersistentVolumeClaim."""

    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: PhaseStatus = msgspec.field(default_factory=PhaseStatus)

    @property
    def class_name(self) -> str:
        """The name of its class, "" for none."""
        return self.metadata.annotations.get(BETA_STORAGE_CLASS, self.spec.storage_class_name or "")

    @property
    def size(self) -> int | None:
        """Bytes asked for, if it says.

        Raises:
            QuantityError: it is not a quantity.
        """
        asked = self.spec.resources.requests.get("storage")
        return None if asked is None else value(asked)

    @property
    def bound(self) -> bool:
        """Whether a volume is bound to it and the volume controller has done its part."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations


class PersistentVolumeClaimTemplate(Struct):
    """``volumes[].ephemeral.volumeClaimTemplate`` of a pod."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)


class TopologySelectorRequirement(Struct):
    """``allowedTopologies[].matchLabelExpressions[]``."""

    key: str = ""
    values: list[str] = msgspec.field(default_factory=list)


class TopologySelectorTerm(Struct):
    """``allowedTopologies[]``."""

    match_label_expressions: list[TopologySelectorRequirement] = msgspec.field(default_factory=list)


class StorageClass(Struct):
    """A StorageClass."""

    metadata: ObjectMeta
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] = msgspec.field(default_factory=list)


class VolumeNodeResources(Struct):
    """``spec.drivers[].allocatable`` of a CSINode."""

    count: int | None = None


class CSINodeDriver(Struct):
    """``spec.drivers[]`` of a CSINode."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None
    topology_keys: list[str] = msgspec.field(default_factory=list)


class CSINodeSpec(Struct):
    """``spec`` of a CSINode."""

    drivers: list[CSINodeDriver] = msgspec.field(default_factory=list)


class CSINode(Struct):
    """The CSI drivers of the node of the same name."""

    metadata: ObjectMeta
    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)

    @property
    def migrated_plugins(self) -> frozenset[str]:
        """The in-tree plugins whose volumes a CSI driver serves on the node."""
        return frozenset(self.metadata.annotations.get(MIGRATED_PLUGINS, "").split(","))

    @property
    def volume_limits(self) -> dict[str, int]:
        """Driver → how many volumes may be attached, for drivers with a limit."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }


class CSIDriverSpec(Struct):
    """``spec`` of a CSIDriver."""

    storage_capacity: bool = False


class CSIDriver(Struct):
    """A CSI driver of the cluster."""

    metadata: ObjectMeta
    spec: CSIDriverSpec = msgspec.field(default_factory=CSIDriverSpec)


class VolumeAttachmentSource(Struct):
    """``spec.source`` of a VolumeAttachment."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct):
    """``spec`` of a VolumeAttachment."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = msgspec.field(default_factory=VolumeAttachmentSource)


class VolumeAttachment(Struct):
    """A volume that is, or is to be, attached to a node."""

    metadata: ObjectMeta
    spec: VolumeAttachmentSpec = msgspec.field(default_factory=VolumeAttachmentSpec)


class CSIStorageCapacity(Struct):
    """How much a driver can still provision of one class for some nodes."""

    metadata: ObjectMeta
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: RawQuantity | None = None
    maximum_volume_size: RawQuantity | None = None

    @property
    def max_volume_size(self) -> int | None:
        """Bytes of the largest volume it can make, if it says.

        Raises:
            QuantityError: it is not a quantity.
        """
        limit = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        return None if limit is None else value(limit)
