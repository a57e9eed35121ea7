"""Which volumes are attached to each node, and how many its drivers allow.

Kept current: a row is counted again only when its pods have changed, or an object has that was
looked up when it was counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from arranger.api.types.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from arranger.cluster import Cluster, PodInfo
from arranger.cluster.columns import IntArray, resized
from arranger.cluster.object_store import T
from arranger.plugins.volumes.claims import pvc_references
from arranger.plugins.volumes.csi_migration import DRIVERS, migration_of

#: (driver, its handle of the volume, ""), or (driver, "", claim) for a volume to be provisioned.
AttachedVolume = tuple[str, str, str]
#: The limit where there is none.
UNLIMITED: Final = 2**62
_NOTHING_READ: Final = frozenset[Any]()

_Key = tuple[type[Any], str, str]
K = TypeVar("K")


class TrackingLister:
    """Looks objects up, and records which."""

    def __init__(self, cluster: Cluster) -> None:
        self._objects = cluster.objects
        self.read: set[_Key] = set()

    def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        """The object of that name, if there is one."""
        self.read.add((kind, namespace, name))
        return self._objects.get(kind, namespace, name)


def attached_volumes_of(pod: PodInfo, reader: TrackingLister) -> Iterator[AttachedVolume]:
    """The volumes that CSI drivers have to attach for a pod, migrated in-tree volumes included.

    Volumes without a driver are left out, and so are claims that do not exist or are not the
    pod's: other plugins deal with these.
    """
    namespace = pod.pod.metadata.namespace
    for use in pvc_references(pod):
        claim = reader.get(PersistentVolumeClaim, namespace, use.name)
        if claim is None or (use.ephemeral and not claim.metadata.is_controlled_by(pod.uid)):
            continue
        attached = _of_claim(claim, reader)
        if attached is not None:
            yield attached
    for volume in pod.volumes:
        if (migrated := migration_of(volume)) is not None:
            migration, source = migrated
            yield migration.driver, migration.handle(source, {}), ""


def _of_claim(claim: PersistentVolumeClaim, reader: TrackingLister) -> AttachedVolume | None:
    volume = None
    if claim.spec.volume_name:
        volume = reader.get(PersistentVolume, "", claim.spec.volume_name)
    if volume is None:
        return _of_class(claim, reader)
    if volume.spec.csi is not None:
        found = volume.spec.csi.driver, volume.spec.csi.volume_handle, ""
    elif (migrated := migration_of(volume)) is not None:
        migration, source = migrated
        found = migration.driver, migration.handle(source, volume.metadata.labels), ""
    else:
        return None
    return found if found[0] and found[1] else None


def _of_class(claim: PersistentVolumeClaim, reader: TrackingLister) -> AttachedVolume | None:
    if not claim.class_name:
        return None
    storage_class = reader.get(StorageClass, "", claim.class_name)
    if storage_class is None:
        return None
    provisioner = storage_class.provisioner
    return DRIVERS.get(provisioner, provisioner), "", claim.key


class _Row(NamedTuple):
    """What was counted for a row.

    Attributes:
        by_pods: the volumes that its pods use.
        read: the objects looked up on the way; when one changes, the row is counted again.
    """

    by_pods: frozenset[AttachedVolume]
    counts: dict[str, int]
    limits: dict[str, int]
    read: frozenset[_Key]


_EMPTY: Final = _Row(frozenset(), {}, {}, _NOTHING_READ)


class AttachmentIndex:
    """Attached volumes by row and driver."""

    def __init__(self, cluster: Cluster) -> None:
        self._table, self._objects = cluster.table, cluster.objects
        self._table_version = self._objects_version = -1
        self._rows: list[_Row] = []
        self._counts: dict[str, IntArray] = {}
        self._limits: dict[str, IntArray] = {}
        self._holders: dict[AttachedVolume, set[int]] = {}
        self._readers: dict[_Key, set[int]] = {}
        self._attachments: dict[str, set[str]] = {}

    def limits(self, driver: str) -> IntArray | None:
        """Row → how many of the driver's volumes may be attached; ``None`` if limited nowhere."""
        return self._limits.get(driver)

    def counts(self, driver: str) -> IntArray:
        """Row → how many of the driver's volumes are attached, where they are limited."""
        return self._counts[driver]

    def holders(self, volume: AttachedVolume) -> Iterable[int]:
        """The rows whose pods use a volume already."""
        return self._holders.get(volume, ())

    def refresh(self, cluster: Cluster) -> None:
        """Count the rows again that may have changed."""
        table, objects = self._table, self._objects
        dirty: set[int] | None = None
        placed = table.changed_since(self._table_version) if self._table_version >= 0 else None
        known = self._objects_version
        stored = objects.storage_changed_since(known) if known >= 0 else None
        self._table_version, self._objects_version = table.version, objects.storage_version
        if placed is not None and stored is not None:
            dirty = {row for _, row in placed}
            for changed in stored:
                meta = changed.metadata
                dirty |= self._readers.get((type(changed), meta.namespace, meta.name), set())
                if isinstance(changed, VolumeAttachment):
                    self._index_attachment(changed)
                    row = table.index.get(changed.spec.node_name)
                    dirty |= set() if row is None else {row}
        else:
            self._attachments.clear()
            for attachment in objects.in_namespace(VolumeAttachment, ""):
                self._index_attachment(attachment)
            dirty = set(range(table.size))
        self._grow()
        for row in dirty:
            self._update_row(row, cluster)

    def _index_attachment(self, attachment: VolumeAttachment) -> None:
        name, node = attachment.metadata.name, attachment.spec.node_name
        names = self._attachments.setdefault(node, set())
        if self._objects.get(VolumeAttachment, "", name) is not None:
            names.add(name)
            return
        names.discard(name)
        if not names:
            del self._attachments[node]

    def _grow(self) -> None:
        self._rows += [_EMPTY] * (self._table.size - len(self._rows))
        capacity = len(self._table.alive)
        for arrays, filler in ((self._counts, 0), (self._limits, UNLIMITED)):
            for driver, array in arrays.items():
                if len(array) < capacity:
                    arrays[driver] = resized(array, capacity, filler)

    def _update_row(self, row: int, cluster: Cluster) -> None:
        before, after = self._rows[row], self._count_row(row, cluster)
        if before == after:
            return
        self._rows[row] = after
        _move_row(self._holders, row, before.by_pods, after.by_pods)
        _move_row(self._readers, row, before.read, after.read)
        for driver in before.limits.keys() | after.limits.keys():
            self._column(self._limits, driver, UNLIMITED)[row] = after.limits.get(driver, UNLIMITED)
            self._column(self._counts, driver, 0)[row] = after.counts.get(driver, 0)

    def _column(self, arrays: dict[str, IntArray], driver: str, filler: int) -> IntArray:
        if driver not in arrays:
            arrays[driver] = np.full(len(self._table.alive), filler, dtype=np.int64)
        return arrays[driver]

    def _count_row(self, row: int, cluster: Cluster) -> _Row:
        node = self._table.nodes[row]
        if node is None:
            return _EMPTY
        name = node.metadata.name
        reader = TrackingLister(cluster)
        csi_node = reader.get(CSINode, "", name)
        limits = csi_node.volume_limits if csi_node is not None else {}
        if not limits:
            return _Row(frozenset(), {}, {}, frozenset(reader.read))
        pods = [pod for pod in self._table.pods[row].values() if pod.volumes]
        by_pods = frozenset(volume for pod in pods for volume in attached_volumes_of(pod, reader))
        counts: dict[str, int] = {}
        for driver, *_ in by_pods | self._attached(name, reader):
            counts[driver] = counts.get(driver, 0) + 1
        return _Row(by_pods, counts, limits, frozenset(reader.read))

    def _attached(self, node: str, reader: TrackingLister) -> set[AttachedVolume]:
        found: set[AttachedVolume] = set()
        for name in self._attachments.get(node, ()):
            attachment = reader.get(VolumeAttachment, "", name)
            if attachment is None or not attachment.spec.attacher:
                continue
            of = attachment.spec.source.persistent_volume_name
            volume = None if of is None else reader.get(PersistentVolume, "", of)
            if volume is not None and volume.spec.csi is not None:
                found.add((attachment.spec.attacher, volume.spec.csi.volume_handle, ""))
        return found


def _move_row(rows: dict[K, set[int]], row: int, before: Set[K], after: Set[K]) -> None:
    """Enter a row under the keys that it has now, and no more under those that it had."""
    for key in before - after:
        rows[key].discard(row)
        if not rows[key]:
            del rows[key]
    for key in after - before:
        rows.setdefault(key, set()).add(row)
