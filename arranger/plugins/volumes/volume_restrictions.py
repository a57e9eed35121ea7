"""VolumeRestrictions: some disks and claims are used by one pod at a time.

Upstream, evicting a pod counts as freeing the claims of the same names in all namespaces; here a
claim is its namespace and its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from arranger.api.types.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim
from arranger.cluster import Cluster, NodeView
from arranger.cluster.exclusive_uses import MAX_DISK_USES, disk_uses, share_a_disk
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
        disks = sum(1 for _ in disk_uses(pod.volumes))
        if disks >= MAX_DISK_USES:
            why = f"pod uses {MAX_DISK_USES} disks or more by name, which are too many to look at"
            return self.reject(why, resolvable=False)
        if not used and not disks:
            return SKIP
        state[self.name] = exclusive
        return None

    def looks_at(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """At pods with volumes only."""
        return False

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes where no other pod uses the disks or claims."""
        exclusive: list[PvcKey] = state[self.name]
        on_all = np.zeros(nodes.table.size, dtype=np.bool_)
        for rows in nodes.table.disks.rows_with_conflicts(pod.volumes):
            on_all[rows] = True
        taken = on_all[nodes.rows]
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
        return share_a_disk(pod.volumes, volumes) or not claims.isdisjoint(pod.pvc_keys)

    queueing_hints = (
        QueueingHint(ActionType.POD_REMOVED, _lets_go),
        QueueingHint(ActionType.NODE_ADDED),
        storage_hint(PersistentVolumeClaim, is_new_and_used_by_pod),
    )


def _in_use(claims: Iterable[PvcKey], in_use: Mapping[PvcKey, int]) -> bool:
    return any(claim in in_use for claim in claims)
