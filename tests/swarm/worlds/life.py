"""What goes on in any cluster that is in use, and is about no pod that waits.

Nodes send heartbeats, pull images and are annotated; Services, ReplicaSets and budgets come, change
and go; a PodGroup is given another queue. None of it may void what is known of others, and what is
known of those whom it does concern must change with it. Some gangs by PodGroups have twins: their
pods are alike, and their queues may differ.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.builders import Manifest
from tests.swarm.world import Event, Object, an_event

#: Seconds between two of these, in the mean.
_EVERY: Final = 0.7
#: What budgets and Services select by: the label that pods of these worlds have, if any.
_APPS: Final = ("x", "y", "z")
#: The image of these worlds' pods, and others.
_IMAGES: Final = ("img", "other", "third")
_SIZES: Final = (5_000_000, 300_000_000, 900_000_000)
_VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
_GROUP: Final = "scheduling.k8s.io/group-name"
#: How many of the PodGroups of Volcano have a twin.
_TWINS: Final = 0.4


def some_life(
    rng: random.Random, objects: Sequence[Manifest], arrivals: Sequence[Event], seconds: float
) -> list[Event]:
    """What goes on.

    Args:
        objects: what is there at first.
        arrivals: what happens besides.
    """
    return _Life(rng, objects, arrivals, seconds).events()


class _Life:
    def __init__(
        self,
        rng: random.Random,
        objects: Sequence[Manifest],
        arrivals: Sequence[Event],
        seconds: float,
    ) -> None:
        self._rng, self._seconds = rng, seconds
        self._nodes = _names(objects, "Node")
        self._queues = _names(objects, "Queue")
        self._spaces = ["default", *(n for n in _names(objects, "Namespace") if n != "default")]
        self._groups = [
            (event.at, event.object)
            for event in arrivals
            if event.does == "create" and event.object["kind"] == "PodGroup"
            if event.object["apiVersion"] == _VOLCANO
        ]
        self._members = [
            event.object
            for event in arrivals
            if event.does == "create" and event.object["kind"] == "Pod"
            if _GROUP in event.object["metadata"].get("annotations", {})
        ]
        self._events: list[Event] = []

    def events(self) -> list[Event]:
        """All of it, by time."""
        things: list[tuple[int, Callable[[float], None]]] = [
            (8, self._heartbeat),
            (3, self._pull),
            (1, self._annotate),
            (3, self._budget),
            (1, self._service),
            (1, self._replica_set),
        ]
        if self._groups and self._queues:
            things.append((4, self._move_group))
        for came, group in self._groups:
            if self._rng.random() < _TWINS:
                self._twin(came + self._rng.choice([0.0, 1.0, 10.0]), group)
        weights, does = zip(*things, strict=True)
        at = 1.0 + self._rng.expovariate(1 / _EVERY)
        while at < self._seconds:
            self._rng.choices(does, weights)[0](at)
            at += self._rng.expovariate(1 / _EVERY)
        return sorted(self._events, key=lambda event: event.at)

    def _twin(self, at: float, group: Manifest) -> None:
        """A gang with pods like those of another, under other names."""
        name, namespace = group["metadata"]["name"], group["metadata"]["namespace"]
        spec = dict(group["spec"])
        if self._queues:
            spec["queue"] = self._rng.choice(self._queues)
        self._add(at, "create", {**_renamed(group, f"{name}-twin"), "spec": spec})
        for pod in self._members:
            meta = pod["metadata"]
            if meta["annotations"][_GROUP] != name or meta["namespace"] != namespace:
                continue
            if pod["spec"].get("volumes") or pod["spec"].get("resourceClaims"):
                continue
            made = _renamed(pod, f"{meta['name']}-twin")
            made["metadata"]["annotations"] = {**meta["annotations"], _GROUP: f"{name}-twin"}
            self._add(at + self._rng.choice([0.0, 0.0, 0.5]), "create", made)

    def _heartbeat(self, at: float) -> None:
        beat = f"2026-01-01T{int(at) // 3600:02}:{int(at) // 60 % 60:02}:{int(at) % 60:02}Z"
        conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": beat}]
        self._say(at, {"conditions": conditions})

    def _pull(self, at: float) -> None:
        """A node has other images than before."""
        rng = self._rng
        chosen = rng.sample(_IMAGES, rng.randint(0, len(_IMAGES)))
        self._say(at, {"images": [{"names": [i], "sizeBytes": rng.choice(_SIZES)} for i in chosen]})

    def _annotate(self, at: float) -> None:
        """As an agent of the node does."""
        node = self._a_node()
        note = {"annotations": {"agent": str(self._rng.randrange(9))}}
        self._add(at, "patch", node, change={"metadata": note})

    def _a_node(self) -> Manifest:
        head = {"apiVersion": "v1", "kind": "Node"}
        return {**head, "metadata": {"name": self._rng.choice(self._nodes)}}

    def _say(self, at: float, status: Object) -> None:
        self._add(at, "patch", self._a_node(), part="status", change={"status": status})

    def _budget(self, at: float) -> None:
        rng = self._rng
        budget = self._one("policy/v1", "PodDisruptionBudget", "life", 3)
        selector = {"matchLabels": {"app": rng.choice(_APPS)}}
        budget["spec"] = {"minAvailable": 1, "selector": selector}
        budget["status"] = {"disruptionsAllowed": rng.randint(0, 2), "expectedPods": 1}
        self._comes_or_goes(at, budget)

    def _service(self, at: float) -> None:
        service = self._one("v1", "Service", "life", 2)
        service["spec"] = {"selector": {"app": self._rng.choice(_APPS)}, "ports": [{"port": 80}]}
        self._comes_or_goes(at, service)

    def _replica_set(self, at: float) -> None:
        """It wants no pods; those that it selects are spread by default."""
        made = self._one("apps/v1", "ReplicaSet", "life", 2)
        labels = {"app": self._rng.choice(_APPS)}
        template: Object = {"metadata": {"labels": labels}, "spec": {"containers": []}}
        template["spec"]["containers"].append({"name": "c", "image": "img"})
        made["spec"] = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        self._comes_or_goes(at, made)

    def _move_group(self, at: float) -> None:
        """A PodGroup names another queue; most likely one that has just come."""
        known = [group for came, group in self._groups if came < at]
        if not known:
            return
        group = self._rng.choice(known[-3:] if self._rng.random() < 0.7 else known)
        self._add(at, "patch", group, change={"spec": {"queue": self._rng.choice(self._queues)}})

    def _one(self, version: str, kind: str, name: str, count: int) -> Manifest:
        """The head of one of a few objects."""
        rng = self._rng
        meta = {"name": f"{name}-{rng.randrange(count)}", "namespace": rng.choice(self._spaces)}
        return {"apiVersion": version, "kind": kind, "metadata": meta}

    def _comes_or_goes(self, at: float, obj: Manifest) -> None:
        """It is deleted; or created, and if it is there, edited."""
        if self._rng.random() < 0.25:
            self._add(at, "delete", obj)
            return
        self._add(at, "create", obj)
        for part in ("spec", "status"):
            if part in obj and obj["kind"] != "ReplicaSet":
                where = part if part == "status" else ""
                self._add(at, "patch", obj, part=where, change={part: obj[part]})

    def _add(self, at: float, does: Any, obj: Manifest, **more: Any) -> None:
        self._events.append(an_event(at, does, obj, **more))


def _renamed(obj: Manifest, name: str) -> Manifest:
    meta = {**obj["metadata"], "name": name}
    meta.pop("uid", None)
    return {**obj, "metadata": meta}


def _names(objects: Sequence[Manifest], kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in objects if each["kind"] == kind]
