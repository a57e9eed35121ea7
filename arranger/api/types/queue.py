"""Volcano's Queue, with the fields that quotas are made of."""

from __future__ import annotations

from typing import Final

import msgspec

from arranger.api.types.core import LabelSelector, ObjectMeta, ResourceList, Struct

QUEUE_API_VERSION: Final = "scheduling.volcano.sh/v1beta1"


class Guarantee(Struct):
    """``spec.guarantee``."""

    resource: ResourceList = msgspec.field(default_factory=dict)


class NodeGroups(Struct):
    """Groups of nodes by name; those that are preferred are not looked at."""

    required: list[str] = msgspec.field(
        default_factory=list, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class QueueAffinity(Struct):
    """``spec.affinity``: the nodes a queue may use, or may not."""

    node_group_affinity: NodeGroups = msgspec.field(default_factory=NodeGroups)
    node_group_anti_affinity: NodeGroups = msgspec.field(default_factory=NodeGroups)


class QueueSpec(Struct):
    """``spec`` of a Queue."""

    weight: int = 1
    priority: int = 0
    reclaimable: bool = True
    capability: ResourceList = msgspec.field(default_factory=dict)
    deserved: ResourceList = msgspec.field(default_factory=dict)
    guarantee: Guarantee = msgspec.field(default_factory=Guarantee)
    parent: str = ""
    affinity: QueueAffinity = msgspec.field(default_factory=QueueAffinity)
    dequeue_strategy: str = ""
    dra: dict[str, object] = msgspec.field(default_factory=dict)
    namespace_selector: LabelSelector | None = None
    service_types: list[str] | None = None
    max_priority: int | None = None


class QueueStatus(Struct):
    """``status``: whether it takes work."""

    state: str = ""


class Queue(Struct):
    """A Queue of ``scheduling.volcano.sh``."""

    metadata: ObjectMeta
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)

    @property
    def name(self) -> str:
        """Its name; queues have no namespace."""
        return self.metadata.name
