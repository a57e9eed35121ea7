"""States of objects: what a fault leaves of them, and what of them their owners have written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from arranger.api.annotations import (
    CARD_NAME,
    CARD_QUOTA,
    CONFIG_MIRROR,
    PREEMPTABLE,
    QUEUE_NAME,
    SERVICE_TYPE,
)
from arranger.api.quantity import QuantityError, RawQuantity
from arranger.api.quarantine import QuarantineKey
from arranger.api.resource_requests import parse_resource_list
from arranger.api.settings.gang_membership import GANG_LABELS
from arranger.api.types.core import (
    Container,
    ContainerStatus,
    LabelSelector,
    Namespace,
    Node,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceList,
    ResourceRequirements,
)
from arranger.api.types.disruption_budgets import PodDisruptionBudget, PodDisruptionBudgetSpec
from arranger.api.types.packed import packed_labels, unpacked
from arranger.api.types.pod_groups import NativePodGroup, PodGroup, PodGroupSpec
from arranger.api.types.queue import Queue, QueueStatus
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


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What of a pod counts for others.

    Attributes:
        queue: the one that it is charged to; "" where it is not known.
        priority: the one that counts; None where the pod's own does.
        said: the annotations that count for it, of those that decide who may evict it.
        gang: ``namespace/name``; "" for a pod on its own.
        spared: whether nobody may evict it while it is set aside, as then it is not known what
            protects it: its gang, its queue, or the time that it asks for.
        alone: whether it is known to be in no gang.
    """

    queue: str = ""
    priority: int | None = None
    said: Mapping[str, str] = field(default_factory=dict)
    gang: str = ""
    spared: bool = True
    alone: bool = False

    def or_else(self, earlier: PodFacts) -> PodFacts:
        """These, and what was known earlier where they say nothing."""
        return PodFacts(
            self.queue or earlier.queue,
            self.priority if self.priority is not None else earlier.priority,
            {**earlier.said, **self.said},
            self.gang or earlier.gang,
            self.spared or earlier.spared,
            self.alone and earlier.alone,
        )


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


def holding_pod(pod: Pod, node: str, facts: PodFacts, *, bare: bool = False) -> Pod:
    """A pod that is for others what another is, which is set aside, and says nothing else.

    It takes the same of a node and of a queue, and its labels and its affinity keep away whom they
    kept away; ``bare``: it has neither. It is in no gang. What is no amount is left out: no kubelet
    can read it either, and so run the pod.
    """
    meta, spec = pod.metadata, pod.spec
    kept = type(meta)(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels={} if bare else _without(meta.labels, GANG_LABELS),
        annotations={**_mirror(meta), **facts.said, QUEUE_NAME: facts.queue},
        owner_references=meta.owner_references if facts.alone and not bare else [],
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
            priority=spec.priority if facts.priority is None else facts.priority,
            affinity=None if bare else spec.affinity,
            termination_grace_period_seconds=spec.termination_grace_period_seconds,
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


def _mirror(meta: ObjectMeta) -> dict[str, str]:
    """That a pod is its kubelet's, if it says so: nobody else can end it."""
    said = meta.annotations.get(CONFIG_MIRROR)
    return {} if said is None else {CONFIG_MIRROR: said}


def _readable(stated: ResourceRequirements) -> ResourceRequirements:
    return ResourceRequirements(requests=_amounts(stated.requests), limits=_amounts(stated.limits))


def _amounts(stated: ResourceList) -> ResourceList:
    found: dict[str, RawQuantity] = {}
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


def _without(labels: Mapping[str, str], some: Collection[str]) -> Mapping[str, str]:
    return packed_labels({key: value for key, value in labels.items() if key not in some})


def _undecoded(part: Any) -> Any:
    """A part that is decoded only as far as somebody reads it: the owners of pods have such."""
    if isinstance(part, msgspec.Raw):
        return bytes(part).decode(errors="replace")
    return unpacked(part)


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
        case Queue():  # it takes no pods, nor do those below it; who has a right to its pods has it
            if cards := obj.metadata.annotations.get(CARD_QUOTA):
                meta.annotations[CARD_QUOTA] = cards
            return Queue(meta, obj.spec, QueueStatus(state="Closed"))
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
        case Namespace():  # which Reservations and Queues its pods may use, and who is near them
            return Namespace(obj.metadata)
        case VolumeAttachment():
            return VolumeAttachment(meta, obj.spec)
        case _:
            return None
