"""What the volume plugins share: which claims a pod uses, and their queueing hints.

Upstream: ``k8s.io/component-helpers/storage``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final, NamedTuple

from arranger.api.types.core import Pod
from arranger.api.types.storage import PersistentVolumeClaim
from arranger.cluster.object_store import T
from arranger.cluster.pod_info import PodInfo
from arranger.framework import ActionType, ClusterEvent, Plugin, QueueingHint

#: Volumes of one pod that are looked at: no node attaches as many.
MAX_VOLUMES: Final = 256


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


def not_for_pod_message(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """The reason to refuse an ephemeral claim that is not the pod's."""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def not_found_message(kind: str, name: str) -> str:
    """The API's text for a missing object."""
    return f'{kind} "{name}" not found'


class VolumePlugin(Plugin):
    """A plugin whose results depend on the spec and on the claims that the pod uses."""

    def sign_pod(self, pod: PodInfo) -> Hashable:
        """Claims are named within a namespace, and ephemeral ones after the pod."""
        if not pod.volumes:
            return ()
        metadata = pod.pod.metadata
        if any(use.ephemeral for use in pvc_references(pod)):
            return metadata.namespace, metadata.name, metadata.uid
        return metadata.namespace


def storage_hint(kind: type[T], helps: Callable[[PodInfo, T, T | None], bool]) -> QueueingHint:
    """Retry when an object of this kind is added or changed and ``helps`` agrees.

    ``helps`` gets the pod, the object, and the object before the change.
    """

    def hint(pod: PodInfo, event: ClusterEvent) -> bool:
        after, before = event.stored, event.stored_before
        if not isinstance(after, kind):
            return False
        return helps(pod, after, before if isinstance(before, kind) else None)

    return QueueingHint(ActionType.OTHER, hint, frozenset({kind.__name__}))


def is_used_by_pod(
    pod: PodInfo, after: PersistentVolumeClaim, _before: PersistentVolumeClaim | None
) -> bool:
    """The pod uses the claim, and may come to be placed with it."""
    metadata = after.metadata
    return (
        metadata.namespace == pod.pod.metadata.namespace
        and len(pod.volumes) <= MAX_VOLUMES
        and any(use.name == metadata.name for use in pvc_references(pod))
    )


def is_new_and_used_by_pod(
    pod: PodInfo, after: PersistentVolumeClaim, before: PersistentVolumeClaim | None
) -> bool:
    """The pod uses the claim, which has just been created."""
    return before is None and is_used_by_pod(pod, after, before)
