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

import pytest

from arranger.daemon.informers import COLLECTION_PATHS
from tests import devices, storage
from tests.builders import PodBuilder, a_node, a_pod
from tests.faults.callables import Callee, Fault, recorded
from tests.faults.sampling import sample
from tests.queueing import a_queue_manifest
from tests.simulation.faults.victims import VICTIMS, Victim, small_node
from tests.simulation.harnesses.controllers import native_pod_groups
from tests.simulation.harnesses.gangs import DEFINITIONS, members
from tests.simulation.harnesses.kubelets import running_kubelets
from tests.simulation.harnesses.preemption import with_priority
from tests.simulation.harnesses.simulation import MERGE, VIRTUAL_TIME, SimulationHarness
from tests.simulation.harnesses.volumes import VolumeHarness
from tests.simulation.harnesses.workloads import definition_of

pytestmark = VIRTUAL_TIME

COUNT = int(os.environ.get("ARRANGER_INJECTED_FAULTS", "4"))
NODES = 4


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
            *(small_node(f"n{n}") for n in range(NODES)),
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
        ("a pod group of Volcano", "arranger.gangs.gang", "Gang", "set_pod_group", True),
        ("a gang", "arranger.engine.gang.state.gang_objects", "GangObjects", "_is_outdated", False),
        ("a gang", "arranger.engine.gang.state.gang_objects", "GangObjects", "_reconcile", False),
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
