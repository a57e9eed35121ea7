"""The conditions and events a scheduler writes, in kube-scheduler's words."""

from __future__ import annotations

from arranger.api.effects import (
    Effect,
    ObjectRef,
    PatchPodStatus,
    PodCondition,
    PodRef,
    PublishEvent,
)
from arranger.api.objects import Pod
from arranger.engine.entity import Entity

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


def pod_ref(pod: Pod) -> PodRef:
    """This incarnation of a pod."""
    return PodRef(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def object_ref(pod: Pod) -> ObjectRef:
    """A pod as the subject of an Event."""
    meta = pod.metadata
    return ObjectRef("v1", "Pod", meta.namespace, meta.name, meta.uid)


def scheduled(entity: Entity) -> PublishEvent:
    """The pod has been bound."""
    return PublishEvent(
        regarding=object_ref(entity.pod.pod),
        reason="Scheduled",
        action="Binding",
        note=f"Successfully assigned {entity.pod.key} to {entity.node}",
        controller=entity.profile.scheduler_name,
    )


def failed(entity: Entity, reason: str, message: str, nominated: str | None = None) -> list[Effect]:
    """The pod could not be placed: an event, and the condition where it says something new.

    ``reason`` is :data:`UNSCHEDULABLE` or :data:`SCHEDULER_ERROR`.
    """
    pod = entity.pod.pod
    effects: list[Effect] = []
    if entity.told is None:
        entity.told = _standing(pod)
    if entity.told != (reason, message) or nominated is not None:
        entity.told = (reason, message)
        effects.append(
            PatchPodStatus(
                pod_ref(pod),
                PodCondition("PodScheduled", "False", reason, message, pod.metadata.generation),
                nominated,
            )
        )
    effects.append(
        PublishEvent(
            regarding=object_ref(pod),
            reason="FailedScheduling",
            action="Scheduling",
            note=message,
            type="Warning",
            controller=entity.profile.scheduler_name,
        )
    )
    return effects


def _standing(pod: Pod) -> tuple[str, str] | None:
    """What the pod's PodScheduled condition says now."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    return None
