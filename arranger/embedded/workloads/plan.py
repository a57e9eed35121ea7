"""What a workload lacks: a plain decision, made from the workload and what it owns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from arranger.embedded import Object

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
        delete: pods and claims that it no longer wants.
        scale: (ReplicaSet, replicas) of those that are to have another number of them.
        status: fields of its status.
        again_in: seconds after which to look again whatever happens; None if only changes count.
    """

    create: Sequence[Object] = ()
    delete: Sequence[Object] = ()
    scale: Sequence[tuple[Object, int]] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    again_in: float | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a decision depends on beside the workload and what it owns."""

    now: datetime
    nodes: Sequence[Object]


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


def is_active(pod: Object) -> bool:
    """Whether it has neither ended nor been deleted."""
    return not has_ended(pod) and not pod["metadata"].get("deletionTimestamp")


def has_ended(pod: Object) -> bool:
    """Whether it is Succeeded or Failed."""
    return pod["status"].get("phase") in _ENDED


def is_ready(pod: Object) -> bool:
    """Whether it is active and has the condition Ready."""
    conditions = pod["status"].get("conditions") or ()
    ready = any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)
    return ready and is_active(pod)


def replica_status(pods: Sequence[Object], **more: Any) -> Object:
    """The counts that the status of every workload has."""
    ready = sum(map(is_ready, pods))
    return {"replicas": len(pods), "readyReplicas": ready, "availableReplicas": ready, **more}


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
        "spec": deepcopy(template["spec"]),
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
