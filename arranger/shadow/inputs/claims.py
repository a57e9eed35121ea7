"""What becomes of claims to devices when pods are gone."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from arranger.api.types.core import Pod
from arranger.api.types.resource_claims import ResourceClaim
from arranger.shadow.inputs.objects import ClusterObjects


def without_users(
    objects: ClusterObjects, gone: Iterable[Pod]
) -> list[tuple[ResourceClaim, ResourceClaim]]:
    """(before, after) of the claims of pods that are gone: they give their devices back.

    As the controller of claims does it (kube-controller-manager's ``resourceclaim``).
    """
    uids = {pod.metadata.uid for pod in gone}
    changed = []
    for claim in objects.of(ResourceClaim) if uids else ():
        left = [each for each in claim.status.reserved_for if each.uid not in uids]
        if len(left) < len(claim.status.reserved_for):
            given = claim.status.allocation if left else None
            status = msgspec.structs.replace(claim.status, reserved_for=left, allocation=given)
            changed.append((claim, msgspec.structs.replace(claim, status=status)))
    return changed
