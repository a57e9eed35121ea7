"""What the owner of a pod reads that has to leave: a condition, an annotation, and Events."""

from __future__ import annotations

from typing import Final, Literal

from arranger.api import event_reasons
from arranger.api.annotations import CHECKPOINTED_AT, EVICTION_DEADLINE
from arranger.api.effects import (
    EVICTION_NOTICE,
    AnnotatePod,
    Effect,
    PatchPodStatus,
    PodCondition,
    PublishEvent,
)
from arranger.api.timestamps import from_unix, second_time
from arranger.api.types.core import Pod, StatusCondition
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.pod_events import PREEMPTION, object_ref, pod_key
from arranger.quota.ledger import QuotaLedger

#: The reason of the condition once it is not true any more.
WITHDRAWN: Final = "PlaceNotNeeded"
_WITHDRAWN_TEXT: Final = "nobody needs its place any more: it stays"


def foreign_queue(ledger: QuotaLedger, victim: PodInfo, preemptor: PodInfo) -> str:
    """The preemptor's queue where that is not the victim's, and queues count; else ""."""
    if not ledger.active:
        return ""
    queue = ledger.queue_name(preemptor)
    return queue if queue != ledger.queue_name(victim) else ""


def notice_of(pod: Pod, reason: str = PREEMPTION) -> StatusCondition | None:
    """The condition of a pod that has been given notice for this reason; None if it has not."""
    for each in pod.status.conditions:
        if (each.type, each.status, each.reason) == (EVICTION_NOTICE, "True", reason):
            return each
    return None


def is_withdrawn(pod: Pod) -> bool:
    """Whether a pod that was given notice is told that it may stay."""
    conditions = pod.status.conditions
    return any((each.type, each.status) == (EVICTION_NOTICE, "False") for each in conditions)


def for_taker(node: str, deadline: float) -> str:
    """A pod is to leave its node for another, not before the deadline (seconds since 1970)."""
    return (
        f"has to leave node {node} for a pod that may take its place; it is deleted at "
        f"{_moment(deadline)}, or once {CHECKPOINTED_AT} says that it has saved its state"
    )


def for_reservation(node: str, name: str, deadline: float) -> str:
    """A pod is to leave its node when the window of a Reservation opens."""
    return (
        f"has to leave node {node}, which Reservation {name} keeps for others; it is deleted at "
        f"{_moment(deadline)}"
    )


def condition(pod: Pod, text: str, reason: str = PREEMPTION) -> PatchPodStatus:
    """The notice of one of these texts."""
    said = f"{pod.spec.scheduler_name}: {text}"
    return PatchPodStatus(pod_key(pod), PodCondition(EVICTION_NOTICE, "True", reason, said))


def told(pod: Pod, text: str, deadline: float) -> list[Effect]:
    """The deadline for the pod's own containers, and the Event for its owner."""
    annotation = AnnotatePod(pod_key(pod), {EVICTION_DEADLINE: _moment(deadline)})
    return [annotation, _event(pod, event_reasons.EVICTION_NOTICE, f"It {text}", "Warning")]


def withdrawn(pod: Pod, why: str = _WITHDRAWN_TEXT) -> list[Effect]:
    """The pod stays."""
    text = f"{pod.spec.scheduler_name}: {why}"
    condition = PodCondition(EVICTION_NOTICE, "False", WITHDRAWN, text)
    return [
        PatchPodStatus(pod_key(pod), condition),
        AnnotatePod(pod_key(pod), {EVICTION_DEADLINE: None}),
        _event(pod, event_reasons.EVICTION_WITHDRAWN, why[0].upper() + why[1:], "Normal"),
    ]


def _moment(at: float) -> str:
    return second_time(from_unix(at))


def _event(pod: Pod, reason: str, note: str, kind: Literal["Normal", "Warning"]) -> PublishEvent:
    about, controller = object_ref(pod), pod.spec.scheduler_name
    return PublishEvent(about, reason, "Evicting", note, kind, controller=controller)
