"""What a Gang object says of its gang: the part that its pods and its PodGroup decide."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from arranger.api.annotations import BUNDLE_GANG, GANG_NAME, POD_GROUP, POD_GROUP_NAME
from arranger.api.settings.gang_membership import GangMembership
from arranger.api.settings.gang_settings import GangSettings, MatchPolicy, Mode
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import GangObject
from arranger.gangs.gang import Gang

GANG_API_VERSION: Final = "arranger.io/v1alpha1"
#: Label with the scheduler whose Gang it is; the controllers of others leave it alone.
MANAGED_BY: Final = "app.kubernetes.io/managed-by"

#: Annotation that makes a pod a member → the name of its dialect.
_DIALECTS: Final = (
    (GANG_NAME, "gang.scheduling.koordinator.sh"),
    (POD_GROUP, POD_GROUP),
    (POD_GROUP_NAME, POD_GROUP),
    (BUNDLE_GANG, "gang.koordinater.io"),
)


def gangs_path(namespace: str) -> str:
    """Where the Gangs of a namespace are."""
    return f"/apis/{GANG_API_VERSION}/namespaces/{namespace}/gangs"


def gang_path(gang: str) -> str:
    """Where the Gang of a gang ``namespace/name`` is."""
    namespace, _, own = gang.partition("/")
    return f"{gangs_path(namespace)}/{own}"


def is_defined_by_pods(gang: Gang) -> bool:
    """Whether annotations of its pods alone define a gang; PodGroups tell of theirs."""
    return gang.pod_group is None and +gang.pod_group_types == {None: len(gang.memberships)}


def named_bundles(gang: Gang) -> Mapping[str, int]:
    """Named bundle → minimum, of a gang that annotations define."""
    bundles = gang.settings.bundle_minimums if is_defined_by_pods(gang) else ()
    return {bundle: n for bundle, n in bundles if bundle}


def believed_until(
    gang: Gang | None, saved: GangObject, *, edited: bool, doubted: bool
) -> float | None:
    """When the first pod must have been made of a gang that had the bundles of its object.

    What others put there while we watch (``edited``) tells of this gang, where there has been doubt
    (``doubted``): they have seen the pods. Without doubt who knows all that we know and more is
    believed, too: they have seen a pod that the server has forgotten since, and two who know
    different bundles would write them in turn for ever. What a PodGroup says is not added to, as
    the object may tell what that said before.

    Returns:
        None if it tells us nothing; infinity for any gang.
    """
    created, minimums = saved.metadata.creation_timestamp, saved.recorded_minimums
    moment = created.timestamp() if created else math.inf
    if not edited:
        return moment
    if gang is None or minimums.keys() <= dict(gang.bundle_minimums).keys():
        return None
    if doubted:
        return math.inf
    more = is_defined_by_pods(gang) and named_bundles(gang).keys() <= minimums.keys()
    return moment if more and gang.created_at <= moment else None


def dialect_of(pod: Pod, membership: GangMembership) -> str:
    """In which words a pod says that it is a member: an API group, or a prefix of annotations."""
    if membership.pod_group_type is not None:
        return membership.pod_group_type.api_version.partition("/")[0]
    annotations = pod.metadata.annotations
    return next((dialect for key, dialect in _DIALECTS if annotations.get(key)), "")


def gang_object_spec(
    settings: GangSettings, *, sources: Iterable[str], wait_time: float
) -> dict[str, Any]:
    """``spec`` of a Gang; ``None`` for what must not be there.

    Args:
        sources: the dialects of its members.
        wait_time: seconds that hold for gangs that ask for none.
    """
    topology = settings.topology
    return {
        "mode": (settings.mode or Mode.STRICT).value,
        "matchPolicy": (settings.match_policy or MatchPolicy.ONCE_SATISFIED).value,
        "waitTimeSeconds": math.ceil(settings.wait_time or wait_time),
        "group": sorted(settings.groups) if settings.groups else None,
        "bundles": bundles_of(settings),
        "topology": {"key": topology.key, "required": topology.required} if topology else None,
        "source": min(filter(None, sources), default="") or None,
    }


def bundles_of(settings: GangSettings) -> list[dict[str, Any]]:
    """``spec.bundles`` of a Gang; one without a name stands for all members."""
    minimums = dict(settings.bundle_minimums) or {"": settings.minimum or 0}
    return [{"name": name, "minMember": n} for name, n in sorted(minimums.items())]


def gang_manifest(gang: str, spec: Mapping[str, Any], *, managed_by: str) -> dict[str, Any]:
    """A Gang to be created, of the gang ``namespace/name``."""
    namespace, _, name = gang.partition("/")
    labels = {MANAGED_BY: managed_by}
    return {
        "apiVersion": GANG_API_VERSION,
        "kind": "Gang",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }
