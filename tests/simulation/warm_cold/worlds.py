"""Random worlds of every feature that a scheduler reads at its start, as API objects."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Any, TypeVar

from tests import devices, storage
from tests.builders import Manifest, PodBuilder, a_pod, a_pod_group
from tests.builders.workloads import controlled, replicas
from tests.queueing import GPU
from tests.simulation.harnesses.preemption import slow_to_terminate
from tests.simulation.warm_cold.surroundings import CARDS, Surroundings, World

#: Each is the value of a PriorityClass, named ``p1`` and so on.
PRIORITIES = (1, 50, 99)
T = TypeVar("T")
_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_VOLCANO_GROUP = "scheduling.k8s.io/group-name"
_TASK = "volcano.sh/task-spec"
_POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
#: How long a gang may hold nodes; the second one ends between two looks after a restart.
WAIT_TIMES = ("20s", "700s", "24h")
#: Since when a gang of the past waits: some minutes before the last object of its world.
_SINCE = "2026-01-01T00:05:00Z"
#: Who may define a gang by a PodGroup.
_DIALECTS = ("sigs", "community", "volcano", "volcano", "native")


class WorldBuilder(Surroundings):
    """Makes one world.

    Args:
        seed: equal seeds make equal worlds.
        past: whether some pods are bound, nominated or being deleted already.
    """

    def __init__(self, seed: int, *, past: bool) -> None:
        super().__init__(seed)
        self._past = past

    def build(self) -> World:
        """The world; call once."""
        rng = self._rng
        self._surround()
        makers = [self._add_lone_pods, self._add_gang, self._add_gang, self._add_pod_group]
        makers += [self._add_pod_group, self._add_pair_of_gangs, self._add_job, self._add_budget]
        makers += [self._add_workload]
        for n in range(rng.randint(4, 12)):
            rng.choice(makers)(f"w{n}")
        return self._world

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
        if self._owners and rng.random() < 0.4:
            version, kind, owner = rng.choice(self._owners)
            pod = pod.owned_by(kind, owner, api_version=version)
        return self._choosy(pod) if rng.random() < 0.2 else pod

    def _choosy(self, pod: PodBuilder) -> PodBuilder:
        """A pod that minds which others are where it is."""
        app = {"app": self._rng.choice("xy")}
        choices = [
            lambda: pod.labelled(app).apart(_HOST, app),
            lambda: pod.labelled(app).spreads(_ZONE, over=app),
            lambda: pod.labelled(app).near(_ZONE, app),
            lambda: pod.host_port(8080),
            lambda: pod.tolerates("odd"),
        ]
        return self._rng.choice(choices)()

    def _with_objects(self, pod: PodBuilder, name: str) -> PodBuilder:
        """A pod with a claim to a device or a volume of its own, where the world has them."""
        if self._has_devices and self._rng.random() < 0.4:
            self._late(devices.a_claim(f"{name}-device").asks().manifest())
            pod = devices.claiming(pod, f"{name}-device")
        if self._has_storage and self._rng.random() < 0.4:
            self._late(storage.a_claim(f"{name}-data").manifest())
            pod = pod.with_claim(f"{name}-data")
        return pod

    def _add_lone_pods(self, name: str) -> None:
        for n in range(self._rng.randint(1, 4)):
            pod = self._with_objects(self._pod(f"{name}-{n}"), f"{name}-{n}")
            if self._rng.random() < 0.08:
                pod = pod.gated("later")
            self._add_pod(pod)

    def _members(self, name: str) -> list[PodBuilder]:
        """The pods of a gang: alike but for their names."""
        first = self._with_objects(self._pod("x"), name).manifest()
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
        if rng.random() < 0.3:
            more["waiting_time"] = rng.choice(WAIT_TIMES)
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
        members = self._members(name)
        group, members = self._pod_group(name, members, self._rng.choice(_DIALECTS))
        group_first = self._rng.random() < 0.5
        if group_first:
            self._late(group)
        self._add_members(members)
        if not group_first:
            self._late(group)

    def _pod_group(
        self, name: str, members: list[PodBuilder], dialect: str
    ) -> tuple[Manifest, list[PodBuilder]]:
        """The PodGroup of a dialect, and its members."""
        rng, least = self._rng, self._least(members)
        notes: dict[str, str] = {}
        if rng.random() < 0.2:
            notes["arranger.io/topology"] = f"required={_ZONE}"
        if rng.random() < 0.2:
            notes["gang.scheduling.koordinator.sh/mode"] = "NonStrict"
        if dialect == "volcano":
            return self._volcano_group(name, members, least, notes)
        group = a_pod_group(name, least=least).annotated(notes).manifest()
        if dialect == "sigs":
            return group, [pod.in_pod_group(name) for pod in members]
        if dialect == "community":
            group["apiVersion"] = "scheduling.x-k8s.io/v1alpha1"
            label = "scheduling.x-k8s.io/pod-group"
            return group, [pod.in_pod_group(name, label=label) for pod in members]
        group["apiVersion"] = "scheduling.k8s.io/v1beta1"
        group["spec"] = {"schedulingPolicy": {"gang": {"minCount": least}}}
        if rng.random() < 0.3:
            group["spec"]["disruptionMode"] = {"all": {}}
        if rng.random() < 0.3:
            group["spec"]["priority"] = rng.choice(PRIORITIES)
        named = {"podGroupName": name}
        return group, [pod.with_spec(schedulingGroup=named) for pod in members]

    def _volcano_group(
        self, name: str, members: list[PodBuilder], least: int, notes: dict[str, str]
    ) -> tuple[Manifest, list[PodBuilder]]:
        rng = self._rng
        spec: dict[str, Any] = {}
        if self._queues and rng.random() < 0.8:
            spec["queue"] = rng.choice(self._queues)
        if rng.random() < 0.6:
            notes["volcano.sh/card.request"] = f'{{"{rng.choice(CARDS)}": {rng.randint(1, 9)}}}'
        members = [pod.annotated({_VOLCANO_GROUP: name}) for pod in members]
        if rng.random() < 0.3:
            spec["minTaskMember"] = {"ps": 1}
            members[0] = members[0].annotated({_TASK: "ps"})
            members[1:] = [pod.annotated({_TASK: "worker"}) for pod in members[1:]]
        group = a_pod_group(name, least=least, **spec).annotated(notes).manifest()
        group["apiVersion"] = "scheduling.volcano.sh/v1beta1"
        if self._past and rng.random() < 0.4:
            group["status"] = {"phase": rng.choice(["Running", "Pending", "Inqueue"])}
        return group, members

    def _add_job(self, name: str) -> None:
        """A gang that has a place among jobs: by its own priority, or by what it uses."""
        rng, members = self._rng, self._members(name)
        notes = {"arranger.io/job-priority": str(rng.randint(1, 9))}
        if rng.random() < 0.5:
            notes = {"arranger.io/job-queue-policy": "DRF"}
        least = self._least(members)
        words = {f"{_POD_GROUP}/name": name, f"{_POD_GROUP}/min-available": str(least)}
        if rng.random() < 0.5:
            members = [pod.annotated(words) for pod in members]
        else:
            members = [pod.in_gang(name, least) for pod in members]
        self._add_members([pod.of_tyjob(name).annotated(notes) for pod in members])

    def _add_workload(self, name: str) -> None:
        """A PyTorchJob, whose pods are a gang without saying so."""
        rng, members = self._rng, self._members(name)
        workers = len(members) - 1
        owner = replicas("PyTorchJob", name, Master=1, Worker=max(0, workers))
        policy: dict[str, Any] = {}
        if rng.random() < 0.4:
            policy["minAvailable"] = self._least(members)
        if self._queues and rng.random() < 0.5:
            policy["queue"] = rng.choice(self._queues)
        spec: dict[str, Any] = {"runPolicy": {"schedulingPolicy": policy}} if policy else {}
        if rng.random() < 0.3:
            spec["elasticPolicy"] = {"minReplicas": max(1, workers - 1)}
        owner = owner.with_spec(**spec)
        if rng.random() < 0.2:
            owner = owner.annotated({"gang.scheduling.koordinator.sh/mode": "NonStrict"})
        self._late(owner.manifest())
        made = owner.manifest()["metadata"]
        for n, pod in enumerate(members):
            role = "worker" if n else "master"
            pod = pod.labelled({"training.kubeflow.org/replica-type": role})
            meta = {**pod.manifest()["metadata"], "ownerReferences": []}
            pod = PodBuilder({**pod.manifest(), "metadata": meta})
            members[n] = controlled(pod, "kubeflow.org/v1", "PyTorchJob", name, made["uid"])
        self._add_members(members)

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
        status: dict[str, Any] = {"resourceSatisfied": self._rng.random() < 0.5}
        if self._rng.random() < 0.5:
            status["waitingSince"] = _SINCE
        minimums = [{"name": "ps", "minMember": 1}, {"name": "gone", "minMember": 1}]
        self._late(
            {
                "apiVersion": "arranger.io/v1alpha1",
                "kind": "Gang",
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-gang-{name}"},
                "spec": {"source": "annotations", "bundles": minimums if bundles else []},
                "status": {**status, "schedulingCycle": 3},
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

    def _late(self, manifest: Manifest) -> None:
        self._world.late.append(self._dated(manifest))


def a_world(seed: int, *, past: bool = False) -> World:
    """The world of a seed; with ``past`` some of its pods have nodes already."""
    return WorldBuilder(seed, past=past).build()


def first_seeds(default: int) -> range:
    """The first seed of each twenty worlds to look at: so many, or WARM_COLD_WORLDS.

    They begin with WARM_COLD_FIRST, which is 0 unless fresh ones are wanted.
    """
    first = int(os.environ.get("WARM_COLD_FIRST", "0"))
    return range(first, first + int(os.environ.get("WARM_COLD_WORLDS", default)), 20)


def shuffled(objects: Iterable[T], seed: int) -> list[T]:
    """The objects in a random order."""
    found = list(objects)
    random.Random(seed).shuffle(found)
    return found
