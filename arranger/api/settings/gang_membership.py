"""Reads which gang a pod belongs to, from all dialects.

A pod names its gang by labels, annotations or its spec; a PodGroup may define the gang. What is set
for it is read by :mod:`arranger.api.settings.gang_settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from arranger.api import annotations as keys
from arranger.api.bounded_cache import bounded_cache
from arranger.api.parsing.errors import shown
from arranger.api.settings.gang_settings import (
    NO_SETTINGS,
    GangSettings,
    is_dns_name,
    pod_settings,
    settings_annotations,
)
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import (
    AnyPodGroup,
    CommunityPodGroup,
    NativePodGroup,
    SigsPodGroup,
    VolcanoPodGroup,
    WorkloadGroup,
)

#: The labels and the annotations that name a gang, the first that is there counts; with the type of
#: PodGroup that defines it.
GANG_LABELS: Final[dict[str, type[AnyPodGroup]]] = {
    keys.POD_GROUP: SigsPodGroup,
    keys.POD_GROUP_NAME: SigsPodGroup,
    keys.POD_GROUP_X: CommunityPodGroup,
}
_GANG_NOTES: Final[dict[str, type[AnyPodGroup] | None]] = {
    keys.GANG_NAME: None,
    keys.POD_GROUP: None,
    keys.POD_GROUP_NAME: None,
    keys.BUNDLE_GANG: None,
    keys.VOLCANO_GROUP: VolcanoPodGroup,
    keys.VOLCANO_GROUP_LONG: VolcanoPodGroup,
}


@dataclass(frozen=True, slots=True)
class GangMembership:
    """What a pod says about its gang.

    Attributes:
        gang: ``namespace/name``.
        bundle: the role within the gang, ``""`` for the only one.
        pod_group_type: the type of PodGroup that defines the gang; None where annotations do.
        timed_out: whether the pod is marked as one whose gang has timed out.
        timeout_annotation: the annotation that marks such a pod in its dialect.
        problems: the invalid values, as sentences for the pod's owner.
        owner: what the gang waits for where its owner defines it, as ``PyTorchJob train``.
    """

    gang: str
    bundle: str = ""
    pod_group_type: type[AnyPodGroup] | None = None
    settings: GangSettings = NO_SETTINGS
    timed_out: bool = False
    timeout_annotation: str = keys.GANG_TIMEOUT
    problems: tuple[str, ...] = ()
    owner: str = ""


def gang_membership(pod: Pod) -> GangMembership | None:
    """The gang that a pod belongs to, by its own word; None for a pod on its own.

    Sources, in the order of precedence: ``spec.schedulingGroup``, the labels of PodGroups
    (scheduling.sigs.k8s.io, scheduling.x-k8s.io), Koordinator's annotations, those of bundles,
    Volcano's.
    """
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    group = pod.spec.scheduling_group
    named = not (
        GANG_LABELS.keys().isdisjoint(labels) and _GANG_NOTES.keys().isdisjoint(annotations)
    )
    if group is None and not named:
        return None
    name, pod_group_type = _gang_name(labels, annotations, group.pod_group_name if group else None)
    if not name:
        return None
    bundle = ""
    if keys.BUNDLE_GANG in annotations:
        bundle = annotations.get(keys.BUNDLE_NAME, "")
    elif pod_group_type is VolcanoPodGroup:
        bundle = annotations.get(keys.TASK_SPEC) or labels.get(keys.TASK_SPEC, "")
    said = settings_annotations(annotations), labels.get(keys.POD_GROUP_MIN, "")
    in_bundle = keys.BUNDLE_GANG in annotations and keys.GANG_NAME not in annotations
    mark = keys.BUNDLE_TIMEOUT if in_bundle else keys.GANG_TIMEOUT
    timed_out = _is_timed_out(annotations)
    return _membership(pod.metadata.namespace, name, pod_group_type, bundle, *said, mark, timed_out)


def owned_membership(pod: Pod, name: str, role: str, owner: str) -> GangMembership:
    """What a pod says about the gang that it is in because of its owner.

    Args:
        name: the gang's, without the namespace.
        role: the pod's.
        owner: as ``PyTorchJob train``.
    """
    label = pod.metadata.labels.get(keys.POD_GROUP_MIN, "")
    settings, problems = pod_settings(settings_annotations(pod.metadata.annotations), role, label)
    gang = f"{pod.metadata.namespace}/{name if is_dns_name(name) else quote(name, safe='')}"
    timed_out = _is_timed_out(pod.metadata.annotations)
    return GangMembership(
        gang, role, WorkloadGroup, settings, timed_out, problems=problems, owner=owner
    )


def workload_key(pod: Pod, gang: str = "") -> str:
    """Equal for the pods of one gang, else of one controller; "" for a pod on its own.

    ``gang``: the one that it is in, where that is known; else that of its own word.
    """
    membership = None if gang else gang_membership(pod)
    if gang := gang if membership is None else membership.gang:
        return f"gang {gang}"
    owner = pod.metadata.controller
    # Owners are of the pod's own namespace, whatever it says.
    return f"owner {pod.metadata.namespace}/{owner.uid}" if owner is not None else ""


@bounded_cache(4096)
def _membership(
    namespace: str,
    name: str,
    pod_group_type: type[AnyPodGroup] | None,
    bundle: str,
    said: tuple[tuple[str, str], ...],
    label: str,
    mark: str,
    timed_out: bool,
) -> GangMembership:
    """One object for all pods of a gang that say the same."""
    settings, problems = pod_settings(said, bundle, label)
    if not is_dns_name(name):
        problems = (f"gang name {shown(name)} is not a DNS-1123 name", *problems)
        # Its pods still belong together, but must not pass for those of a group "a,default/b".
        name = quote(name, safe="")
    gang = f"{namespace}/{name}"
    return GangMembership(gang, bundle, pod_group_type, settings, timed_out, mark, problems)


def _is_timed_out(annotations: Mapping[str, str]) -> bool:
    return "true" in (annotations.get(keys.GANG_TIMEOUT), annotations.get(keys.BUNDLE_TIMEOUT))


def _gang_name(
    labels: Mapping[str, str], annotations: Mapping[str, str], native: str | None
) -> tuple[str, type[AnyPodGroup] | None]:
    """The gang's name, and the type of PodGroup that defines it."""
    if native:
        return native, NativePodGroup
    for label, kind in GANG_LABELS.items():
        if name := labels.get(label):
            return name, kind
    for note, noted_kind in _GANG_NOTES.items():
        if name := annotations.get(note):
            return name, noted_kind
    return "", None
