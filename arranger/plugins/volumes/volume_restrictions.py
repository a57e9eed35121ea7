"""VolumeRestrictions: some disks and claims are used by one pod at a time.

Upstream, evicting a pod counts as freeing the claims of the same names in all namespaces; here a
claim is its namespace and its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from arranger.api.types.core import Volume
from arranger.api.types.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim
from arranger.cluster import Cluster, NodeView
from arranger.cluster.pod_info import PodInfo, PvcKey
from arranger.framework import ActionType, ClusterEvent, DependsOn, QueueingHint
from arranger.framework.filter_result import FilterResult, GroupedRejections, Rejection
from arranger.framework.status import SKIP, CycleState, Status
from arranger.plugins.volumes.claims import (
    VolumePlugin,
    is_new_and_used_by_pod,
    not_found_message,
    storage_hint,
)

DISK: Final = Rejection(("node(s) had no available disk",))
ONE_POD: Final = Rejection(
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod",
    )
)

Source = Mapping[str, Any]
#: Kind of disk, as a field of a volume → (what identifies one, whether many pods may read it).
_DISKS: Final = {
    "gce_persistent_disk": ("pdName", True),
    "aws_elastic_block_store": ("volumeID", False),
    "iscsi": ("iqn", True),
}


class VolumeRestrictions(VolumePlugin):
    """Keep pods off disks that another pod on the node writes to, and off claims for one pod."""

    # Evaluation also follows which of a pod's claims are in use on any node.
    depends_on = DependsOn.USAGE
    monotone = True

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Skip pods that cannot conflict with others; refuse those whose claim is missing."""
        if not pod.volumes:
            return SKIP
        exclusive: list[PvcKey] = []
        for namespace, name in pod.pvc_keys:
            claim = cluster.objects.get(PersistentVolumeClaim, namespace, name)
            if claim is None:
                reason = not_found_message("persistentvolumeclaim", name)
                return self.reject(reason, resolvable=False)
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.append((namespace, name))
        used = _in_use(exclusive, cluster.table.pvc_use_counts)
        if not used and not any(map(_is_disk, pod.volumes)):
            return SKIP
        state[self.name] = exclusive
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes where no other pod uses the disks or claims."""
        exclusive: list[PvcKey] = state[self.name]
        taken = nodes.empty_mask()
        disks = [volume for volume in pod.volumes if _is_disk(volume)]
        if disks:
            here = nodes.table.pods
            for place, row in enumerate(nodes.row_numbers().tolist()):
                taken[place] = any(
                    _share_disk(disks, other.volumes) for other in here[row].values()
                )
        used = _in_use(exclusive, nodes.table.pvc_use_counts)

        def explain() -> GroupedRejections:
            return (DISK, ONE_POD), np.where(taken, 0, 1 if used else -1)

        return FilterResult(nodes.empty_mask() if used else ~taken, explain)

    @staticmethod
    def _lets_go(pod: PodInfo, event: ClusterEvent) -> bool:
        """The pod that went used a disk or claim that this pod needs, or may have."""
        if event.pod is None:
            return True
        namespace, volumes = event.pod.metadata.namespace, event.pod.spec.volumes
        named = [v.persistent_volume_claim for v in volumes]
        claims = {(namespace, claim.claim_name) for claim in named if claim is not None}
        return _share_disk(pod.volumes, volumes) or not claims.isdisjoint(pod.pvc_keys)

    queueing_hints = (
        QueueingHint(ActionType.POD_REMOVED, _lets_go),
        QueueingHint(ActionType.NODE_ADDED),
        storage_hint(PersistentVolumeClaim, is_new_and_used_by_pod),
    )


def _in_use(claims: Iterable[PvcKey], in_use: Mapping[PvcKey, int]) -> bool:
    return any(claim in in_use for claim in claims)


def _is_disk(volume: Volume) -> bool:
    return volume.rbd is not None or any(getattr(volume, kind) is not None for kind in _DISKS)


def _share_disk(wanted: Iterable[Volume], others: Iterable[Volume]) -> bool:
    return any(_same_disk(one, other) for other in others for one in wanted)


def _same_disk(one: Volume, other: Volume) -> bool:
    for kind, (identity, readable_by_many) in _DISKS.items():
        mine, theirs = getattr(one, kind), getattr(other, kind)
        if mine is None or theirs is None or mine.get(identity) != theirs.get(identity):
            continue
        if not (readable_by_many and _both_read(mine, theirs)):
            return True
    if one.rbd is not None and other.rbd is not None:
        mine, theirs = one.rbd, other.rbd
        monitors = set(mine.get("monitors") or ()) & set(theirs.get("monitors") or ())
        image = (mine.get("pool", "rbd"), mine.get("image"))
        same = image == (theirs.get("pool", "rbd"), theirs.get("image"))
        return bool(monitors) and same and not _both_read(mine, theirs)
    return False


def _both_read(one: Source, other: Source) -> bool:
    return bool(one.get("readOnly")) and bool(other.get("readOnly"))
