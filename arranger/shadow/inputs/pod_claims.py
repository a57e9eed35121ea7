"""The claims that controllers make for pods: to their ephemeral volumes, and from templates.

As kube-controller-manager's controllers ``ephemeral`` and ``resourceclaim`` make them, and as the
API server's admission gives a claim its default class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

import msgspec

from arranger.api.annotations import BETA_STORAGE_CLASS
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import convert_object
from arranger.api.types.core import (
    ObjectMeta,
    OwnerReference,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    Volume,
)
from arranger.api.types.resource_claims import (
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from arranger.api.types.storage import (
    PersistentVolumeClaim,
    PersistentVolumeClaimTemplate,
    PhaseStatus,
    StorageClass,
)
from arranger.shadow.inputs.objects import ClusterObjects

Claim = PersistentVolumeClaim | ResourceClaim
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def with_claims(
    objects: ClusterObjects, pod: Pod, like: Pod | None = None
) -> tuple[Pod, list[Claim]]:
    """A new pod once its claims have been made, and these.

    What a claim asks for is said by the pod, or by a template. Where neither was read, the claim of
    the pod says it that the new one is ``like``. Of what nobody knows none is made: the pod waits.
    """
    made: list[Claim] = []
    for volume in pod.spec.volumes:
        if volume.ephemeral is not None:
            claim = _volume_claim(objects, pod, volume, like)
            there = objects.get(PersistentVolumeClaim, claim.key) if claim is not None else None
            goes = like is not None and there is not None and _is_of(there, like)
            made += [claim] if claim is not None and (there is None or goes) else []
    named = list(pod.status.resource_claim_statuses)
    known = {each.name for each in named}
    for use in pod.spec.resource_claims:
        if use.resource_claim_template_name is not None and use.name not in known:
            spec = _asked_for(objects, pod, use, like)
            if spec is not None:
                asked = _device_claim(objects, pod, use.name, spec)
                made.append(asked)
                named.append(PodResourceClaimStatus(use.name, asked.metadata.name))
    status = msgspec.structs.replace(pod.status, resource_claim_statuses=named)
    return msgspec.structs.replace(pod, status=status), made


def put_with_claims(objects: ClusterObjects, pod: Pod, like: Pod | None = None) -> None:
    """A new pod is there, with the claims that are made for it; see :func:`with_claims`."""
    pod, made = with_claims(objects, pod, like)
    objects.put(pod)
    for claim in made:
        objects.put(claim)


def claims_made_for(objects: ClusterObjects, pods: Iterable[Pod]) -> list[Claim]:
    """The claims that were made for pods, and go with them."""
    uids = {
        pod.metadata.uid
        for pod in pods
        if any(each.ephemeral is not None for each in pod.spec.volumes)
        or any(each.resource_claim_template_name for each in pod.spec.resource_claims)
    }
    if not uids:
        return []
    claims = chain[Claim](objects.of(PersistentVolumeClaim), objects.of(ResourceClaim))
    return [
        claim
        for claim in claims
        if (owner := claim.metadata.controller) is not None and owner.uid in uids
    ]


# --- volumes -----------------------------------------------------------------------------------


def _volume_claim(
    objects: ClusterObjects, pod: Pod, volume: Volume, like: Pod | None
) -> PersistentVolumeClaim | None:
    found = _template(objects, volume, like)
    if found is None:
        return None
    spec, notes = msgspec.structs.replace(found.spec, volume_name=""), found.metadata.annotations
    notes = {key: text for key, text in notes.items() if key == BETA_STORAGE_CLASS}
    meta = _metadata("PersistentVolumeClaim", pod, f"{pod.metadata.name}-{volume.name}")
    meta = msgspec.structs.replace(meta, annotations=notes)
    return with_class(objects, PersistentVolumeClaim(meta, spec, PhaseStatus("Pending")))


def _template(
    objects: ClusterObjects, volume: Volume, like: Pod | None
) -> PersistentVolumeClaimTemplate | None:
    """What a claim to a volume asks for: in binary form a pod is read without it."""
    stated = (volume.ephemeral or {}).get("volumeClaimTemplate")
    if isinstance(stated, Mapping):
        try:
            return convert_object(stated, PersistentVolumeClaimTemplate)
        except ParseError:
            return None
    if like is None:
        return None
    key = f"{like.metadata.namespace}/{like.metadata.name}-{volume.name}"
    there = objects.get(PersistentVolumeClaim, key)
    if there is None or not _is_of(there, like):
        return None
    return PersistentVolumeClaimTemplate(there.metadata, there.spec)


def with_class(objects: ClusterObjects, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """A new claim, with the default class if it says nothing of classes."""
    if (
        claim.spec.storage_class_name is not None
        or BETA_STORAGE_CLASS in claim.metadata.annotations
    ):
        return claim
    spec = msgspec.structs.replace(claim.spec, storage_class_name=_default_class(objects))
    return msgspec.structs.replace(claim, spec=spec)


def _default_class(objects: ClusterObjects) -> str | None:
    """The class of claims that name none: of several the youngest, of these the first by name."""
    marked = [
        each
        for each in objects.of(StorageClass)
        if any(each.metadata.annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    ]
    return min(marked, key=_default_rank).metadata.name if marked else None


def _default_rank(of: StorageClass) -> tuple[float, str]:
    created = of.metadata.creation_timestamp
    return (-created.timestamp() if created is not None else 0.0), of.metadata.name


# --- devices -----------------------------------------------------------------------------------


def _asked_for(
    objects: ClusterObjects, pod: Pod, use: PodResourceClaim, like: Pod | None
) -> ResourceClaimSpec | None:
    namespace = pod.metadata.namespace
    key = f"{namespace}/{use.resource_claim_template_name}"
    if (template := objects.get(ResourceClaimTemplate, key)) is not None:
        return template.spec.spec
    for each in like.status.resource_claim_statuses if like is not None else ():
        there = objects.get(ResourceClaim, f"{namespace}/{each.resource_claim_name}")
        if each.name == use.name and there is not None:
            return there.spec
    return None


def _device_claim(
    objects: ClusterObjects, pod: Pod, use: str, spec: ResourceClaimSpec
) -> ResourceClaim:
    name = f"{pod.metadata.name}-{use}"
    while objects.get(ResourceClaim, f"{pod.metadata.namespace}/{name}") is not None:
        name += "x"
    return ResourceClaim(_metadata("ResourceClaim", pod, name), spec)


def _metadata(kind: str, pod: Pod, name: str) -> ObjectMeta:
    meta = pod.metadata
    owner = OwnerReference("v1", "Pod", meta.name, meta.uid, controller=True)
    uid = f"{kind}/{meta.namespace}/{name}/{meta.uid}"
    return ObjectMeta(name=name, namespace=meta.namespace, uid=uid, owner_references=[owner])


def _is_of(claim: Claim, pod: Pod) -> bool:
    return claim.metadata.is_controlled_by(pod.metadata.uid)
