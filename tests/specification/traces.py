"""Builds traces for the tests of the specification: what happens, one call a step."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.specification.trace import PODS, SOMEBODY, Step
from tests.specification.vocabulary.manifests import Object, name_of

RESOURCES = {
    "Pod": PODS,
    "Node": "/nodes",
    "Namespace": "/namespaces",
    "Queue": "scheduling.volcano.sh/queues",
    "PodGroup": "scheduling.sigs.k8s.io/podgroups",
    "NativePodGroup": "scheduling.k8s.io/podgroups",
    "Job": "batch.volcano.sh/jobs",
    "PyTorchJob": "kubeflow.org/pytorchjobs",
    "Gang": "arranger.io/gangs",
    "Reservation": "arranger.io/reservations",
    "Lease": "coordination.k8s.io/leases",
    "Event": "events.k8s.io/events",
    "ResourceClaim": "resource.k8s.io/resourceclaims",
    "PersistentVolumeClaim": "/persistentvolumeclaims",
    "PersistentVolume": "/persistentvolumes",
}
#: Kinds whose objects are in no namespace.
_EVERYWHERE = ("Node", "Queue", "Namespace", "PersistentVolume", "Reservation")
EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
TIME_IS_OVER = {**EVICTED, "reason": "MaximumExecutionTimeExceeded"}
NODE_IS_RESERVED = {**EVICTED, "reason": "NodeReserved"}


@dataclass
class Trace:
    """Steps, and the objects as they are after them."""

    steps: list[Step] = field(default_factory=list)
    now: float = 0.0
    _objects: dict[tuple[str, str], Object] = field(default_factory=dict)

    def has(self, *objects: Object) -> Trace:
        """Somebody creates these."""
        for each in objects:
            self._write(each["kind"], each, SOMEBODY)
        return self

    def passes(self, seconds: float) -> Trace:
        """Time goes by."""
        self.now += seconds
        return self

    def binds(self, name: str, node: str, *, by: str | None = "one") -> Trace:
        """A pod is bound."""
        return self.edits("Pod", name, {"spec": {"nodeName": node}}, by=by)

    def nominates(self, name: str, node: str) -> Trace:
        """A pod is promised room."""
        return self.edits("Pod", name, {"status": {"nominatedNodeName": node}}, by="one")

    def ends(self, name: str, ran: int, *, by: str | None = "one") -> Trace:
        """A pod that has run for so many seconds is told that its time is over, and deleted."""
        told = {"conditions": [TIME_IS_OVER], "startTime": "1970-01-01T00:00:00Z"}
        self.edits("Pod", name, {"status": told}, by=by)
        gone = f"1970-01-01T00:{ran // 60:02}:{ran % 60:02}Z"
        return self.edits("Pod", name, {"metadata": {"deletionTimestamp": gone}}, by=by)

    def empties(self, *names: str, by: str | None = "one") -> Trace:
        """Pods are told that their node is reserved, and their deletion begins."""
        for name in names:
            self.edits("Pod", name, {"status": {"conditions": [NODE_IS_RESERVED]}}, by=by)
            self.edits("Pod", name, {"metadata": {"deletionTimestamp": "now"}}, by=by)
        return self

    def evicts(self, *names: str, by: str | None = "one", told: bool = True) -> Trace:
        """Pods are told to make room, and their deletion begins."""
        for name in names:
            if told:
                self.edits("Pod", name, {"status": {"conditions": [EVICTED]}}, by=by)
            self.edits("Pod", name, {"metadata": {"deletionTimestamp": "now"}}, by=by)
        return self

    def edits(self, kind: str, name: str, change: Object, *, by: str | None = SOMEBODY) -> Trace:
        """An object is edited."""
        found = self._objects[kind, name if "/" in name else _full(kind, name)]
        self._write(kind, _merged(found, change), by)
        return self

    def deletes(self, kind: str, name: str, *, by: str | None = SOMEBODY) -> Trace:
        """An object is gone."""
        found = self._objects.pop((kind, _full(kind, name)))
        self._step("DELETED", kind, found, found, by)
        return self

    def _write(self, kind: str, obj: Object, by: str | None) -> None:
        key = kind, name_of(obj)
        before = self._objects.get(key)
        if before is None:
            made = datetime.fromtimestamp(self.now, UTC).isoformat()
            obj = _merged(obj, {"metadata": {"creationTimestamp": made}})
        self._objects[key] = obj
        self._step("ADDED" if before is None else "MODIFIED", kind, before, obj, by)

    def _step(
        self, what: Any, kind: str, before: Object | None, after: Object, by: str | None
    ) -> None:
        version = len(self.steps) + 1
        self.steps.append(Step(version, self.now, RESOURCES[kind], what, before, after, by))


def _full(kind: str, name: str) -> str:
    return name if kind in _EVERYWHERE else f"default/{name}"


def _merged(obj: Object, change: Object) -> Object:
    result = deepcopy(obj)
    for key, value in change.items():
        known = result.get(key)
        result[key] = _merged(known, value) if isinstance(known, dict) else value
    return result


def _object(kind: str, name: str, spec: Object | None = None, **more: Any) -> Object:
    """An object of ``default``, or of no namespace."""
    meta: Object = {"name": name, "uid": f"{kind}-{name}"}
    if "/" in _full(kind, name):
        meta["namespace"] = "default"
    for key in ("labels", "annotations", "ownerReferences"):
        if key in more:
            meta[key] = more.pop(key)
    version = RESOURCES[kind].partition("/")[0]
    return {
        "apiVersion": f"{version}/v1",
        "kind": kind,
        "metadata": meta,
        "spec": spec or {},
    } | more


def a_node(
    name: str,
    *,
    cpu: int = 4,
    pods: int = 110,
    offers: Object | None = None,
    labels: Object | None = None,
    **spec: Any,
) -> Object:
    """A node of 4 CPU."""
    room = {"cpu": str(cpu), "pods": str(pods), **(offers or {})}
    return _object("Node", name, spec, labels=labels or {}, status={"allocatable": room})


def a_pod(
    name: str,
    *,
    cpu: int = 1,
    priority: int = 0,
    asks: Object | None = None,
    labels: Object | None = None,
    annotations: Object | None = None,
    owner: Object | None = None,
    **spec: Any,
) -> Object:
    """A pod of ours, of one CPU."""
    requests = {"cpu": str(cpu), **(asks or {})}
    container = {"name": "c", "resources": {"requests": requests}}
    said = {"schedulerName": "arranger", "priority": priority, "containers": [container], **spec}
    pod = _object("Pod", name, said, labels=labels or {}, annotations=annotations or {}, status={})
    if owner is not None:
        same = {key: owner["metadata"][key] for key in ("name", "uid")}
        same |= {key: owner[key] for key in ("apiVersion", "kind")}
        pod["metadata"]["ownerReferences"] = [{**same, "controller": True}]
    return pod


def a_member(gang: str, number: int, least: int, **more: Any) -> Object:
    """A pod of a gang by annotations."""
    key = "gang.scheduling.koordinator.sh/"
    notes = {key + "name": gang, key + "min-available": str(least), **more.pop("annotations", {})}
    return a_pod(f"{gang}-{number}", annotations=notes, **more)


def a_queue(name: str, *, annotations: Object | None = None, **spec: Any) -> Object:
    """A Queue."""
    return _object("Queue", name, spec, annotations=annotations or {})


def a_reservation(name: str = "kept", *, start: int = 0, lasts: str = "1h", **spec: Any) -> Object:
    """A Reservation of node n1, from so many seconds after the start on."""
    begins = datetime.fromtimestamp(start, UTC).isoformat()
    said = {"nodes": {"names": ["n1"]}, "window": {"start": begins, "duration": lasts}}
    return _object("Reservation", name, {**said, "drainBefore": "10s", **spec})


def in_queue(name: str, service: str = "") -> Object:
    """The annotations of a pod in a queue."""
    said = {"volcano.sh/service.type": service} if service else {}
    return {"scheduling.volcano.sh/queue-name": name, **said}


def a_lease(holder: str) -> Object:
    """The Lease, held by somebody."""
    return _object("Lease", "arranger", {"holderIdentity": holder})


def preempted(victim: str, taker: str) -> Object:
    """The Event that tells for whom a pod left."""
    about = {"regarding": {"uid": f"Pod-{victim}"}, "related": {"uid": f"Pod-{taker}"}}
    return _object("Event", f"{victim}.1", reason="Preempted", **about)


def anything(kind: str, name: str, spec: Object | None = None, **more: Any) -> Object:
    """Another object."""
    return _object(kind, name, spec, **more)
