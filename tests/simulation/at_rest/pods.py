"""Pods and gangs of a world that comes to rest."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from arranger.api.annotations import MAX_RUN_TIME, RESERVATION, TOPOLOGY
from tests.builders import PodBuilder, a_pod, expr
from tests.simulation.at_rest.devices import Devices
from tests.simulation.at_rest.focuses import Focus
from tests.simulation.at_rest.volumes import Volumes

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
RACK: Final = "rack"
SPACES: Final = ("a", "b")
QUEUES: Final = ("red", "blue")
PREEMPTABLE: Final = "volcano.sh/preemptable"
_SERVICE: Final = "volcano.sh/service.type"
_TOPOLOGY: Final = {
    "in a zone": f"required={ZONE}",
    "near in a zone": f"preferred={ZONE}",
    "in a rack": f"required={RACK}",
}


class Arrivals:
    """Makes pods, alone or of a gang, by what a focus says."""

    def __init__(
        self,
        rng: random.Random,
        focus: Focus,
        volumes: Volumes,
        devices: Devices,
        *,
        has_queues: bool,
    ) -> None:
        self._rng, self._focus = rng, focus
        self._volumes, self._devices, self._has_queues = volumes, devices, has_queues
        self._born = 0
        #: Claims are of the first.
        self._spaces = SPACES if {"volume", "slice"}.isdisjoint(focus.events) else SPACES[:1]

    def next(self, group: Callable[[str, str], None]) -> list[PodBuilder]:
        """A pod or a gang; ``group`` is told the namespace and name of one that has a PodGroup."""
        rng = self._rng
        self._born += 1
        space, name = rng.choice(self._spaces), f"g{self._born}"
        if rng.random() < 0.5:
            return [self._pod(f"p{self._born}", space, self._shared())]
        shared, count = self._shared(), rng.randint(2, 4)
        pods = [self._pod(f"{name}-{n}", space, shared) for n in range(count)]
        if rng.random() < 0.4:
            group(space, name)
            return [pod.annotated({"scheduling.k8s.io/group-name": name}) for pod in pods]
        least = rng.randint(1, count)
        return self._gang(space, name, least, pods)

    def edited(self, pod: PodBuilder) -> PodBuilder:
        """As the server lets one that waits be edited."""
        rng = self._rng
        match rng.choice(("tolerates", "cordoned", "labels", "run time", "asks no more")):
            case "tolerates":
                return pod.tolerates("team", value=rng.choice("xy"))
            case "cordoned":
                return pod.tolerates("node.kubernetes.io/unschedulable")
            case "labels":
                return pod.labelled(app=rng.choice("st"))
            case "run time":
                return pod.annotated({MAX_RUN_TIME: "2s"})
        manifest = pod.manifest()
        manifest["metadata"].get("annotations", {}).pop(RESERVATION, None)
        return PodBuilder(manifest)

    def _gang(self, space: str, name: str, least: int, pods: list[PodBuilder]) -> list[PodBuilder]:
        asked = _drawn(self._rng, self._focus.gangs)
        match asked:
            case "bundles":
                return [pod.in_bundle(name, f"b{n % 2}", 1) for n, pod in enumerate(pods)]
            case "together":
                groups = json.dumps([f"{space}/{name}", f"{space}/{name}x"])
                return [
                    pod.in_gang(name + "x" * (n % 2), 1, groups=groups)
                    for n, pod in enumerate(pods)
                ]
            case "keeps":
                return [pod.in_gang(name, least, mode="NonStrict") for pod in pods]
        made = [pod.in_gang(name, least) for pod in pods]
        if asked:
            made = [pod.annotated({TOPOLOGY: _TOPOLOGY[asked]}) for pod in made]
        return made

    def _shared(self) -> dict[str, Any]:
        """What the members of a gang have in common."""
        rng = self._rng
        wanted = {"cpu": rng.choice(("500m", "1", "1", "2", "3"))}
        return {**wanted, "priority": rng.choice((0, 0, 10)), "queue": rng.choice(("", *QUEUES))}

    def _pod(self, name: str, space: str, shared: Mapping[str, Any]) -> PodBuilder:
        rng = self._rng
        pod = a_pod(name).in_namespace(space).needs(cpu=shared["cpu"])
        pod = pod.with_priority(shared["priority"]).labelled(app=rng.choice("st"))
        if self._has_queues and shared["queue"]:
            pod = pod.in_queue(shared["queue"])
        if self._has_queues and rng.random() < 0.3:
            pod = pod.annotated({PREEMPTABLE: rng.choice(("true", "false"))})
        if "queue changes" in self._focus.events and rng.random() < 0.4:
            pod = pod.annotated({_SERVICE: rng.choice(("inference", "training"))})
        return self._choosing(pod, space)

    def _choosing(self, pod: PodBuilder, space: str) -> PodBuilder:
        """The pod, with what it asks of its node."""
        rng, others = self._rng, {"app": self._rng.choice("st")}
        teams = {"namespaceSelector": {"matchLabels": {"team": rng.choice("xy")}}}
        match _drawn(rng, self._focus.traits):
            case "spread":
                return pod.spreads(rng.choice((ZONE, HOST)), over=others)
            case "apart":
                return pod.apart(rng.choice((HOST, ZONE)), others, **rng.choice(({}, teams)))
            case "near":
                return pod.near(ZONE, others, **teams)
            case "owned":
                return pod.owned_by("ReplicaSet", f"rs-{space}")
            case "selects":
                wanted = rng.choice((expr("disk", "In", "ssd"), expr(ZONE, "In", "z1")))
                return pod.requires(rng.choice((wanted, expr("disk", "DoesNotExist"))))
            case "tolerates":
                return pod.tolerates("team", value=rng.choice("xy"))
            case "port":
                return pod.host_port(80)
            case "limited":
                return pod.annotated({MAX_RUN_TIME: rng.choice(("3s", "15s", "60s"))})
            case "asks":
                return pod.annotated({RESERVATION: "r0"})
            case "volume":
                return self._volumes.used_by(pod, shared=False)
            case "shared volume":
                return self._volumes.used_by(pod, shared=True)
            case "device":
                return self._devices.used_by(pod, shared=False)
            case "shared device":
                return self._devices.used_by(pod, shared=True)
        return pod


def smaller(pod: PodBuilder) -> PodBuilder:
    """The pod, with less cpu."""
    manifest = pod.manifest()
    for container in manifest["spec"]["containers"]:
        container["resources"] = {"requests": {"cpu": "100m"}}
    return PodBuilder(manifest)


def _drawn(rng: random.Random, weights: Mapping[str, float]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]
