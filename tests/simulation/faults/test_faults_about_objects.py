"""Faults of our own code about an object that is no pod: pods that do not need it go on.

As :mod:`tests.simulation.faults.test_injected_faults`, with a victim of another kind: whatever is
given it raises, so that perhaps every attempt of every pod does. Then it is the victim that is set
aside, not one pod after another. ``ARRANGER_INJECTED_FAULTS`` says how many are tried; 0 for all.
"""

from __future__ import annotations

import asyncio
import os
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from arranger.daemon.informers import COLLECTION_PATHS
from tests import devices, storage
from tests.builders import NodeBuilder, PodBuilder, StoredBuilder, a_node, a_pod, a_pod_group
from tests.builders.workloads import kubeflow_pods, replicas
from tests.faults.callables import Callee, Fault, recorded
from tests.faults.sampling import sample
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.controllers import native_pod_groups
from tests.simulation.harnesses.gangs import DEFINITIONS, members, of_pod_group
from tests.simulation.harnesses.kubelets import running_kubelets
from tests.simulation.harnesses.preemption import with_priority
from tests.simulation.harnesses.simulation import MERGE, VIRTUAL_TIME, Object, SimulationHarness
from tests.simulation.harnesses.volumes import VolumeHarness
from tests.simulation.harnesses.workloads import definition_of

pytestmark = VIRTUAL_TIME

COUNT = int(os.environ.get("ARRANGER_INJECTED_FAULTS", "4"))
NODES = 4


@dataclass(frozen=True)
class Victim:
    """An object called ``victim``, and pods that need it and may suffer with it.

    Attributes:
        path: where it is edited in the end.
        others: objects without which nobody would look at it.
    """

    manifest: Callable[[], Object]
    path: str
    pods: Callable[[], list[PodBuilder]] = list
    others: Callable[[], list[StoredBuilder | NodeBuilder]] = list


def _small_node(name: str) -> NodeBuilder:
    return a_node(name).offers(cpu=6, pods=20).labelled(disk="small").in_zone("z")


def _budget() -> Object:
    selector = {"matchLabels": {"app": "low"}}
    meta = {"name": "victim", "namespace": "default"}
    head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta}
    return {**head, "spec": {"selector": selector, "maxUnavailable": 1}}


def _plain(builder: Any) -> Object:
    manifest: Object = builder.manifest()
    manifest["metadata"].pop("resourceVersion", None)
    manifest["metadata"].pop("uid", None)
    return manifest


def _namespace() -> Object:
    meta = {"name": "victim", "labels": {"team": "a"}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def _user(name: str = "user") -> PodBuilder:
    return a_pod(name).needs(cpu=1)


def _named_victim(builder: StoredBuilder) -> StoredBuilder:
    return builder._set("metadata", name="victim")


def _space() -> StoredBuilder:
    return _named_victim(storage.space_in("z", "10Gi", of="spacious"))._set(
        "metadata", namespace="default"
    )


def _attached_volume() -> list[StoredBuilder | NodeBuilder]:
    claim = storage.a_claim("attached", of="csi").bound_to("volume")
    volume = storage.a_volume("volume", of="csi").served_by(storage.DRIVER, "h").held_by("attached")
    return [storage.a_class("csi"), volume, claim]


def _namespaced(group_version: str, kind: str, plural: str, **fields: Any) -> Victim:
    """An object of ``default``, and a pod with the labels that its selector matches."""
    meta = {"name": "victim", "namespace": "default"}
    root = "api" if group_version == "v1" else "apis"
    return Victim(
        lambda: {"apiVersion": group_version, "kind": kind, "metadata": meta, **fields},
        f"/{root}/{group_version}/namespaces/default/{plural}/victim",
        lambda: [_user().labelled(app="x")],
    )


def _replicas_of(group_version: str, kind: str, plural: str) -> Victim:
    container = {"name": "c", "image": "i"}
    template = {"metadata": {"labels": _X}, "spec": {"containers": [container]}}
    selector = _X if kind == "ReplicationController" else {"matchLabels": _X}
    spec = {"replicas": 0, "selector": selector, "template": template}
    return _namespaced(group_version, kind, plural, spec=spec)


def _reservation() -> Object:
    spec = {
        "nodes": {"names": ["big"]},
        "window": {"start": "2026-01-02T00:00:00Z", "duration": "1h"},
        "users": {"queues": ["victim"]},
    }
    head = {"apiVersion": "arranger.io/v1alpha1", "kind": "Reservation"}
    return {**head, "metadata": {"name": "victim"}, "spec": spec}


_X = {"app": "x"}
_OWNER = replicas("PyTorchJob", "victim", Worker=2)
_LABEL_X = "scheduling.x-k8s.io/pod-group"
_VOLCANO_GROUP = {"scheduling.k8s.io/group-name": "victim"}

VICTIMS = {
    "a node": Victim(
        lambda: _plain(_small_node("victim")),
        "/api/v1/nodes/victim",
    ),
    "a volume": Victim(
        lambda: _plain(storage.a_volume("victim", of="hand")), "/api/v1/persistentvolumes/victim"
    ),
    "a claim of a volume": Victim(
        lambda: _plain(storage.a_claim("victim", of="hand")),
        "/api/v1/namespaces/default/persistentvolumeclaims/victim",
        lambda: [_user().with_claim("victim")],
    ),
    "a storage class": Victim(
        lambda: _plain(storage.a_class("victim")),
        "/apis/storage.k8s.io/v1/storageclasses/victim",
        lambda: [_user().with_claim("of-victim")],
        lambda: [storage.a_claim("of-victim", of="victim")],
    ),
    "the drivers of a node": Victim(
        lambda: _plain(storage.a_csi_node("victim", csi_example_com=3)),
        "/apis/storage.k8s.io/v1/csinodes/victim",
        lambda: [_user().with_claim("attached")],
        lambda: [_small_node("victim"), *_attached_volume()],
    ),
    "a driver of volumes": Victim(
        lambda: _plain(storage.a_driver("victim")),
        "/apis/storage.k8s.io/v1/csidrivers/victim",
        lambda: [_user().with_claim("of-victim")],
        lambda: [
            storage.a_class("by-victim", by="victim"),
            storage.a_claim("of-victim", of="by-victim"),
        ],
    ),
    "the space of a driver": Victim(
        lambda: _plain(_space()),
        "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities/victim",
        lambda: [_user().with_claim("of-spacious")],
        lambda: [
            storage.a_driver(counts_space=True),
            storage.a_class("spacious"),
            storage.a_claim("of-spacious", of="spacious"),
        ],
    ),
    "an attachment of a volume": Victim(
        lambda: _plain(_named_victim(storage.attached("volume", "n0"))),
        "/apis/storage.k8s.io/v1/volumeattachments/victim",
        lambda: [_user().with_claim("attached")],
        lambda: [storage.a_csi_node("n0", csi_example_com=3), *_attached_volume()],
    ),
    "a slice of devices": Victim(
        lambda: _plain(devices.a_slice("n0", "a", "b", name="victim")),
        "/apis/resource.k8s.io/v1/resourceslices/victim",
    ),
    "a claim of devices": Victim(
        lambda: _plain(devices.a_claim("victim").asks()),
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/victim",
        lambda: [devices.claiming(_user(), "victim")],
    ),
    "a class of devices": Victim(
        lambda: _plain(devices.a_device_class("victim")),
        "/apis/resource.k8s.io/v1/deviceclasses/victim",
        lambda: [devices.claiming(_user(), "of-victim")],
        lambda: [devices.a_claim("of-victim").asks(of="victim")],
    ),
    "a disruption budget": Victim(
        _budget, "/apis/policy/v1/namespaces/default/poddisruptionbudgets/victim"
    ),
    "a namespace": Victim(_namespace, "/api/v1/namespaces/victim"),
    "a queue": Victim(
        lambda: a_queue_manifest("victim", weight=1),
        "/apis/scheduling.volcano.sh/v1beta1/queues/victim",
        lambda: [_user().in_queue("victim")],
    ),
    "a pod group": Victim(
        lambda: _plain(a_pod_group("victim", least=2)),
        "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups/victim",
        lambda: of_pod_group("victim", 2),
    ),
    "a pod group of before": replace(
        _namespaced("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups", spec={"minMember": 2}),
        pods=lambda: [_user(f"v{n}").in_pod_group("victim", label=_LABEL_X) for n in range(2)],
    ),
    "a pod group of Volcano": replace(
        _namespaced(
            "scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", spec={"minMember": 2}
        ),
        pods=lambda: [_user(f"v{n}").annotated(_VOLCANO_GROUP) for n in range(2)],
    ),
    "a pod group of Kubernetes": replace(
        _namespaced(
            "scheduling.k8s.io/v1beta1",
            "PodGroup",
            "podgroups",
            spec={"schedulingPolicy": {"gang": {"minCount": 2}}},
        ),
        pods=lambda: [
            _user(f"v{n}").with_spec(schedulingGroup={"podGroupName": "victim"}) for n in range(2)
        ],
    ),
    "a gang": replace(
        _namespaced("arranger.io/v1alpha1", "Gang", "gangs", spec={}),
        pods=lambda: members("victim", 2),
    ),
    "a reservation": Victim(_reservation, "/apis/arranger.io/v1alpha1/reservations/victim"),
    "a service": _namespaced(
        "v1", "Service", "services", spec={"selector": _X, "ports": [{"port": 80}]}
    ),
    "a replication controller": _replicas_of(
        "v1", "ReplicationController", "replicationcontrollers"
    ),
    "a replica set": _replicas_of("apps/v1", "ReplicaSet", "replicasets"),
    "a stateful set": _replicas_of("apps/v1", "StatefulSet", "statefulsets"),
    "an owner of pods": Victim(
        lambda: _plain(_OWNER),
        "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/victim",
        lambda: kubeflow_pods(_OWNER, Worker=2),
    ),
}


def test_there_is_a_victim_of_each_kind_that_is_watched() -> None:
    """But of pods, which :mod:`tests.simulation.faults.test_injected_faults` is about."""
    edited = [victim.path for victim in VICTIMS.values()]
    missing = {
        kind.__name__
        for kind, path in COLLECTION_PATHS.items()
        if not any(_collection(each) == path for each in edited)
    }
    assert missing == {"Pod"}


def _collection(path: str) -> str:
    return path.removesuffix("/victim").replace("/namespaces/default", "")


class World:
    """A small cluster in which pods of others look at the victim in every way there is."""

    def __init__(self, victim: Victim) -> None:
        self.sim = SimulationHarness()
        self.victim = victim
        self.others: list[str] = []
        self.restarts = 0

    def _set_up(self) -> None:
        sim = self.sim
        for definition in (*DEFINITIONS, definition_of("PyTorchJob"), native_pod_groups()):
            sim.cluster.create(definition)
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        for value in (0, 9):
            sim.cluster.create({**head, "metadata": {"name": f"p{value}"}, "value": value})
        sim.create(
            *(_small_node(f"n{n}") for n in range(NODES)),
            a_node("big").offers(cpu=4, pods=20).labelled(disk="big"),
            storage.a_class("hand", by="kubernetes.io/no-provisioner"),
            *self.victim.others(),
            devices.a_device_class(),
            *(devices.a_slice(f"n{n}", "a", "b") for n in range(1, NODES)),
        )
        for name in ("one", "two"):
            sim.create(storage.a_volume(name, of="hand"), storage.a_claim(name, of="hand"))
            sim.create(storage.a_volume(f"spare-{name}", of="hand"))
            sim.create(devices.a_claim(f"cards-{name}").asks())
        sim.cluster.create(a_queue_manifest("q", weight=1))
        self._uid = sim.cluster.create(self.victim.manifest())["metadata"]["uid"]
        low = a_pod("low").needs(cpu=4).on("big").labelled(app="low")
        sim.create(*with_priority(0, low.with_spec(terminationGracePeriodSeconds=0)))
        self._create(a_pod("early").needs(cpu=1))

    async def run(self, fault: Fault | None) -> None:
        """Let it all happen, with the fault inside if given; then lift it and edit the victim."""
        self._set_up()
        volumes = VolumeHarness(self.sim).loop
        async with (
            volumes.running(),
            running_kubelets(self.sim.cluster),
            self.sim.scheduler() as scheduler,
        ):
            if fault is None:
                await self._happen()
            else:
                with fault.injected():
                    await self._happen()
                    await self.sim.until(lambda: not self._unbound(), within=60)
                change = {"metadata": {"labels": {"edited": "yes"}}}
                self.sim.request("PATCH", self.victim.path, change, MERGE)
            await self.sim.until(lambda: not self._unbound(), within=60)
            await self.sim.until(lambda: not scheduler.engine.barrier.quarantine, within=800)
            scheduler.engine.check_consistent()
            self.restarts = scheduler.core_restarts

    def _create(self, *pods: PodBuilder) -> None:
        self.sim.create(*(pod.selects(disk="small") for pod in pods))
        self.others += [pod.manifest()["metadata"]["name"] for pod in pods]

    def _of_victim(self, pod: PodBuilder) -> PodBuilder:
        """A pod of an owner that the server has given its uid."""
        owners = pod.manifest()["metadata"].get("ownerReferences")
        if not owners:
            return pod
        return pod._set("metadata", ownerReferences=[{**owners[0], "uid": self._uid}])

    async def _happen(self) -> None:
        sim = self.sim
        await asyncio.sleep(1)
        sim.create(*map(self._of_victim, self.victim.pods()))
        self._create(a_pod("lone-1").needs(cpu=1), *members("g", 3))
        near = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "disk"}
        near |= {"namespaceSelector": {"matchLabels": {"team": "a"}}}
        wish = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
        self._create(a_pod("choosy").needs(cpu=1).with_spec(affinity=wish))
        sim.create(*with_priority(9, a_pod("high").needs(cpu=4).selects(disk="big")))
        self.others.append("high")
        await asyncio.sleep(1)
        sim.patch("node", "n1", {"metadata": {"labels": {"zone": "a"}}})
        self._create(a_pod("lone-2").needs(cpu=1).in_queue("q"))
        self._create(a_pod("store-1").with_claim("one"), a_pod("store-2").with_claim("two"))
        for name in ("one", "two"):
            self._create(devices.claiming(a_pod(f"cards-{name}").needs(cpu=1), f"cards-{name}"))
        await asyncio.sleep(2)
        change = {"metadata": {"labels": {"color": "red"}}}
        sim.request("PATCH", self.victim.path, change, MERGE)
        sim.delete("pod", "lone-1")
        self.others.remove("lone-1")
        self._create(*members("h", 2), a_pod("lone-3").needs(cpu=2))
        await asyncio.sleep(12)

    def _unbound(self) -> list[str]:
        return [name for name in self.others if not self.sim.node_of(name)]


@pytest.mark.parametrize("name", VICTIMS)
async def test_whatever_raises_about_an_object_pods_that_do_not_need_it_go_on(name: str) -> None:
    with recorded("victim") as found:
        await World(VICTIMS[name]).run(None)
    assert len(found) > 5, "the victim was hardly looked at"
    rng = random.Random(zlib.crc32(name.encode()))
    # What only hands all nodes on to plugins is left out.
    inner = [each for each in found if not each.module.startswith("arranger.framework.runtime")]
    for callee, after, times in sample(inner, rng, COUNT):
        await inject_one(name, Fault(callee, "victim", after, times))


async def inject_one(name: str, fault: Fault) -> World:
    """Run the world of a victim with a fault."""
    world = World(VICTIMS[name])
    try:
        await world.run(fault)
    except BaseException as error:
        error.add_note(f"{name}: {fault}; not bound: {world._unbound()}")
        raise
    return world


#: Faults that hurt others once.
FOUND: list[tuple[str, Callee, bool, int | None]] = [
    ("a node", Callee("arranger.plugins.nodes.taint_toleration", "TaintToleration", "filter"), *f)
    for f in ((False, None), (True, None))
] + [
    (name, Callee(module, owner, method), after, None)
    for name, module, owner, method, after in (
        ("a node", "arranger.plugins.resources.node_resources_fit", "", "_lack", False),
        ("a node", "arranger.engine.pod.scheduling_cycle", "SchedulingCycle", "_reserve", True),
        (
            "a queue",
            "arranger.engine.queue.order.queue_order",
            "FairShareOrder",
            "queue_rank",
            False,
        ),
    )
]


@pytest.mark.parametrize(("name", "callee", "after", "times"), FOUND, ids=str)
async def test_so_it_is_where_others_suffered_once(
    name: str, callee: Callee, after: bool, times: int | None
) -> None:
    fault = Fault(callee, "victim", after, times)
    await inject_one(name, fault)
    assert fault.met
