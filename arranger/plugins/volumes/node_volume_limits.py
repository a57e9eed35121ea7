"""NodeVolumeLimits: no more volumes on a node than its CSI drivers can attach."""

from __future__ import annotations

from collections import Counter
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from arranger.api.types.core import Volume
from arranger.api.types.storage import CSINode, PersistentVolumeClaim
from arranger.cluster import Cluster, NodeView, PodInfo
from arranger.framework import ActionType, ClusterEvent, DependsOn, QueueingHint
from arranger.framework.filter_result import FilterResult, Rejection, all_pass
from arranger.framework.status import SKIP, Code, CycleState, Status
from arranger.plugins.volumes.attachments import (
    AttachmentIndex,
    TrackingLister,
    attached_volumes_of,
)
from arranger.plugins.volumes.claims import (
    VolumePlugin,
    is_new_and_used_by_pod,
    not_found_message,
    pvc_references,
    storage_hint,
)
from arranger.plugins.volumes.csi_migration import migration_of

TOO_MANY: Final = Rejection(("node(s) exceed max volume count",))


def _may_attach(volume: Volume) -> bool:
    claim = volume.persistent_volume_claim or volume.ephemeral
    return claim is not None or migration_of(volume) is not None


class NodeVolumeLimits(VolumePlugin):
    """Reject nodes that could not attach the pod's volumes as well."""

    depends_on = DependsOn.USAGE
    monotone = True

    def __init__(self) -> None:
        self._indexes: WeakKeyDictionary[Cluster, AttachmentIndex] = WeakKeyDictionary()

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Skip pods without volumes that drivers attach."""
        if not any(map(_may_attach, pod.volumes)):
            return SKIP
        state[self.name] = cluster
        return None

    def looks_at(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """At pods with volumes only."""
        return False

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes where the attached volumes and the pod's stay within the limits."""
        cluster: Cluster = state[self.name]
        namespace = pod.pod.metadata.namespace
        for use in pvc_references(pod):
            if cluster.objects.get(PersistentVolumeClaim, namespace, use.name) is None:
                reason = not_found_message("persistentvolumeclaim", use.name)
                reason = f"looking up PVC {namespace}/{use.name}: {reason}"
                return FilterResult(nodes.empty_mask(), Rejection((reason,), Code.UNRESOLVABLE))
        wanted = set(attached_volumes_of(pod, TrackingLister(cluster)))
        if not wanted:
            return all_pass(nodes.length)
        attached = self._indexes.get(cluster)
        if attached is None:
            attached = self._indexes[cluster] = AttachmentIndex(cluster)
        attached.refresh(cluster)
        passes = nodes.full_mask()
        for driver, number in Counter(volume[0] for volume in wanted).items():
            limits = attached.limits(driver)
            if limits is not None:
                added = np.full(len(limits), number, dtype=np.int64)
                for volume in wanted:
                    if volume[0] == driver:
                        added[list(attached.holders(volume))] -= 1
                fits = (added == 0) | (attached.counts(driver) + added <= limits)
                passes &= fits[nodes.rows]
        return FilterResult(passes, TOO_MANY)

    @staticmethod
    def _had_volumes(_pod: PodInfo, event: ClusterEvent) -> bool:
        return event.pod is None or any(map(_may_attach, event.pod.spec.volumes))

    @staticmethod
    def _limit_raised(_pod: PodInfo, after: CSINode, before: CSINode | None) -> bool:
        if before is None:
            return True
        old, new = before.volume_limits, after.volume_limits
        return not old.keys() <= new.keys() or any(new[each] > old.get(each, 0) for each in new)

    @staticmethod
    def _detached(_pod: PodInfo, event: ClusterEvent) -> bool:
        return event.stored is None

    queueing_hints = (
        QueueingHint(ActionType.POD_REMOVED, _had_volumes),
        storage_hint(CSINode, _limit_raised),
        storage_hint(PersistentVolumeClaim, is_new_and_used_by_pod),
        QueueingHint(ActionType.OTHER, _detached, frozenset({"VolumeAttachment"})),
    )
