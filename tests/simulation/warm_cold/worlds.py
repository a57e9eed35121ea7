"""Random worlds of every feature that a scheduler reads at its start, as API objects."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from tests import devices, storage
from tests.builders import Manifest, PodBuilder, a_node, a_pod, a_pod_group
from tests.queueing import CARD, GPU, a_queue_manifest
from tests.simulation.harnesses.preemption import slow_to_terminate

#: Two kinds of cards, the second on fewer nodes.
CARDS = (CARD, "NVIDIA-A100")
#: Each is the value of a PriorityClass, named ``p1`` and so on.
PRIORITIES = (1, 50, 99)
T = TypeVar("T")
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_VOLCANO_GROUP = "scheduling.k8s.io/group-name"


@dataclass(slots=True)
class World:
    """Objects, each created a minute after the one before.

    Attributes:
        early: what is there before any pod: nodes, queues, classes, volumes.
        late: pods and the objects about them.
    """

    early: list[Manifest] = field(default_factory=list)
    late: list[Manifest] = field(default_factory=list)

    @property
    def objects(self) -> list[Manifest]:
        """All of them."""
        return [*self.early, *self.late]


class WorldBuilder:
    """Makes one world.

    Args:
        seed: equal seeds make equal worlds.
        past: whether some pods are bound, nominated or being deleted already.
    """

    def __init__(self, seed: int, *, past: bool) -> None:
        self._rng = random.Random(seed)
        self._past = past
        self._world = World()
        self._minutes = 0
        self._queues: list[str] = []
        self._nodes: list[str] = []
        self._claims: list[str] = []
        self._volumes: list[str] = []

    def build(self) -> World:
        """The world; call once."""
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
        makers = [self._add_lone_pods, self._add_gang, self._add_gang, self._add_pod_group]
        makers += [self._add_pod_group, self._add_pair_of_gangs, self._add_job, self._add_budget]
        for n in range(rng.randint(4, 12)):
            rng.choice(makers)(f"w{n}")
        return self._world

    # --- before any pod --------------------------------------------------------------------

    def _add_node(self, name: str) -> None:
        rng, node = self._rng, a_node(name).in_zone(self._rng.choice("ab"))
        node = node.offers(cpu=rng.choice([2, 4, 8]))
        if rng.random() < 0.7:
            count = rng.choice([2, 4, 8])
            card = CARDS[rng.random() < 0.3]
            node = node.offers({GPU: count}).labelled({f"{GPU}.product": card})
        if rng.random() < 0.1:
            node = node.tainted("odd")
        self._nodes.append(name)
        self._early(node.manifest())

    def _add_queue(self, name: str) -> None:
        rng, spec = self._rng, {}
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
        cards = {card: rng.randint(1, 8) for card in CARDS} if rng.random() < 0.6 else None
        notes = {"arranger.io/queue-state": "Closed"} if rng.random() < 0.05 else {}
        self._queues.append(name)
        self._early(a_queue_manifest(name, cards=cards, notes=notes, **spec))

    def _add_storage(self) -> None:
        self._early(storage.a_class().manifest())
        for n in range(3):
            zone = self._rng.choice("ab")
            self._early(storage.a_volume(f"v{n}").usable_in(zone).manifest())
            self._early(storage.a_claim(f"data{n}").manifest())
            self._volumes.append(f"data{n}")

    def _add_devices(self) -> None:
        self._early(devices.a_device_class().manifest())
        for node in self._nodes[:2]:
            self._early(devices.a_slice(node, "d0", "d1").manifest())
        for n in range(3):
            self._early(devices.a_claim(f"c{n}").asks().manifest())
            self._claims.append(f"c{n}")

    # --- pods ------------------------------------------------------------------------------

    def important_pods(self, count: int) -> list[Manifest]:
        """Pods for which others have to leave, if they are placed at all."""
        made = []
        for n in range(count):
            pod = self._pod(f"vip-{n}").with_priority(99).with_spec(priorityClassName="p99")
            made.append(self._dated(pod.serving("inference").manifest()))
        return made

    def _pod(self, name: str) -> PodBuilder:
        rng, pod = self._rng, a_pod(name).needs(cpu=self._rng.choice(["250m", 1, 1, 2, 3]))
        if rng.random() < 0.4:
            pod = pod.needs({GPU: rng.choice([1, 1, 2, 4])})
            if rng.random() < 0.4:
                wanted = rng.choice([CARDS[0], CARDS[1], "|".join(CARDS)])
                pod = pod.annotated({"volcano.sh/card.name": wanted})
        if self._queues and rng.random() < 0.8:
            pod = pod.in_queue(rng.choice(self._queues))
        if rng.random() < 0.4:
            priority = rng.choice(PRIORITIES)
            pod = pod.with_priority(priority).with_spec(priorityClassName=f"p{priority}")
        if rng.random() < 0.3:
            pod = pod.serving(rng.choice(["inference", "training"]))
        if rng.random() < 0.1:
            pod = pod.annotated({"volcano.sh/preemptable": "false"})
        if rng.random() < 0.5:
            pod = slow_to_terminate(20, pod)
        if rng.random() < 0.2:
            pod = pod.labelled(app=rng.choice("xy"))
        return pod

    def _add_lone_pods(self, name: str) -> None:
        for n in range(self._rng.randint(1, 4)):
            pod = self._pod(f"{name}-{n}")
            if self._claims and self._rng.random() < 0.5:
                pod = devices.claiming(pod, self._claims.pop())
            if self._volumes and self._rng.random() < 0.5:
                pod = pod.with_claim(self._volumes.pop())
            if self._rng.random() < 0.08:
                pod = pod.gated("later")
            self._add_pod(pod)

    def _members(self, name: str) -> list[PodBuilder]:
        """The pods of a gang: alike but for their names."""
        first = self._pod("x").manifest()
        made = []
        for n in range(self._rng.randint(1, 4)):
            meta = {**first["metadata"], "name": f"{name}-{n}", "uid": f"uid-default-{name}-{n}"}
            made.append(PodBuilder({**first, "metadata": meta}))
        return made

    def _least(self, members: list[PodBuilder]) -> int:
        return max(1, len(members) - self._rng.choice([0, 0, 0, 0, 0, 1, 1, -1]))

    def _add_gang(self, name: str, **more: str) -> None:
        """A gang by its pods' annotations, with bundles or without."""
        rng, members = self._rng, self._members(name)
        if rng.random() < 0.3:
            more["match_policy"] = rng.choice(["only-waiting", "waiting-and-running"])
        if rng.random() < 0.4:
            more["mode"] = "NonStrict"
        bundles = rng.random() < 0.4 and not more.get("groups")
        least = self._least(members)
        for n, pod in enumerate(members):
            if bundles and n == 0:
                members[n] = pod.in_bundle(name, "ps", 1)
            elif bundles:
                members[n] = pod.in_bundle(name, "worker", max(1, least - 1))
            else:
                members[n] = pod.in_gang(name, least, **more)
        self._add_members(members)
        if self._past and rng.random() < 0.4:
            self._add_gang_object(name, bundles=bundles)

    def _add_pair_of_gangs(self, name: str) -> None:
        groups = f'["default/{name}a", "default/{name}b"]'
        for half in "ab":
            self._add_gang(name + half, groups=groups)

    def _add_pod_group(self, name: str) -> None:
        """A gang by a PodGroup, which may be created before its pods or after them."""
        rng, members = self._rng, self._members(name)
        spec: dict[str, Any] = {}
        notes: dict[str, str] = {}
        volcano = rng.random() < 0.7
        if volcano and self._queues and rng.random() < 0.8:
            spec["queue"] = rng.choice(self._queues)
        if volcano and rng.random() < 0.6:
            notes["volcano.sh/card.request"] = f'{{"{rng.choice(CARDS)}": {rng.randint(1, 9)}}}'
        if rng.random() < 0.2:
            notes["arranger.io/topology"] = "required=topology.kubernetes.io/zone"
        group = a_pod_group(name, least=self._least(members), **spec).annotated(notes).manifest()
        if volcano:
            group["apiVersion"] = "scheduling.volcano.sh/v1beta1"
            members = [pod.annotated({_VOLCANO_GROUP: name}) for pod in members]
        else:
            members = [pod.in_pod_group(name) for pod in members]
        if self._past and rng.random() < 0.3:
            group["status"] = {"phase": rng.choice(["Running", "Pending", "Inqueue"])}
        group_first = rng.random() < 0.5
        if group_first:
            self._late(group)
        self._add_members(members)
        if not group_first:
            self._late(group)

    def _add_job(self, name: str) -> None:
        """A gang that has a place among jobs: by its own priority, or by what it uses."""
        rng, members = self._rng, self._members(name)
        notes = {"arranger.io/job-priority": str(rng.randint(1, 9))}
        if rng.random() < 0.5:
            notes = {"arranger.io/job-queue-policy": "DRF"}
        least = self._least(members)
        self._add_members([pod.in_gang(name, least).annotated(notes) for pod in members])

    def _add_members(self, members: list[PodBuilder]) -> None:
        """All wait, all run, or some of each."""
        rng, bound = self._rng, 0.0
        if self._past:
            bound = rng.choice([0.0, 0.0, 0.5, 1.0])
        for pod in members:
            self._add_pod(pod, bound)

    def _add_pod(self, pod: PodBuilder, bound: float | None = None) -> None:
        rng = self._rng
        if bound is None:
            bound = 0.4 if self._past else 0.0
        if rng.random() < bound:
            pod = pod.on(rng.choice(self._nodes))
            if rng.random() < 0.1:
                pod = pod.in_phase(rng.choice(["Succeeded", "Failed"]))
            elif rng.random() < 0.1:
                pod = pod.deleting()
        elif self._past and rng.random() < 0.15:
            pod = pod.nominated_to(rng.choice(self._nodes))
        self._late(pod.manifest())

    def _add_gang_object(self, name: str, *, bundles: bool) -> None:
        minimums = [{"name": "ps", "minMember": 1}, {"name": "gone", "minMember": 1}]
        self._late(
            {
                "apiVersion": "arranger.io/v1alpha1",
                "kind": "Gang",
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-gang-{name}"},
                "spec": {"source": "annotations", "bundles": minimums if bundles else []},
                "status": {"resourceSatisfied": self._rng.random() < 0.5, "schedulingCycle": 3},
            }
        )

    def _add_budget(self, name: str) -> None:
        allowed = self._rng.choice([0, 1])
        self._late(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-pdb-{name}"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
                "status": {"disruptionsAllowed": allowed, "expectedPods": 1},
            }
        )

    # --- inside ----------------------------------------------------------------------------

    def _early(self, manifest: Manifest) -> None:
        self._world.early.append(self._dated(manifest))

    def _late(self, manifest: Manifest) -> None:
        self._world.late.append(self._dated(manifest))

    def _dated(self, manifest: Manifest) -> Manifest:
        self._minutes += 1
        created = _BEGAN + timedelta(minutes=self._minutes)
        manifest["metadata"]["creationTimestamp"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
        return manifest


def a_world(seed: int, *, past: bool = False) -> World:
    """The world of a seed; with ``past`` some of its pods have nodes already."""
    return WorldBuilder(seed, past=past).build()


def shuffled(objects: Iterable[T], seed: int) -> list[T]:
    """The objects in a random order."""
    found = list(objects)
    random.Random(seed).shuffle(found)
    return found
