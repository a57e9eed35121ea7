"""The conditions and events a scheduler writes, in kube-scheduler's words."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from arranger.api import event_reasons
from arranger.api.effects import (
    EVICTION_NOTICE,
    Effect,
    ObjectKey,
    ObjectReference,
    PatchPodStatus,
    PodCondition,
    PublishEvent,
)
from arranger.api.listing import names_within, namespace_of
from arranger.api.settings.queue_annotations import invalid_values
from arranger.api.types.core import OwnerReference, Pod
from arranger.api.types.pod_groups import AnyPodGroup, VolcanoPodGroup, WorkloadGroup
from arranger.api.types.queue import Queue
from arranger.api.types.reservation import Reservation
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.gangs.gang import Gang

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
#: Seconds between two errors that are written to a pod's condition, with others in between.
_FIRST_PAUSE: Final = 15.0
_LAST_PAUSE: Final = 600.0
#: The reason of the conditions of victims.
PREEMPTION = "PreemptionByScheduler"
#: Victims that an event names before it only counts.
_MAX_NAMED_VICTIMS = 5
#: Characters of a condition's message: what pods say of themselves may come back in it.
_MAX_MESSAGE = 4096


def pod_key(pod: Pod) -> ObjectKey:
    """This incarnation of a pod."""
    return ObjectKey(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def object_ref(pod: Pod) -> ObjectReference:
    """A pod as the subject of an Event."""
    meta = pod.metadata
    return ObjectReference("v1", "Pod", meta.namespace, meta.name, meta.uid)


def scheduled(member: QueuedPod) -> PublishEvent:
    """The pod has been bound."""
    note = f"Successfully assigned {member.pod.key} to {member.node}"
    return _event(member, event_reasons.SCHEDULED, "Binding", note)


def scheduling_failed(
    member: QueuedPod,
    reason: str,
    message: str,
    nominated: str | None = None,
    *,
    now: float | None = None,
) -> list[Effect]:
    """The pod could not be placed: an event, and the condition where it says something new.

    What the server has refused to write of the status is written again, too. ``reason`` is
    :data:`UNSCHEDULABLE` or :data:`SCHEDULER_ERROR`; the latter is written less and less often
    where others come in between, if the time is given.
    """
    pod = member.pod.pod
    effects: list[Effect] = []
    if len(message) > _MAX_MESSAGE:
        message = message[:_MAX_MESSAGE] + " ..."
    if member.status_refused:
        member.status_refused = False
        nominated = member.shown_node if nominated is None else nominated
    if member.last_condition is None:
        member.last_condition = _current_condition(pod)
    says_new = member.last_condition != (reason, message)
    if says_new and reason == SCHEDULER_ERROR and now is not None:
        says_new = _may_tell_error(member, now)
    if says_new or nominated is not None:
        member.last_condition = (reason, message)
        if nominated is not None:
            member.show_node(nominated)
        generation = pod.metadata.generation
        condition = PodCondition("PodScheduled", "False", reason, message, generation)
        effects.append(PatchPodStatus(pod_key(pod), condition, nominated))
    effects.append(_warning(member, event_reasons.FAILED_SCHEDULING, message))
    return effects


def _may_tell_error(member: QueuedPod, now: float) -> bool:
    """Whether an error may be written to a pod's condition now, and if so that it is."""
    at, pause = member.error_told or (now - _FIRST_PAUSE, _FIRST_PAUSE)
    if now < at + pause:
        return False
    quiet = now >= at + 2 * _LAST_PAUSE
    member.error_told = now, _FIRST_PAUSE if quiet else min(2 * pause, _LAST_PAUSE)
    return True


def set_aside(pod: Pod, message: str) -> list[Effect]:
    """A pod without a node has made our code raise, and does not wait with us for now."""
    generation = pod.metadata.generation
    condition = PodCondition("PodScheduled", "False", SCHEDULER_ERROR, message, generation)
    event = PublishEvent(
        regarding=object_ref(pod),
        reason=event_reasons.FAILED_SCHEDULING,
        action="Scheduling",
        note=message,
        type="Warning",
        controller=pod.spec.scheduler_name,
    )
    return [PatchPodStatus(pod_key(pod), condition), event]


def nominated(member: QueuedPod, node: str) -> PatchPodStatus:
    """The node that is kept for the pod; "" for none."""
    member.show_node(node)
    return PatchPodStatus(pod_key(member.pod.pod), nominated_node=node)


def skipped_deleting(pod: Pod) -> PublishEvent:
    """The pod is not tried since it is being deleted."""
    return PublishEvent(
        regarding=object_ref(pod),
        reason=event_reasons.FAILED_SCHEDULING,
        action="Scheduling",
        note=f"skip schedule deleting pod: {pod.key}",
        type="Warning",
        controller=pod.spec.scheduler_name,
    )


def gang_timed_out(member: QueuedPod, message: str) -> PublishEvent:
    """The pod's gang was incomplete for too long.

    A reason of its own, so that what the pod waits for next does not take its place.
    """
    return _warning(member, event_reasons.GANG_TIMED_OUT, message)


def plugin_events(member: QueuedPod, events: Sequence[tuple[str, str]]) -> list[Effect]:
    """Events of their own that plugins want a pod to have: (reason, text)."""
    return [_warning(member, reason, text) for reason, text in events]


def preempted(
    victim: Pod, by: Pod, node: str, controller: str, *, group: str, queue: str, stays: bool
) -> PublishEvent:
    """A victim has to leave a node for a pod, or for the gang group ``group`` of that pod.

    In kube-scheduler's words, where it knows the case: by the uid alone where the preemptor is of
    another namespace. ``queue``: the preemptor's, if that is not the victim's; the preemptor is
    then named as well. ``stays``: the victim is not deleted, since it was not bound yet.
    """
    namespace, uid = victim.metadata.namespace, by.metadata.uid
    known = by.metadata.namespace == namespace
    if group:
        named = all(namespace_of(gang) == namespace for gang in group.split(","))
        preemptor = f"gang {group}" if named else f"the gang of pod {uid}"
    else:
        preemptor = f"pod {uid}" + (f" ({by.key})" if queue and known else "")
    preemptor += f" of queue {queue}" if queue else ""
    return PublishEvent(
        regarding=object_ref(victim),
        reason=event_reasons.PREEMPTED,
        action="Preempting",
        note=f"Preempted by {preemptor} on node {node}" + (f" (in {controller} memory)." * stays),
        related=object_ref(by) if known else None,
        controller=controller,
    )


def preempting(member: QueuedPod, victims: Sequence[PodInfo]) -> PublishEvent:
    """A pod, or its gang, makes others leave: the other side of ``Preempted``."""
    namespace = member.pod.pod.metadata.namespace
    known = [victim for victim in victims if victim.namespace == namespace]
    first, others = [pod.key for pod in known[:_MAX_NAMED_VICTIMS]], len(victims) - len(known)
    names = names_within(first, len(known), others, _MAX_NAMED_VICTIMS, "pod")
    return _event(member, event_reasons.PREEMPTING, "Preempting", f"Makes room by evicting {names}")


def disruption_condition(controller: str, *, group: bool) -> PodCondition:
    """What is written to a victim before it is deleted, so that its owner knows why."""
    return PodCondition(
        "DisruptionTarget",
        "True",
        PREEMPTION,
        f"{controller}: preempting to accommodate a higher priority pod{'group' if group else ''}",
    )


def run_time_condition(pod: Pod, seconds: float, queue: str) -> PodCondition:
    """What is written to a pod before it is deleted for its maximum run time.

    ``queue``: whose limit it is; "" for the pod's own.
    """
    text = f"{pod.spec.scheduler_name}: {_ran(seconds, queue)}"
    return PodCondition("DisruptionTarget", "True", event_reasons.MAX_RUN_TIME, text)


def ran_too_long(pod: Pod, seconds: float, queue: str) -> PublishEvent:
    """A pod is deleted since it has run for its maximum run time."""
    return _deleting(pod, event_reasons.MAX_RUN_TIME, f"It {_ran(seconds, queue)}")


def reserved_condition(pod: Pod, text: str) -> PodCondition:
    """What is written to a pod before it is deleted since its node is reserved for others.

    ``text``: for how long, and by which Reservation.
    """
    said = f"{pod.spec.scheduler_name}: its node is {text}"
    return PodCondition("DisruptionTarget", "True", event_reasons.NODE_RESERVED, said)


def node_reserved(pod: Pod, text: str) -> PublishEvent:
    """A pod is deleted since its node is reserved for others."""
    return _deleting(pod, event_reasons.NODE_RESERVED, f"It has to leave: its node is {text}")


def incomplete_gang_condition(pod: Pod, seconds: float) -> PodCondition:
    """What is written to a bound member before it is deleted since its gang is not complete."""
    said = f"{pod.spec.scheduler_name}: {_incomplete(seconds)}"
    return PodCondition("DisruptionTarget", "True", event_reasons.GANG_TIMED_OUT, said)


def incomplete_gang(pod: Pod, seconds: float) -> PublishEvent:
    """A bound member is deleted since its gang is not complete."""
    text = f"It has to leave: {_incomplete(seconds)}"
    return _deleting(pod, event_reasons.GANG_TIMED_OUT, text)


def _incomplete(seconds: float) -> str:
    return f"its gang did not become complete within {seconds:g}s"


def _deleting(pod: Pod, reason: str, note: str) -> PublishEvent:
    """A pod that has its node is deleted, for nobody in particular."""
    about, controller = object_ref(pod), pod.spec.scheduler_name
    return PublishEvent(about, reason, "Deleting", note, "Warning", controller=controller)


def _ran(seconds: float, queue: str) -> str:
    whose = f"of queue {queue}" if queue else "of its annotation"
    return f"has run for the maximum of {seconds:g}s {whose}"


def is_being_evicted(pod: Pod) -> bool:
    """Whether a scheduler has written to a pod that it is a victim, and it has begun to leave.

    Or has been given notice that it will have to.
    """
    conditions = pod.status.conditions
    types = [c.type for c in conditions if c.reason == PREEMPTION and c.status == "True"]
    if not types:
        return False
    leaving = pod.metadata.deletion_timestamp is not None and "DisruptionTarget" in types
    return leaving or EVICTION_NOTICE in types


def invalid_annotations(
    pod: Pod, before: Pod | None, policies: Container[str], *, in_gang: bool
) -> list[Effect]:
    """What is ignored of a pod's annotations, unless that was so before it was edited.

    ``policies`` are the placement policies of its profile.
    """
    if before is not None and before.metadata.annotations == pod.metadata.annotations:
        return []
    problems = invalid_values(pod, policies, in_gang=in_gang)
    if not problems:
        return []
    if before is not None and problems == invalid_values(before, policies, in_gang=in_gang):
        return []
    about, controller = object_ref(pod), pod.spec.scheduler_name
    reason, note = event_reasons.INVALID_ANNOTATION, _ignored(problems)
    return [PublishEvent(about, reason, "Scheduling", note, "Warning", controller=controller)]


def limited_by_queue(member: QueuedPod, text: str) -> PublishEvent:
    """The pod counts for less than it claims, since its queue does not believe more."""
    return _warning(member, event_reasons.LIMITED_BY_QUEUE, text)


def stays_in_queue(pod: Pod, queue: str, why: str) -> PublishEvent:
    """A pod on a node names a queue that does not take it."""
    text = f"it stays in Queue <{queue}>: {why}"
    return _object_warning(object_ref(pod), event_reasons.STAYS_IN_QUEUE, text)


def invalid_gang_annotations(pod: Pod, problems: Sequence[str]) -> PublishEvent:
    """Annotations of a pod about its gang cannot be read; the others count."""
    return _object_warning(object_ref(pod), event_reasons.INVALID_GANG, _ignored(problems))


def invalid_pod_group(group: AnyPodGroup, problems: Sequence[str]) -> PublishEvent:
    """Fields of a PodGroup cannot be read; the others count."""
    return pod_group_event(group, event_reasons.INVALID_GANG, _ignored(problems))


def invalid_workload(
    owner: OwnerReference, namespace: str, problems: Sequence[str]
) -> PublishEvent:
    """Fields of what owns pods cannot be read; the others count for their gang."""
    return _object_warning(
        _owner_ref(owner, namespace), event_reasons.INVALID_GANG, _ignored(problems)
    )


def pod_group_event(group: AnyPodGroup, reason: str, text: str) -> PublishEvent:
    """A warning about a PodGroup to its owner."""
    return _object_warning(_pod_group_ref(group), reason, text)


def _pod_group_ref(group: AnyPodGroup) -> ObjectReference:
    meta = group.metadata
    if isinstance(group, WorkloadGroup):
        return _owner_ref(group.owner, meta.namespace)
    return ObjectReference(group.api_version, "PodGroup", meta.namespace, meta.name, meta.uid)


def gang_unschedulable(gang: Gang, message: str) -> list[Effect]:
    """A gang cannot be placed: Volcano's event on its PodGroup, where that says something new.

    The owners of other PodGroups look at their pods, or at the status.
    """
    group = gang.pod_group
    if not isinstance(group, VolcanoPodGroup) or gang.told == (group.metadata.uid, message):
        return []
    gang.told = group.metadata.uid, message
    return [pod_group_event(group, event_reasons.UNSCHEDULABLE, message)]


def gang_scheduled(gang: Gang) -> list[Effect]:
    """A member was bound: Volcano's event on the PodGroup, once the gang has its minimum."""
    group, note = gang.pod_group, "pod group is ready"
    if not isinstance(group, VolcanoPodGroup):
        return []
    if gang.told == (group.metadata.uid, note) or not gang.has_minimum:
        return []
    gang.told = group.metadata.uid, note
    return [PublishEvent(_pod_group_ref(group), event_reasons.SCHEDULED, "Binding", note)]


def invalid_queue(queue: Queue, problems: Sequence[str]) -> PublishEvent:
    """Fields of a Queue cannot be read; the others count."""
    api_version, uid = "scheduling.volcano.sh/v1beta1", queue.metadata.uid
    about = ObjectReference(api_version, "Queue", "", queue.name, uid)
    return _object_warning(about, event_reasons.INVALID_QUEUE, _ignored(problems))


def invalid_reservation(stated: Reservation, problem: str) -> PublishEvent:
    """A Reservation reserves nothing."""
    about = _reservation_ref(stated)
    return _object_warning(about, event_reasons.INVALID_RESERVATION, f"Ignored: {problem}")


def refused_reservation_status(stated: Reservation, why: str) -> PublishEvent:
    """The server refuses the status of a Reservation."""
    text = f"Its status cannot be written: {why[:_MAX_MESSAGE]}"
    return _object_warning(_reservation_ref(stated), event_reasons.FAILED_STATUS, text)


def _reservation_ref(stated: Reservation) -> ObjectReference:
    meta = stated.metadata
    return ObjectReference("arranger.io/v1alpha1", "Reservation", "", meta.name, meta.uid)


def _owner_ref(owner: OwnerReference, namespace: str) -> ObjectReference:
    return ObjectReference(owner.api_version, owner.kind, namespace, owner.name, owner.uid)


def _event(member: QueuedPod, reason: str, action: str, note: str) -> PublishEvent:
    about, controller = object_ref(member.pod.pod), member.profile.scheduler_name
    return PublishEvent(about, reason, action, note, controller=controller)


def _warning(member: QueuedPod, reason: str, note: str) -> PublishEvent:
    about, controller = object_ref(member.pod.pod), member.profile.scheduler_name
    return PublishEvent(about, reason, "Scheduling", note, "Warning", controller=controller)


def _object_warning(about: ObjectReference, reason: str, note: str) -> PublishEvent:
    return PublishEvent(about, reason, "Scheduling", note, "Warning")


def _ignored(problems: Sequence[str]) -> str:
    return f"Ignored: {'; '.join(problems)}"


def _current_condition(pod: Pod) -> tuple[str, str] | None:
    """What the pod's PodScheduled condition says now."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    return None
