"""Says what kind of change an edited object is, so that only those it may help are woken."""

from __future__ import annotations

from arranger.api.annotations import PREEMPTABLE, SERVICE_TYPE
from arranger.api.settings.queue_annotations import queue_of
from arranger.api.types.core import Node, Pod
from arranger.cluster.object_store import StoredObject
from arranger.cluster.pod_info import PodInfo
from arranger.framework.cluster_event import ActionType, ClusterEvent

_NO_ACTION = ActionType(0)


def node_change(before: Node | None, after: Node) -> ClusterEvent | None:
    """The event of a node that appeared or was edited; ``None`` for a mere heartbeat.

    As with kube-scheduler, images that are pulled or removed are none: they only make scores.
    """
    if before is None:
        return ClusterEvent(ActionType.NODE_ADDED, node=after)
    kind = _NO_ACTION
    if before.status.allocatable != after.status.allocatable:
        kind |= ActionType.NODE_ALLOCATABLE
    if before.metadata.labels != after.metadata.labels:
        kind |= ActionType.NODE_LABELS
    if (before.spec.unschedulable, before.spec.taints) != (
        after.spec.unschedulable,
        after.spec.taints,
    ):
        kind |= ActionType.NODE_TAINTS
    if before.status.declared_features != after.status.declared_features:
        kind |= ActionType.NODE_FEATURES
    if not kind:
        return None
    return ClusterEvent(kind, node=after, node_before=before)


def object_change(before: StoredObject | None, after: StoredObject | None) -> ClusterEvent:
    """The event of an object that plugins look up, None where there is none."""
    resource = type(after or before).__name__
    return ClusterEvent(ActionType.OTHER, resource=resource, stored=after, stored_before=before)


def placed_pod_change(before: PodInfo | None, after: PodInfo) -> ClusterEvent | None:
    """The event of a pod that appeared on a node, or was edited there."""
    if before is None:
        return ClusterEvent(ActionType.POD_ADDED, pod=after.pod)
    kind = _NO_ACTION
    if before.pod.metadata.labels != after.pod.metadata.labels:
        kind |= ActionType.POD_LABELS
    if any(after.requests.get(name, 0) < n for name, n in before.requests.items()):
        kind |= ActionType.POD_SCALED_DOWN
    if not kind:
        return None
    return ClusterEvent(kind, pod=after.pod, pod_before=before.pod)


def waiting_pod_change(before: PodInfo, after: PodInfo) -> ClusterEvent | None:
    """The event of an edit of a pod in the queue; ``None`` for what cannot matter to placing it.

    Its status does not matter, which we wrote ourselves, but for the claims made for it.
    """
    same = (
        before.spec_key == after.spec_key
        and before.pod.metadata.labels == after.pod.metadata.labels
        and before.pod.metadata.annotations == after.pod.metadata.annotations
        and before.pod.status.resource_claim_statuses == after.pod.status.resource_claim_statuses
    )
    kind = _NO_ACTION if same else ActionType.OWN_UPDATE
    if quota_fields(before.pod) != quota_fields(after.pod):
        kind |= ActionType.OWN_UPDATE | ActionType.EVICTION_RULES
    if not kind:
        return None
    return ClusterEvent(kind, pod=after.pod, pod_before=before.pod)


def quota_fields(pod: Pod) -> tuple[object, ...]:
    """What a pod says that its queue's ledger notes: queue, service, owner, and if it may go."""
    meta = pod.metadata
    notes, labels = meta.annotations, meta.labels
    said = (notes.get(SERVICE_TYPE), notes.get(PREEMPTABLE), labels.get(PREEMPTABLE))
    return queue_of(pod), *said, [(owner.kind, owner.uid) for owner in meta.owner_references]


def quota_change(resource: str) -> ClusterEvent:
    """A queue, or who is in it, has changed: other limits hold, and others may be evicted."""
    return ClusterEvent(ActionType.OTHER | ActionType.EVICTION_RULES, resource=resource)
