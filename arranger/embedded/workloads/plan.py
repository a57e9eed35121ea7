"""What a workload lacks: a plain decision, made from the workload and what it owns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from arranger.api.timestamps import second_time
from arranger.embedded import Object, copy_json

#: Label of pods of StatefulSets and DaemonSets.
REVISION_HASH: Final = "controller-revision-hash"
_ENDED: Final = ("Succeeded", "Failed")
#: Seconds until a pod that has ended is made again, doubled each time, and the most that becomes:
#: those of a kubelet's CrashLoopBackOff.
_BACK_OFF: Final = 10.0
_MAX_BACK_OFF: Final = 300.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write for one workload.

    Attributes:
        create: objects that it lacks.
        delete: objects that it no longer wants.
        change: (object, merge patch) of those that are to be otherwise, itself included.
        status: fields of its status; None takes one away.
        again_in: seconds after which to look again whatever happens; None if only changes count.
    """

    create: Sequence[Object] = ()
    delete: Sequence[Object] = ()
    change: Sequence[tuple[Object, Object]] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    again_in: float | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a decision depends on beside the workload and what it owns.

    Attributes:
        orphans: objects of its namespace that nothing controls and that it may adopt.
        owned_by: what another workload controls, by its uid.
        claims: the claims of volumes in its namespace, by name.
        revisions: of a StatefulSet: its templates so far, by the name of their revision.
    """

    now: datetime
    nodes: Sequence[Object] = ()
    orphans: Sequence[Object] = ()
    owned_by: Callable[[str], Sequence[Object]] = lambda _: ()
    claims: Mapping[str, Object] = field(default_factory=dict)
    revisions: dict[str, Object] = field(default_factory=dict)


@dataclass(slots=True)
class Restarts:
    """How often the pods of a workload have ended of late, and the back-off from that."""

    count: int = 0
    last: datetime | None = None

    def on_pod_ended(self, now: datetime) -> None:
        """One has ended."""
        if self.last is not None and (now - self.last).total_seconds() > 2 * _MAX_BACK_OFF:
            self.count = 0
        self.count += 1
        self.last = now

    def wait(self, now: datetime) -> float | None:
        """Seconds until the next pod may be made; None if that is now."""
        if self.last is None:
            return None
        return back_off(self.count, self.last, now, most=_MAX_BACK_OFF)


def back_off(count: int, last: datetime, now: datetime, *, most: float) -> float | None:
    """Seconds until the next pod may be made, after so many have ended; None if that is now.

    The wait from the ``last`` end on is doubled each time, up to ``most`` seconds.
    """
    whole = min(_BACK_OFF * 2 ** min(count - 1, 10), most)
    left = whole - (now - last).total_seconds()
    return left if left > 0 else None


def soonest(*waits: float | None) -> float | None:
    """The shortest of the waits that there are."""
    return min((wait for wait in waits if wait is not None), default=None)


def is_active(pod: Object) -> bool:
    """Whether it has neither ended nor been deleted."""
    return not has_ended(pod) and not is_deleted(pod)


def has_ended(pod: Object) -> bool:
    """Whether it is Succeeded or Failed."""
    return pod["status"].get("phase") in _ENDED


def is_deleted(obj: Object) -> bool:
    """Whether it is on its way out."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_terminating(pod: Object) -> bool:
    """Whether it is on its way out and has not ended."""
    return is_deleted(pod) and not has_ended(pod)


def created_at(obj: Object) -> str:
    """When it was created; such texts sort as times do."""
    return str(obj["metadata"]["creationTimestamp"])


def revision_of(pod: Object) -> str:
    """The revision of a StatefulSet or DaemonSet that it was made from; empty if it says none."""
    return str((pod["metadata"].get("labels") or {}).get(REVISION_HASH, ""))


def is_ready(pod: Object) -> bool:
    """Whether it has the condition Ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in _conditions(pod))


def available_in(pod: Object, workload: Object, now: datetime) -> float | None:
    """Seconds until it has been ready for ``minReadySeconds``, 0 if it has; None if it is not."""
    least = workload["spec"].get("minReadySeconds", 0)
    for each in _conditions(pod):
        if each["type"] == "Ready" and each["status"] == "True":
            since = each.get("lastTransitionTime") if least else None
            return max(0.0, seconds_left(least, since, now) if since else float(least))
    return None


def is_available(pod: Object, workload: Object, now: datetime) -> bool:
    """Whether it has been ready for ``minReadySeconds``."""
    return available_in(pod, workload, now) == 0


def next_available_in(pods: Sequence[Object], workload: Object, now: datetime) -> float | None:
    """Seconds until one more of the pods is available; None if none will be by itself."""
    return soonest(*(available_in(pod, workload, now) or None for pod in pods))


def _conditions(pod: Object) -> Sequence[Object]:
    return pod["status"].get("conditions") or ()


def seconds_left(seconds: float, since: str, now: datetime) -> float:
    """How many of the seconds from a time stamp on are still to come; below 0 if none are."""
    return seconds - (now - datetime.fromisoformat(since)).total_seconds()


def share(limit: object, whole: int, *, round_up: bool) -> int:
    """A number of pods that is given as one, or as per cent of all of them."""
    if isinstance(limit, int):
        return max(0, limit)
    text = str(limit).removesuffix("%")
    per_cent = int(text) if text.isdecimal() else 0
    exact = whole * per_cent
    return -(-exact // 100) if round_up else exact // 100


def condition(kind: str, status: str, reason: str, now: datetime) -> Object:
    """A condition that has changed now."""
    stamp = second_time(now)
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": stamp}


def pod_of(
    owner: Object,
    *,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """A pod of a workload's template; without a name the server makes one from the owner's."""
    template = owner["spec"]["template"]
    meta, own = template.get("metadata") or {}, owner["metadata"]
    named = {"name": name} if name else {"generateName": f"{own['name']}-"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **named,
            "namespace": own["namespace"],
            "labels": {**(meta.get("labels") or {}), **(labels or {})},
            "annotations": {**(meta.get("annotations") or {}), **(annotations or {})},
            "finalizers": list(meta.get("finalizers") or ()),
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": copy_json(template["spec"]),
    }


def template_hash(workload: Object) -> str:
    """What tells the pods of one template from those of the next."""
    template = json.dumps(workload["spec"]["template"], sort_keys=True)
    return hashlib.sha256(template.encode()).hexdigest()[:10]


def controller_reference(owner: Object) -> Object:
    """The owner reference of what a workload makes."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
