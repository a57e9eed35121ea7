"""What the volume plugins share: which claims a pod uses, and their queueing hints.

Upstream: ``k8s.io/component-helpers/storage``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from arranger.api.types.core import Pod
from arranger.api.types.storage import PersistentVolumeClaim
from arranger.cluster.object_store import StorageObject
from arranger.cluster.pod_info import PodInfo
from arranger.framework.cluster_event import ActionType, ClusterEvent, QueueingHint


class PvcReference(NamedTuple):
    """A claim that a pod uses; ``ephemeral`` if it is made for this pod alone."""

    name: str
    ephemeral: bool


def pvc_references(pod: PodInfo) -> Iterator[PvcReference]:
    """The claims a pod uses, in the order of its volumes.

    A claim that it names twice counts once; upstream may bind it to two volumes.
    """
    named: set[str] = set()
    for volume in pod.volumes:
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
            if name not in named:
                named.add(name)
                yield PvcReference(name, ephemeral=False)
        elif volume.ephemeral is not None:
            yield PvcReference(f"{pod.pod.metadata.name}-{volume.name}", ephemeral=True)


def is_for_pod(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether an ephemeral claim belongs to this pod, not to one that had its name before."""
    return any(
        owner.controller and owner.uid == pod.metadata.uid
        for owner in claim.metadata.owner_references
    )


def not_for_pod_message(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """The reason to refuse an ephemeral claim that is not the pod's."""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def not_found_message(kind: str, name: str) -> str:
    """The API's text for a missing object."""
    return f'{kind} "{name}" not found'


def volume_signature(pod: PodInfo) -> Hashable:
    """What beyond the spec decides which claims a pod uses."""
    if not pod.volumes:
        return ()
    metadata = pod.pod.metadata
    if any(use.ephemeral for use in pvc_references(pod)):
        return metadata.namespace, metadata.name, metadata.uid
    return metadata.namespace


# --- waking ------------------------------------------------------------------------------------

#: (pod, object, the object before) → whether the change may help the pod.
StorageHint = Callable[[PodInfo, StorageObject, StorageObject | None], bool]


def storage_hint(**helps: StorageHint) -> QueueingHint:
    """Wake when an object of one of these kinds is added or changed, and the kind's hint agrees."""

    def hint(pod: PodInfo, event: ClusterEvent) -> bool:
        helpful, after, before = helps.get(event.resource), event.stored, event.stored_before
        if helpful is None or after is None:
            return False
        assert isinstance(after, StorageObject), f"{event.resource} is not storage"
        assert before is None or isinstance(before, StorageObject)
        return helpful(pod, after, before)

    return QueueingHint(ActionType.OTHER, hint)


def is_used_by_pod(pod: PodInfo, after: StorageObject, _before: StorageObject | None) -> bool:
    """The pod uses the claim."""
    metadata = after.metadata
    return metadata.namespace == pod.pod.metadata.namespace and any(
        use.name == metadata.name for use in pvc_references(pod)
    )


def is_new_and_used_by_pod(
    pod: PodInfo, after: StorageObject, before: StorageObject | None
) -> bool:
    """The pod uses the claim, which has just been created."""
    return before is None and is_used_by_pod(pod, after, before)
