"""Which resource claims a pod uses, and the queueing hints for those that are not allocated.

Upstream: ``k8s.io/dynamic-resource-allocation/resourceclaim``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from arranger.api.types.core import Pod
from arranger.api.types.resource_claims import ResourceClaim
from arranger.cluster import ObjectStore, PodInfo
from arranger.framework.cluster_event import ActionType, ClusterEvent, QueueingHint


class NotCreatedError(Exception):
    """A claim that a pod needs cannot be used yet; the text says which and why."""


class _ClaimReference(NamedTuple):
    """The name of a claim; ``own`` if it was made for the pod from a template."""

    name: str
    own: bool


def claim_references(pod: Pod) -> Iterator[_ClaimReference]:
    """The claims that a pod names, and those that were made for it from templates.

    Raises:
        NotCreatedError: one has not been made yet.
    """
    made = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses}
    for use in pod.spec.resource_claims:
        if use.resource_claim_name is not None:
            yield _ClaimReference(use.resource_claim_name, own=False)
        elif use.resource_claim_template_name is None:
            raise NotCreatedError(
                f'pod "{pod.key}", spec.resourceClaim "{use.name}": '
                "none of the supported fields are set"
            )
        elif use.name not in made:
            raise NotCreatedError(f'pod "{pod.key}": ResourceClaim not created yet')
        elif (name := made[use.name]) is not None:
            yield _ClaimReference(name, own=True)  # None: no claim is needed


def look_up_claims(pod: Pod, objects: ObjectStore) -> list[ResourceClaim]:
    """The claims a pod uses, each once.

    Raises:
        NotCreatedError: one is missing, is being deleted, or is not the pod's.
    """
    claims: dict[str, ResourceClaim] = {}
    for use in claim_references(pod):
        claim = objects.get(ResourceClaim, pod.metadata.namespace, use.name)
        if claim is None:
            key = f"{pod.metadata.namespace}/{use.name}"
            raise NotCreatedError(f'could not find ResourceClaim "{key}"')
        if claim.metadata.deletion_timestamp is not None:
            raise NotCreatedError(f'resourceclaim "{use.name}" is being deleted')
        if use.own and not claim.metadata.is_controlled_by(pod.metadata.uid):
            raise NotCreatedError(
                f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
            )
        claims[claim.metadata.uid] = claim
    return list(claims.values())


def _may_have_devices(pod: PodInfo, event: ClusterEvent) -> bool:
    """A slice or a class was added or changed, or a claim that matters to the pod."""
    if event.resource != "ResourceClaim":
        return True
    before, after = event.stored_before, event.stored
    if before is None and after is None:
        return True  # a release of ours was written
    was = before if isinstance(before, ResourceClaim) else None
    now = after if isinstance(after, ResourceClaim) else None
    if _is_allocated(was) and not _is_allocated(now):
        return True  # its devices are free
    if now is None or now.metadata.namespace != pod.pod.metadata.namespace:
        return False
    try:
        used = any(use.name == now.metadata.name for use in claim_references(pod.pod))
    except NotCreatedError:
        return False  # its own status will change when the claim is made
    if not used or was is None:
        return used
    return was.status != now.status and not _only_others_came(was, now, pod.uid)


def _only_others_came(was: ResourceClaim, now: ResourceClaim, uid: str) -> bool:
    """Whether more pods use a claim, which helps none that cannot: many may wait for one claim."""
    before, after = was.status, now.status
    return (
        len(after.reserved_for) > len(before.reserved_for)
        and was.is_reserved_for(uid) == now.is_reserved_for(uid)
        and before.allocation == after.allocation
    )


def _is_allocated(claim: ResourceClaim | None) -> bool:
    return claim is not None and claim.status.allocation is not None


def _had_claims(_pod: PodInfo, event: ClusterEvent) -> bool:
    """The pod that went may have reserved devices."""
    return event.pod is None or bool(event.pod.spec.resource_claims)


QUEUEING_HINTS = (
    QueueingHint(ActionType.NODE_ADDED | ActionType.NODE_LABELS | ActionType.NODE_ALLOCATABLE),
    QueueingHint(ActionType.OWN_UPDATE),
    QueueingHint(ActionType.POD_REMOVED, _had_claims),
    QueueingHint(
        ActionType.OTHER,
        _may_have_devices,
        frozenset({"ResourceClaim", "ResourceSlice", "DeviceClass"}),
    ),
)
