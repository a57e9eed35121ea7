"""Volumes, claims, classes and drivers for tests, saying only what matters; as in builders."""

from __future__ import annotations

from typing import Any, Self

from arranger.api.annotations import BIND_COMPLETED
from arranger.api.types.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from tests.builders import Manifest, PodBuilder, StoredBuilder, expr

#: The provisioner of :func:`a_class`, unless it has another.
DRIVER = "csi.example.com"
ZONE = "topology.kubernetes.io/zone"


class VolumeBuilder(StoredBuilder):
    """See :func:`a_volume`."""

    def build(self) -> PersistentVolume:
        built = super().build()
        assert isinstance(built, PersistentVolume)
        return built

    def usable(self, *terms: Manifest) -> Self:
        """Usable only where one of the expressions is met; see :func:`tests.builders.expr`."""
        selector = [{"matchExpressions": [term]} for term in terms]
        return self._set("spec", nodeAffinity={"required": {"nodeSelectorTerms": selector}})

    def usable_in(self, *zones: str) -> Self:
        return self.usable(expr(ZONE, "In", *zones))

    def kept_for(self, claim: str, *, uid: str | None = None) -> Self:
        """For the claim ``default/<claim>``, without a ``uid`` in its name only."""
        ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claim}
        return self._set("spec", claimRef=ref if uid is None else {**ref, "uid": uid})

    def held_by(self, claim: str) -> Self:
        """Bound to the claim ``default/<claim>``."""
        return self.kept_for(claim, uid=f"uid-{claim}").with_status(phase="Bound")

    def served_by(self, driver: str, handle: str) -> Self:
        return self._set("spec", csi={"driver": driver, "volumeHandle": handle})


class ClaimBuilder(StoredBuilder):
    """See :func:`a_claim`."""

    def build(self) -> PersistentVolumeClaim:
        built = super().build()
        assert isinstance(built, PersistentVolumeClaim)
        return built

    def bound_to(self, volume: str) -> Self:
        bound = self.annotated({BIND_COMPLETED: "yes"}).with_spec(volumeName=volume)
        return bound.with_status(phase="Bound")

    def made_for(self, pod: PodBuilder) -> Self:
        """The claim of an ephemeral volume of that pod."""
        metadata = pod.manifest()["metadata"]
        owner = {"kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        return self._append("metadata", ownerReferences={**owner, "controller": True})


class ClassBuilder(StoredBuilder):
    """See :func:`a_class`."""

    def build(self) -> StorageClass:
        built = super().build()
        assert isinstance(built, StorageClass)
        return built

    def immediate(self) -> Self:
        return type(self)({**self._manifest, "volumeBindingMode": "Immediate"})

    def without_mode(self) -> Self:
        return type(self)({k: v for k, v in self._manifest.items() if k != "volumeBindingMode"})

    def allowed_in(self, *zones: str) -> Self:
        term = {"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}
        return type(self)({**self._manifest, "allowedTopologies": [term]})


def _object(
    kind: str, name: str, *, namespace: str = "", api: str = "storage.k8s.io/v1"
) -> Manifest:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata}


def a_volume(name: str = "v", *, size: str = "10Gi", of: str = "late") -> VolumeBuilder:
    """A free volume of class ``of`` that one node at a time may write to."""
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of,
        "hostPath": {"path": f"/{name}"},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    manifest = _object("PersistentVolume", name, api="v1")
    return VolumeBuilder({**manifest, "spec": spec, "status": {"phase": "Available"}})


def a_claim(name: str = "data", *, size: str = "1Gi", of: str = "late") -> ClaimBuilder:
    """The unbound claim ``default/<name>`` to a volume of class ``of``."""
    spec = {
        "resources": {"requests": {"storage": size}},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of,
    }
    manifest = _object("PersistentVolumeClaim", name, namespace="default", api="v1")
    return ClaimBuilder({**manifest, "spec": spec, "status": {"phase": "Pending"}})


def a_class(name: str = "late", *, by: str = DRIVER) -> ClassBuilder:
    """A class whose volumes wait for their first pod."""
    fields = {"provisioner": by, "volumeBindingMode": "WaitForFirstConsumer"}
    return ClassBuilder({**_object("StorageClass", name), **fields})


def a_csi_node(name: str, *, migrated: str = "", **limits: int | None) -> StoredBuilder:
    """The drivers of a node: ``csi_example_com=3`` allows three volumes, ``None`` any number."""
    drivers = [
        {
            "name": driver.replace("_", "."),
            "nodeID": name,
            **({} if limit is None else {"allocatable": {"count": limit}}),
        }
        for driver, limit in limits.items()
    ]
    made = StoredBuilder({**_object("CSINode", name), "spec": {"drivers": drivers}})
    key = "storage.alpha.kubernetes.io/migrated-plugins"
    return made.annotated({key: migrated}) if migrated else made


def a_driver(name: str = DRIVER, *, counts_space: bool = True) -> StoredBuilder:
    """A CSI driver that tells, or does not, where it has space."""
    return StoredBuilder({**_object("CSIDriver", name), "spec": {"storageCapacity": counts_space}})


def space_in(zone: str, capacity: str, *, of: str = "late", **more: Any) -> StoredBuilder:
    """What a driver can still make of class ``of`` in a zone."""
    manifest = _object("CSIStorageCapacity", f"space-{zone}", namespace="storage")
    topology = {"matchLabels": {ZONE: zone}}
    fields = {"storageClassName": of, "capacity": capacity, "nodeTopology": topology, **more}
    return StoredBuilder({**manifest, **fields})


def attached(volume: str, to: str, *, by: str = DRIVER) -> StoredBuilder:
    """A volume that is attached to a node."""
    spec = {"attacher": by, "nodeName": to, "source": {"persistentVolumeName": volume}}
    return StoredBuilder({**_object("VolumeAttachment", f"{volume}-on-{to}"), "spec": spec})
