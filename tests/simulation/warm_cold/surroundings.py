"""What is there before any pod of a random world: nodes, queues, storage, devices, owners."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests import devices, storage
from tests.builders import Manifest, a_node
from tests.queueing import CARD, GPU, a_queue_manifest

#: Two kinds of cards, the second on fewer nodes.
CARDS = (CARD, "NVIDIA-A100")
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_NODE_GROUP = "volcano.sh/nodegroup-name"
#: What an owner may say about its pods.
_SAID = (
    {"volcano.sh/service.type": "inference"},
    {"volcano.sh/service.type": "training"},
    {"volcano.sh/preemptable": "false"},
    {"volcano.sh/card.name": CARDS[1]},
    {},
)


@dataclass(slots=True)
class World:
    """Objects, each created a minute after the one before.

    Attributes:
        early: what is there before any pod: nodes, queues, classes, volumes, owners.
        late: pods and the objects about them.
    """

    early: list[Manifest] = field(default_factory=list)
    late: list[Manifest] = field(default_factory=list)

    @property
    def objects(self) -> list[Manifest]:
        """All of them."""
        return [*self.early, *self.late]


class Surroundings:
    """Makes what a world has before its first pod.

    Args:
        seed: equal seeds make equal worlds.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._world = World()
        self._minutes = 0
        self._queues: list[str] = []
        self._nodes: list[str] = []
        self._has_storage = self._has_devices = False
        #: (API version, kind, name) of what pods may be owned by.
        self._owners: list[tuple[str, str, str]] = []

    def _surround(self) -> None:
        rng = self._rng
        for n in range(rng.randint(2, 5)):
            self._add_node(f"n{n}")
        if rng.random() < 0.75:
            for n in range(rng.randint(1, 4)):
                self._add_queue(f"q{n}")
        if rng.random() < 0.3:
            self._add_storage()
        if rng.random() < 0.3:
            self._add_devices()
        if rng.random() < 0.5:
            self._add_owners()

    def _add_node(self, name: str) -> None:
        rng, node = self._rng, a_node(name).in_zone(self._rng.choice("ab"))
        node = node.offers(cpu=rng.choice([2, 4, 8]))
        if rng.random() < 0.7:
            count = rng.choice([2, 4, 8])
            card = CARDS[rng.random() < 0.3]
            node = node.offers({GPU: count}).labelled({f"{GPU}.product": card})
        if rng.random() < 0.1:
            node = node.tainted("odd")
        if rng.random() < 0.2:
            node = node.labelled({_NODE_GROUP: "fast"})
        self._nodes.append(name)
        self._early(node.manifest())

    def _add_queue(self, name: str) -> None:
        rng = self._rng
        spec: dict[str, Any] = {}
        if rng.random() < 0.6:
            spec["priority"] = rng.choice([20000, 40000, 80000])
        if rng.random() < 0.3:
            spec["weight"] = rng.randint(1, 4)
        if rng.random() < 0.3:
            spec["capability"] = {"cpu": str(rng.choice([2, 4, 8]))}
        if rng.random() < 0.2:
            spec["deserved"] = {"cpu": str(rng.choice([1, 2]))}
        if rng.random() < 0.2:
            spec["guarantee"] = {"resource": {"cpu": "1"}}
        if rng.random() < 0.3:
            spec["reclaimable"] = rng.random() < 0.5
        if self._queues and rng.random() < 0.3:
            spec["parent"] = rng.choice(self._queues)
        if rng.random() < 0.1:
            groups = {"requiredDuringSchedulingIgnoredDuringExecution": ["fast"]}
            spec["affinity"] = {"nodeGroupAntiAffinity": groups}
        cards = {card: rng.randint(1, 8) for card in CARDS} if rng.random() < 0.6 else None
        notes = {"arranger.io/queue-state": "Closed"} if rng.random() < 0.05 else {}
        self._queues.append(name)
        self._early(a_queue_manifest(name, cards=cards, notes=notes, **spec))

    def _add_storage(self) -> None:
        self._has_storage = True
        self._early(storage.a_class().manifest())
        for n in range(3):
            zone = self._rng.choice("ab")
            self._early(storage.a_volume(f"v{n}").usable_in(zone).manifest())

    def _add_devices(self) -> None:
        self._has_devices = True
        self._early(devices.a_device_class().manifest())
        for node in self._nodes[:2]:
            self._early(devices.a_slice(node, "d0", "d1").manifest())

    def _add_owners(self) -> None:
        """A Deployment with its ReplicaSet, and a Job: their words count for their pods."""
        rng = self._rng
        said = rng.choice(_SAID)
        self._early(_owner("apps/v1", "Deployment", "web", said))
        copied = {**rng.choice([said, *_SAID]), "deployment.kubernetes.io/revision": "1"}
        template = _owner("apps/v1", "ReplicaSet", "web-1", copied)
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        owner |= {"uid": "uid-Deployment-web", "controller": True}
        template["metadata"]["ownerReferences"] = [owner]
        self._early(template)
        self._early(_owner("batch/v1", "Job", "sum", rng.choice(_SAID)))
        self._owners += [("apps/v1", "ReplicaSet", "web-1"), ("batch/v1", "Job", "sum")]

    def _early(self, manifest: Manifest) -> None:
        self._world.early.append(self._dated(manifest))

    def _dated(self, manifest: Manifest) -> Manifest:
        self._minutes += 1
        created = _BEGAN + timedelta(minutes=self._minutes)
        manifest["metadata"]["creationTimestamp"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
        return manifest


def _owner(version: str, kind: str, name: str, said: dict[str, str]) -> Manifest:
    labels = {"own": name}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{kind}-{name}",
            "annotations": dict(said),
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never" if kind == "Job" else "Always",
                    "containers": [{"name": "c", "image": "img"}],
                },
            },
        },
    }
