"""Tenants and administrators who change their minds: edits of whatever may be edited.

A pod is given to another gang, queue or service while it waits, is being placed, or runs; a gang
asks for more or fewer; a PodGroup, a namespace, a queue, or what stands above it is edited. Most of
it strikes what has just come.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tests.builders import Manifest
from tests.swarm.world import Event, Object, an_event

#: Seconds between two of these, in the mean.
_EVERY: Final = 3.0
_KOORDINATOR: Final = "gang.scheduling.koordinator.sh/"
_RUN_TIME: Final = "arranger.io/max-run-time"
#: Annotations of pods, PodGroups and owners → values; None takes it away.
_SAID: Final[Mapping[str, Sequence[str | None]]] = {
    "volcano.sh/preemptable": ("true", "false", None),
    "volcano.sh/service.type": ("inference", "training", "odd", None),
    "volcano.sh/card.name": ("NVIDIA-GeForce-RTX-4090", "NVIDIA-A100", None),
    "arranger.io/topology": ("required=topology.kubernetes.io/zone", "preferred=zone", None),
    _RUN_TIME: ("20s", "10m", None),
    _KOORDINATOR + "timeout": (None,),
    _KOORDINATOR + "min-available": ("1", "2", "3", "5"),
    _KOORDINATOR + "mode": ("Strict", "NonStrict", None),
    _KOORDINATOR + "match-policy": ("once-satisfied", "only-waiting", "waiting-and-running", None),
    _KOORDINATOR + "waiting-time": ("5", "60s", None),
}
_QUEUE: Final = "scheduling.volcano.sh/queue-name"
#: The dialects in which a pod can be moved to another gang: annotation, or label.
_NAMED_BY: Final = {
    _KOORDINATOR + "name": "annotations",
    "scheduling.k8s.io/group-name": "annotations",
    "scheduling.x-k8s.io/pod-group": "labels",
    "pod-group.scheduling.sigs.k8s.io": "labels",
}
#: Other names of gangs mean harm.
_NAME: Final = re.compile("[a-z0-9-]{1,60}", re.ASCII)
_OWNERS: Final = ("Job", "Deployment", "TYJob", "PyTorchJob", "ReplicaSet", "StatefulSet")


def some_whims(
    rng: random.Random,
    objects: Sequence[Manifest],
    arrivals: Sequence[Event],
    seconds: float,
    *,
    clocks_jump: bool,
) -> list[Event]:
    """What is edited.

    Args:
        objects: what is there at first.
        arrivals: what happens besides.
        clocks_jump: nobody says how long a pod may run, as nobody knows how long it has.
    """
    said = {key: v for key, v in _SAID.items() if not (clocks_jump and key == _RUN_TIME)}
    return _Whims(rng, objects, arrivals, seconds, said).events()


class _Whims:
    def __init__(
        self,
        rng: random.Random,
        objects: Sequence[Manifest],
        arrivals: Sequence[Event],
        seconds: float,
        said: Mapping[str, Sequence[str | None]],
    ) -> None:
        self._rng, self._seconds, self._said = rng, seconds, said
        created = [(e.at, e.object) for e in arrivals if e.does == "create"]
        self._known = [*((0.0, each) for each in objects), *created]
        self._queues = [o["metadata"]["name"] for _, o in self._known if o["kind"] == "Queue"]
        #: How gangs are named → the gangs that are named so.
        self._gangs = {
            key: sorted({_gang_of(o, key) for _, o in self._known if o["kind"] == "Pod"} - {""})
            for key in _NAMED_BY
        }
        self._events: list[Event] = []

    def events(self) -> list[Event]:
        """All of it, by time."""
        things: list[tuple[int, Callable[[float], None]]] = [
            (6, self._say_of_pod),
            (3, self._move_pod),
            (2, self._say_of_gang),
            (2, self._say_of_owner),
            (3, self._edit_pod_group),
            (2, self._label_pod),
            (1, self._tolerate),
            (1, self._label_namespace),
            (1, self._remake_pod_group),
            (1, self._edit_slice),
            (1, self._edit_class),
            (1, self._remake_volume),
        ]
        if self._queues:
            things += [(3, self._edit_queue), (3, self._give_to_queue)]
        weights, does = zip(*things, strict=True)
        at = 1.0 + self._rng.expovariate(1 / _EVERY)
        while at < self._seconds:
            self._rng.choices(does, weights)[0](at)
            at += self._rng.expovariate(1 / _EVERY)
        return sorted(self._events, key=lambda event: event.at)

    # --- pods --------------------------------------------------------------------------------

    def _say_of_pod(self, at: float) -> None:
        self._say(at, self._one(at, "Pod"), self._a_word())

    def _say_of_gang(self, at: float) -> None:
        """All members of a gang are edited, one after the other."""
        key = self._rng.choice(list(_NAMED_BY))
        if not self._gangs[key]:
            return
        gang, word = self._rng.choice(self._gangs[key]), self._a_word()
        for came, pod in self._known:
            if came < at and pod["kind"] == "Pod" and _gang_of(pod, key) == gang:
                self._say(at, pod, word)

    def _give_to_queue(self, at: float) -> None:
        queue = self._rng.choice([*self._queues, "nowhere", None])
        self._say(at, self._one(at, "Pod", *_OWNERS), {_QUEUE: queue})

    def _move_pod(self, at: float) -> None:
        """To another gang of its dialect, which there may never be; or out of its own."""
        pod = self._one(at, "Pod")
        if pod is None:
            return
        there = [key for key in _NAMED_BY if _gang_of(pod, key)]
        key = self._rng.choice(there or list(_NAMED_BY))
        another = f"another-{list(_NAMED_BY).index(key)}"
        gang = self._rng.choice([*self._gangs[key], another, None])
        self._patch(at, pod, {"metadata": {_NAMED_BY[key]: {key: gang}}})

    def _label_pod(self, at: float) -> None:
        change = {"metadata": {"labels": {"app": self._rng.choice(["x", "y", "z", None])}}}
        self._patch(at, self._one(at, "Pod"), change)

    def _tolerate(self, at: float) -> None:
        """The one thing of where it may go that can be added to a pod."""
        pod = self._one(at, "Pod")
        if pod is not None and not pod["spec"].get("tolerations"):
            self._patch(at, pod, {"spec": {"tolerations": [{"key": "odd", "operator": "Exists"}]}})

    # --- what is about pods ------------------------------------------------------------------

    def _say_of_owner(self, at: float) -> None:
        self._say(at, self._one(at, *_OWNERS), self._a_word())

    def _edit_pod_group(self, at: float) -> None:
        rng, group = self._rng, self._one(at, "PodGroup")
        if group is None:
            return
        version, few = group["apiVersion"], rng.randint(1, 4)
        if version.startswith("scheduling.k8s.io/"):
            change: Object = {"spec": {"schedulingPolicy": {"gang": {"minCount": few}}}}
        elif version.startswith("scheduling.volcano.sh/"):
            changes: list[Object] = [
                {"minMember": few},
                {"minTaskMember": rng.choice([{"w": 1}, {"w": 2, "ps": 1}, None])},
                {"minResources": rng.choice([{"cpu": "1"}, {"cpu": "90"}, None])},
            ]
            change = {"spec": rng.choice(changes)}
        else:
            change = {"spec": {"minMember": few}}
        if rng.random() < 0.3:
            change = {"metadata": {"annotations": self._a_word()}}
        self._patch(at, group, change)

    def _remake_pod_group(self, at: float) -> None:
        if (group := self._one(at, "PodGroup")) is not None:
            self._events.append(an_event(at, "delete", group))
            if self._rng.random() < 0.7:
                later = at + self._rng.choice([0.0, 0.1, 5.0, 40.0])
                self._events.append(an_event(later, "create", group))

    def _label_namespace(self, at: float) -> None:
        labels = {"team": self._rng.choice(["ml", "web", None])}
        self._patch(at, self._one(at, "Namespace"), {"metadata": {"labels": labels}})

    def _edit_queue(self, at: float) -> None:
        rng, queue = self._rng, self._one(at, "Queue")
        if queue is None:
            return
        cards = json.dumps({"NVIDIA-A100": rng.randint(0, 3)})
        changes: list[Object] = [
            {"spec": {"parent": rng.choice([*self._queues, "root", None])}},
            {"spec": {"deserved": rng.choice([{"cpu": "2"}, {"cpu": "8"}, None])}},
            {"spec": {"capability": rng.choice([{"cpu": "2"}, {"pods": "3"}, None])}},
            {"spec": {"guarantee": rng.choice([{"resource": {"cpu": "1"}}, None])}},
            {"metadata": {"annotations": {"volcano.sh/card.quota": rng.choice([cards, None])}}},
            {"spec": {"weight": rng.randint(1, 5)}},
        ]
        self._patch(at, queue, rng.choice(changes))

    # --- devices and volumes ------------------------------------------------------------------

    def _edit_slice(self, at: float) -> None:
        """A driver offers fewer devices, or all of them again."""
        if (found := self._one(at, "ResourceSlice")) is not None:
            pool, devices = found["spec"]["pool"], found["spec"]["devices"]
            spec = {
                "pool": {**pool, "generation": 2 + int(at)},
                "devices": devices[: self._rng.randint(0, len(devices))] or devices,
            }
            self._patch(at, found, {"spec": spec})

    def _edit_class(self, at: float) -> None:
        """Of devices: which of them it means."""
        expression = self._rng.choice(
            ['device.driver == "gpu.example.com"', "false", 'device.attributes["x"].y == 1']
        )
        change = {"spec": {"selectors": [{"cel": {"expression": expression}}]}}
        self._patch(at, self._one(at, "DeviceClass"), change)

    def _remake_volume(self, at: float) -> None:
        """A volume or its class is gone for a while."""
        if (found := self._one(at, "PersistentVolume", "StorageClass")) is not None:
            self._events.append(an_event(at, "delete", found))
            later = at + self._rng.choice([0.0, 1.0, 30.0])
            self._events.append(an_event(later, "create", found))

    # --- inside ------------------------------------------------------------------------------

    def _a_word(self) -> Object:
        key = self._rng.choice(list(self._said))
        return {key: self._rng.choice(self._said[key])}

    def _one(self, at: float, *kinds: str) -> Manifest | None:
        """Of these kinds, most likely one that has just come."""
        known = [each for came, each in self._known if came < at and each["kind"] in kinds]
        if not known:
            return None
        return self._rng.choice(known[-4:] if self._rng.random() < 0.6 else known)

    def _say(self, at: float, obj: Manifest | None, words: Object) -> None:
        self._patch(at, obj, {"metadata": {"annotations": words}})

    def _patch(self, at: float, obj: Manifest | None, change: Object) -> None:
        if obj is not None:
            more: dict[str, Any] = {"change": change}
            late = self._rng.choice([0.0, 0.0, 0.01, 0.2])
            self._events.append(an_event(at + late, "patch", obj, **more))


def _gang_of(obj: Manifest, key: str) -> str:
    """The gang that an object names in this way, "" for none."""
    word = str(obj["metadata"].get(_NAMED_BY[key], {}).get(key) or "")
    return word if _NAME.fullmatch(word) else ""
