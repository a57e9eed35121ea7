"""Whether whoever wrote an object is told what becomes of it.

A pod that waits is bound, or has a condition or an Event; a job has a phase or an Event; of any
other object an Event is asked for where it cannot be read, or where its definition refuses it in a
field that we read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from arranger.api.quantity import QuantityError
from arranger.api.resource_requests import pod_requests
from arranger.api.types.core import Pod
from arranger.embedded.crd.validation import NO_FIELD, NO_OLD_VALUE, violations
from arranger.kube.watch.decoder import Decoder, UndecodableObject
from tests.hostile.attack import Attack, Object
from tests.hostile.cluster import HostileCluster
from tests.hostile.expansion import expanded
from tests.hostile.tables.generated import ADMINS, TENANTS

_KINDS: Final = {**TENANTS, **ADMINS}
#: Where a job shows what has become of it.
_PHASES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("batch.volcano.sh/v1alpha1", "Job"): ("state", "phase"),
    ("arranger.io/v1alpha1", "TYJob"): ("stage",),
}
#: Kinds of our definitions beside those, and the fields that nobody is told of, with the reason.
#: What a definition says of metadata is the server's, and we ask no form of it.
_SILENT: Final[dict[str, dict[str, str]]] = {
    "PodGroup": {
        "spec.subGroupPolicy": "it is not read: gangs have no groups within",
        "spec.networkTopology": "it is not read",
        "status": "it is ours, and written again",
    },
    "Gang": {
        "spec": "it is ours; the scheduler reads its status alone",
        "status": "it is ours, and written again",
    },
    "Queue": {
        "spec.weight": "it is not read: shares are said by `deserved`",
        "spec.extendClusters": "it is not read: there is one cluster",
        "spec.affinity": "it is not read",
        "spec.dra": "it is not read",
        "spec.type": "it is not read",
        "status": "it is ours, and written again",
    },
    "Command": {
        "target": "one without a target is nobody's",
        "action": "one that is none is told on the job that it is for",
        "reason": "it is not read",
        "message": "it is not read",
    },
}


def untold(cluster: HostileCluster, attacks: Iterable[Attack]) -> list[Attack]:
    """The attacks of which an object's owner should be told something, and is not."""
    heard = {_named(event.get("regarding", {})) for event in cluster.events()}
    return [
        attack
        for attack in attacks
        if any(_is_left_silent(cluster, obj, heard) for obj in _last_states(attack))
    ]


def _last_states(attack: Attack) -> Iterable[Object]:
    edited = {_named(_reference(obj)): obj for obj in attack.edits}
    return [edited.get(_named(_reference(obj)), obj) for obj in attack.objects]


def _is_left_silent(
    cluster: HostileCluster, written: Object, heard: set[tuple[str, str, str]]
) -> bool:
    now = cluster.stored(written)
    if now is None or _named(_reference(written)) in heard:
        return False
    if _at(now, "metadata", "deletionTimestamp"):
        return False
    kind = (written["apiVersion"], written["kind"])
    if path := _PHASES.get(kind):
        return not _at(now, "status", *path)
    if kind == ("v1", "Pod") and _waits(written):
        return not _is_served(now) and not _lacks_a_claim(cluster, now)
    if _has_message(now):
        return False
    return _is_unreadable(kind, now) or _is_refused(cluster, written)


def _waits(pod: Object) -> bool:
    phase = _at(pod, "status", "phase")
    return (
        not _at(pod, "spec", "nodeName")
        and phase not in ("Succeeded", "Failed")
        and _at(pod, "spec", "schedulerName") == "arranger"
        and not _at(pod, "spec", "schedulingGates")
    )


def _lacks_a_claim(cluster: HostileCluster, pod: Object) -> bool:
    """Whether a ResourceClaim of a pod is still to be made: whoever makes it tells of that, and
    kube-scheduler is silent until it is there, too."""
    uses = _at(pod, "spec", "resourceClaims")
    names = [_at(use, "resourceClaimName") for use in uses] if isinstance(uses, list) else []
    claims = cluster.cluster.store.items("resource.k8s.io/resourceclaims")
    made = [claim["metadata"]["name"] for claim in claims]
    return any(name not in made for name in names)


def _is_served(pod: Object) -> bool:
    return bool(_at(pod, "spec", "nodeName") or _has_message(pod, "PodScheduled"))


def _has_message(obj: Object, *types: str) -> bool:
    """Whether a condition says something, one of these types or any."""
    found = _at(obj, "status", "conditions")
    conditions = [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []
    return any(c.get("message") and (not types or c.get("type") in types) for c in conditions)


def _is_unreadable(kind: tuple[str, str], obj: Object) -> bool:
    read_as = _KINDS.get(kind)
    if read_as is None:
        return False
    line = expanded(json.dumps({"type": "ADDED", "object": obj}).encode())
    event = Decoder(read_as).decode_event(line)
    if isinstance(event, UndecodableObject):
        return True
    found = event.object
    try:
        if isinstance(found, Pod) and not found.terminal:
            pod_requests(found)
    except QuantityError:
        return True
    return False


def _is_refused(cluster: HostileCluster, written: Object) -> bool:
    """Whether the object's definition refuses it in a field that we read."""
    silent = _SILENT.get(written["kind"])
    if silent is None:
        return False
    resource = cluster.cluster.registry.by_kind(written["apiVersion"], written["kind"])
    if resource is None or resource.schema is None:
        return False
    # Nulls and fields that it does not have are taken out, and nothing is wrong with them.
    taken = resource.schema.prune(written).obj
    wrong = violations(resource.schema.root, taken, NO_OLD_VALUE, "")
    # Of a number that is no int32 or int64 the place is in the message alone.
    places = [e.message.rpartition(" in ")[2] if e.field == NO_FIELD else e.field for e in wrong]
    return any(
        not place.startswith(tuple(silent)) and _at(taken, *place.split(".")) != ""
        for place in places  # "" says nothing
    )


def _reference(obj: Object) -> Object:
    return {"kind": obj["kind"], **obj["metadata"]}


def _named(reference: Object) -> tuple[str, str, str]:
    namespace = reference.get("namespace", "")
    return reference.get("kind", ""), namespace, reference.get("name", "")


def _at(obj: Any, *path: str) -> Any:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj
