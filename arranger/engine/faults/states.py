"""States of objects: what a fault leaves of them, and what of them their owners have written."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from arranger.api.annotations import (
    CARD_NAME,
    CARD_QUOTA,
    PREEMPTABLE,
    QUEUE_NAME,
    SERVICE_TYPE,
)
from arranger.api.quantity import QuantityError
from arranger.api.quarantine import QuarantineKey
from arranger.api.resource_requests import parse_resource_list
from arranger.api.settings.gang_membership import gang_membership
from arranger.api.types.core import (
    Container,
    ContainerStatus,
    LabelSelector,
    Node,
    Pod,
    PodSpec,
    PodStatus,
    ResourceList,
    ResourceRequirements,
)
from arranger.api.types.disruption_budgets import PodDisruptionBudget, PodDisruptionBudgetSpec
from arranger.api.types.pod_groups import NativePodGroup, PodGroup, PodGroupSpec
from arranger.api.types.queue import Queue, QueueSpec, QueueStatus
from arranger.api.types.resource_claims import ResourceClaim
from arranger.api.types.storage import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    VolumeAttachment,
    VolumeNodeResources,
)

T = TypeVar("T")

#: What the annotations of a PodGroup say that counts for its pods.
_KEPT: Final = (CARD_NAME, PREEMPTABLE, SERVICE_TYPE)


class LeftOutError(Exception):
    """What was held was wrong after an object had been taken in and had made our code raise."""


def succeeds(hear: Callable[[T, float], None], obj: T, now: float) -> bool:
    """Whether a handler can be told of an object; if not, the check of the books will tell."""
    try:
        hear(obj, now)
    except Exception:
        return False
    return True


def key_of_pod(meta: Any) -> QuarantineKey:
    """The key of the pod with this metadata."""
    return "Pod", meta.namespace, meta.name


def on_node(pod: Pod, node: str) -> Pod:
    """A pod as it will be seen when it is bound to a node."""
    return Pod(pod.metadata, msgspec.structs.replace(pod.spec, node_name=node), pod.status)


def holding_pod(pod: Pod, node: str, queue: str) -> Pod:
    """A pod that takes what another takes of a node and of a queue, and says nothing else.

    What is no amount is left out: no kubelet can read it either, and so run the pod.
    """
    meta, spec = pod.metadata, pod.spec
    kept = type(meta)(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        annotations={QUEUE_NAME: queue, PREEMPTABLE: _preemptable(pod)},
    )
    return Pod(
        kept,
        PodSpec(
            containers=[
                Container(name=c.name, resources=_readable(c.resources), ports=c.ports)
                for c in spec.containers
            ],
            init_containers=[
                Container(
                    name=c.name,
                    resources=_readable(c.resources),
                    ports=c.ports,
                    restart_policy=c.restart_policy,
                )
                for c in spec.init_containers
            ],
            node_name=node,
            scheduler_name=spec.scheduler_name,
            priority=spec.priority,
            overhead=_amounts(spec.overhead),
            resources=None if spec.resources is None else _readable(spec.resources),
            volumes=spec.volumes,
        ),
        _readable_status(pod.status),
    )


def _readable_status(status: PodStatus) -> PodStatus:
    return msgspec.structs.replace(
        status,
        container_statuses=[_reported(each) for each in status.container_statuses],
        init_container_statuses=[_reported(each) for each in status.init_container_statuses],
        allocated_resources=_amounts(status.allocated_resources),
        resources=None if status.resources is None else _readable(status.resources),
    )


def _reported(status: ContainerStatus) -> ContainerStatus:
    return msgspec.structs.replace(
        status,
        allocated_resources=_amounts(status.allocated_resources),
        resources=None if status.resources is None else _readable(status.resources),
    )


def _preemptable(pod: Pod) -> str:
    """What a pod says itself; nobody evicts one whose PodGroup may say that nobody is to."""
    meta, grouped = pod.metadata, True
    with suppress(Exception):
        grouped = gang_membership(pod) is not None
    own = meta.annotations.get(PREEMPTABLE) or meta.labels.get(PREEMPTABLE)
    return own or ("false" if grouped else "")


def _readable(stated: ResourceRequirements) -> ResourceRequirements:
    return ResourceRequirements(requests=_amounts(stated.requests), limits=_amounts(stated.limits))


def _amounts(stated: ResourceList) -> ResourceList:
    found: ResourceList = {}
    for name, amount in stated.items():
        with suppress(QuantityError):
            parse_resource_list({name: amount})
            found[name] = amount
    return found


def content_of(obj: Any) -> Hashable:
    """Stands for what of an object its owner has written: equal for states that differ in nothing
    else. An object may have a megabyte, of which nothing is kept.
    """
    state = msgspec.to_builtins(obj, enc_hook=_undecoded)
    state["metadata"].pop("resourceVersion", None)
    state["metadata"].pop("resource_version", None)
    if not isinstance(obj, Node):  # of which it is its kubelet's, and no write of ours
        status = state.pop("status", None)
        if isinstance(obj, Pod):
            state["phase"] = status.get("phase", "")
    return blake2b(msgspec.json.encode(state), digest_size=16).digest()


def _undecoded(part: msgspec.Raw) -> str:
    """A part that is decoded only as far as somebody reads it: the owners of pods have such."""
    return bytes(part).decode(errors="replace")


def stand_in(obj: Any) -> Any:
    """What counts in place of an object that is set aside; None where nothing does.

    What it protects stays protected, and what it holds stays taken.
    """
    meta = msgspec.structs.replace(obj.metadata, labels={}, annotations={})
    match obj:
        case PodDisruptionBudget():
            everything = PodDisruptionBudgetSpec(selector=LabelSelector())
            return PodDisruptionBudget(meta, everything)
        case ResourceClaim() if obj.status.allocation is not None:
            return ResourceClaim(meta, status=obj.status)
        case Queue():  # it takes no pods, nor do those below it, and what it is guaranteed is kept
            spec = obj.spec
            spec = QueueSpec(
                parent=spec.parent, guarantee=spec.guarantee, capability=spec.capability
            )
            if cards := obj.metadata.annotations.get(CARD_QUOTA):
                meta.annotations[CARD_QUOTA] = cards
            return Queue(meta, spec, QueueStatus(state="Closed"))
        case PodGroup():
            stated = obj.spec
            kept = {key: said for key, said in obj.metadata.annotations.items() if key in _KEPT}
            meta = msgspec.structs.replace(meta, annotations=kept)
            return type(obj)(
                meta,
                PodGroupSpec(
                    min_member=stated.min_member,
                    min_task_member=stated.min_task_member,
                    queue=stated.queue,
                    priority_class_name=stated.priority_class_name,
                ),
                obj.status,
            )
        case NativePodGroup():
            return NativePodGroup(meta, obj.spec)
        case CSINode():
            none = VolumeNodeResources(count=0)
            drivers = [CSINodeDriver(each.name, none) for each in obj.spec.drivers]
            return CSINode(meta, CSINodeSpec(drivers))
        case VolumeAttachment():
            return VolumeAttachment(meta, obj.spec)
        case _:
            return None
