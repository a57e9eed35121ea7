"""One attack for each field of each kind that the processes read, and each value that is put there.

Metadata that the server itself writes (uid, namespace, name, version) is left as it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Final

from arranger.api.types import pod_groups, resource_claims, storage
from arranger.api.types.core import Namespace, Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.workloads import (
    Owner,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from tests.controlplane.harness import a_node
from tests.hostile.attack import CULPRIT, Attack, Object
from tests.hostile.tables import audit
from tests.hostile.tables.shapes import Field, fields_of_schema, fields_of_type, schemas, with_value
from tests.hostile.tables.values import VALUES

#: Kinds of Kubernetes → the type that they are read as; those of tenants first.
TENANTS: Final[dict[tuple[str, str], type]] = {
    ("v1", "Pod"): Pod,
    ("v1", "Service"): Service,
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("apps/v1", "Deployment"): Owner,
    ("apps/v1", "DaemonSet"): Owner,
    ("batch/v1", "Job"): Owner,
    ("v1", "PersistentVolumeClaim"): storage.PersistentVolumeClaim,
    ("policy/v1", "PodDisruptionBudget"): PodDisruptionBudget,
    ("resource.k8s.io/v1", "ResourceClaim"): resource_claims.ResourceClaim,
    ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup"): pod_groups.SigsPodGroup,
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"): pod_groups.CommunityPodGroup,
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): pod_groups.VolcanoPodGroup,
    ("arranger.io/v1alpha1", "Gang"): pod_groups.GangObject,
    ("batch.volcano.sh/v1alpha1", "Job"): Owner,
    ("arranger.io/v1alpha1", "TYJob"): Owner,
}
ADMINS: Final[dict[tuple[str, str], type]] = {
    ("v1", "Node"): Node,
    ("v1", "Namespace"): Namespace,
    ("v1", "PersistentVolume"): storage.PersistentVolume,
    ("storage.k8s.io/v1", "StorageClass"): storage.StorageClass,
    ("storage.k8s.io/v1", "CSINode"): storage.CSINode,
    ("storage.k8s.io/v1", "CSIDriver"): storage.CSIDriver,
    ("storage.k8s.io/v1", "VolumeAttachment"): storage.VolumeAttachment,
    ("storage.k8s.io/v1", "CSIStorageCapacity"): storage.CSIStorageCapacity,
    ("resource.k8s.io/v1", "ResourceSlice"): resource_claims.ResourceSlice,
    ("resource.k8s.io/v1", "DeviceClass"): resource_claims.DeviceClass,
}
#: Kinds whose objects are in no namespace.
CLUSTER_SCOPED: Final = {kind for _, kind in ADMINS} - {"CSIStorageCapacity"} | {
    "Queue",
    "Reservation",
}
#: What the server writes and nobody else.
_SERVERS: Final = {"name", "namespace", "uid", "resourceVersion"}


def of_tenants(part: int = 1) -> Iterator[Attack]:
    """Attacks on what tenants write, one in ``part`` of them."""
    yield from chosen(_of_types(TENANTS), part)


def of_admins(part: int = 1) -> Iterator[Attack]:
    """Attacks on what admins write."""
    yield from chosen(_of_types(ADMINS), part)


def of_kinds(*wanted: type) -> Iterator[Attack]:
    """Attacks on objects that are read as these types."""
    for (api_version, kind), read_as in (TENANTS | ADMINS).items():
        if read_as in wanted:
            yield from _of_types({(api_version, kind): read_as})


def of_definitions(part: int = 1) -> Iterator[Attack]:
    """Attacks on objects of our definitions."""
    yield from chosen(_of_schemas(), part)


def chosen(attacks: Iterator[Attack], part: int) -> Iterator[Attack]:
    """One in ``part`` of them: the same ones each time; neighbours of one field are spread."""
    for attack in attacks:
        if zlib.crc32(attack.name.encode()) % part == 0:
            yield attack


def _of_types(kinds: dict[tuple[str, str], type]) -> Iterator[Attack]:
    for (api_version, kind), read_as in kinds.items():
        for field in fields_of_type(read_as):
            yield from _on_field(api_version, kind, field)


def _of_schemas() -> Iterator[Attack]:
    for place, schema in schemas().items():
        api_version, _, kind = place.rpartition("/")
        for field in fields_of_schema(schema):
            yield from _on_field(api_version, kind, field)


def _on_field(api_version: str, kind: str, field: Field) -> Iterator[Attack]:
    if field.path[:1] == ("metadata",) and (len(field.path) == 1 or field.path[1] in _SERVERS):
        return
    group = api_version.partition("/")[0]
    for what, value in VALUES[field.type].items():
        if field.path[0] == "metadata" and not _is_of_type(value, field.type):
            continue  # no server takes it, of whichever kind
        sentence = f"{field} of a {kind} of {group} is {what}"
        obj = with_value(_base(api_version, kind, sentence), field.path, value)
        yield Attack(sentence, [obj])


def _is_of_type(value: Any, kind: str) -> bool:
    """Whether the metadata of an object can have the value."""
    match kind:
        case "object":
            return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
        case "array":
            return value == []
        case "string" | "time":
            return isinstance(value, str)
        case _:
            return isinstance(value, int) and abs(value) < 2**63


def _base(api_version: str, kind: str, sentence: str) -> Object:
    """A sound object of a kind, with a name of its own."""
    number = zlib.crc32(sentence.encode())
    name = f"g-{number:08x}"
    made = _sound(api_version, kind, name, bound=bool(number & 1))
    made |= {"apiVersion": api_version, "kind": kind}
    home = {} if kind in CLUSTER_SCOPED else {"namespace": CULPRIT}
    made["metadata"] = {**made.get("metadata", {}), "name": name, **home}
    return made


def _sound(api_version: str, kind: str, name: str, *, bound: bool) -> Object:
    match kind:
        case "Pod":
            return _rich_pod(name, bound=bound)
        case "Node":
            return a_node(name)
        case "TYJob":
            return audit.tyjob(name)
        case "Job" if api_version.startswith("batch.volcano"):
            return audit.job(name)
        case "PodGroup":
            return {"spec": {"minMember": 1}}
        case "Queue":
            return {"spec": {"weight": 1}}
        case "Command":
            target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name}
            return {"action": "RestartJob", "target": target}
        case "ResourceClaim":
            request = {"name": "r", "exactly": {"deviceClassName": "c"}}
            return audit.claim(name, requests=[request])
        case _:
            return {"spec": {}}


def _rich_pod(name: str, *, bound: bool) -> Object:
    """A pod that uses much of what there is, and can be placed."""
    labels: dict[str, Any] = {"matchLabels": {"app": "nobody"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}
    wanted = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    spread = {**term, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {
        "nodeAffinity": {
            required: {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]},
            preferred: [{"weight": 1, "preference": {"matchExpressions": [wanted]}}],
        },
        "podAffinity": {preferred: [{"weight": 1, "podAffinityTerm": term}]},
        "podAntiAffinity": {required: [term]},
    }
    tolerations = [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]
    made = audit.pod(
        name, affinity=affinity, topologySpreadConstraints=[spread], tolerations=tolerations
    )
    if bound:
        made["spec"]["nodeName"] = "node-0"
        made["status"] = {"phase": "Running"}
    return made
