"""Faults of our own code: whatever raises about one object, only that object suffers.

A world is run once without faults, to see which callables of ours are given the victim; then again
for each of these, which now raises about the victim, before or after it has done its work.
``ARRANGER_INJECTED_FAULTS`` says how many are tried; 0 for all.
"""

from __future__ import annotations

import asyncio
import os
import random
import zlib
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from tests.builders import PodBuilder, a_node, a_pod
from tests.faults.callables import Callee, Fault, recorded
from tests.faults.sampling import sample
from tests.simulation.harnesses.gangs import members
from tests.simulation.harnesses.kubelets import running_kubelets
from tests.simulation.harnesses.preemption import with_priority
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME

COUNT = int(os.environ.get("ARRANGER_INJECTED_FAULTS", "6"))
REASONS = ("Quarantined", "FailedScheduling", "FailedBinding", "Preempted")


@dataclass(frozen=True)
class Victim:
    """The pods among which the victim is.

    Attributes:
        pods: it is ``victim``; those that wait with it suffer with it.
        bound: whether it is on a node from the beginning.
        needed: whether those of its gang wait with it; if not, two of them must be placed.
    """

    pods: Callable[[], list[PodBuilder]]
    bound: bool = False
    needed: bool = True


def strict_gang() -> list[PodBuilder]:
    one, *others = members("v", 3)
    return [_named(one, "victim"), *others]


def holding_gang() -> list[PodBuilder]:
    one, *others = members("v", 3, mode="NonStrict")
    return [_named(one, "victim"), *others]


def gang_with_one_to_spare() -> list[PodBuilder]:
    one, *others = members("v", 3, 2)
    return [_named(one, "victim"), *others]


def _named(pod: PodBuilder, name: str) -> PodBuilder:
    return type(pod)({**pod.manifest(), "metadata": {**pod.manifest()["metadata"], "name": name}})


def _names(pods: Iterable[PodBuilder]) -> list[str]:
    return [pod.manifest()["metadata"]["name"] for pod in pods]


VICTIMS = {
    "a lone pod": Victim(lambda: [a_pod("victim").needs(cpu=1)]),
    "a pod that evicts another": Victim(
        lambda: with_priority(9, a_pod("victim").needs(cpu=4).selects(disk="big"))
    ),
    "a pod that fits nowhere": Victim(lambda: [a_pod("victim").needs(cpu=4).selects(disk="none")]),
    "a member of a gang": Victim(strict_gang),
    "a member of a gang that holds nodes": Victim(holding_gang),
    "a member that its gang can do without": Victim(gang_with_one_to_spare, needed=False),
    "a pod on a node": Victim(lambda: [a_pod("victim").needs(cpu=1).on("n0")], bound=True),
    "a pod on a node that others avoid": Victim(
        lambda: [a_pod("victim").needs(cpu=1).apart("zone", {"app": "a"}).on("n0")], bound=True
    ),
}


class FaultyWorld:
    """A small cluster in which most of what can happen happens to the victim and to others."""

    def __init__(self, victim: Victim, seed: int = 1) -> None:
        self.sim = SimulationHarness(seed)
        self.sim.trace.expect_faults()
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        for value in (0, 9):
            self.sim.cluster.create({**head, "metadata": {"name": f"p{value}"}, "value": value})
        self.victim = victim
        self.others: list[str] = []
        self.restarts = 0

    async def run(self, fault: Fault | None, *, crash_after: float | None = None) -> None:
        """Let it all happen, with the fault inside if given; then lift it and edit the victim.

        With ``crash_after`` the scheduler is killed so many seconds after the start, and another
        takes its place.
        """
        sim = self.sim
        small = [a_node(f"n{n}").offers(cpu=4, pods=20).labelled(disk="small") for n in range(4)]
        sim.create(*small)
        sim.create(a_node("big").offers(cpu=4, pods=20).labelled(disk="big"))
        low = a_pod("low").needs(cpu=4).on("big").with_spec(terminationGracePeriodSeconds=0)
        sim.create(*with_priority(0, low))
        if self.victim.bound:
            sim.create(*self.victim.pods())
        self._create(a_pod("early").needs(cpu=1))
        async with running_kubelets(self.sim.cluster), AsyncExitStack() as schedulers:
            scheduler = await schedulers.enter_async_context(sim.scheduler())
            if fault is None:
                await self._happen()
            else:
                with fault.injected():
                    happening = asyncio.create_task(self._happen())
                    if crash_after is not None:
                        await asyncio.sleep(crash_after)
                        sim.kill()
                        scheduler = await schedulers.enter_async_context(sim.scheduler("two"))
                    await happening
                    await self.sim.until(lambda: not self._unbound(), within=60)
                    if fault.met:
                        self._check_told()
                sim.patch("pod", "victim", {"metadata": {"labels": {"edited": "yes"}}})
            await sim.until(lambda: not self._unbound(), within=60)
            if self.has_place:
                await sim.until(lambda: bool(sim.node_of("victim")), within=400)
            await sim.until(lambda: not scheduler.engine.barrier.quarantine, within=400)
            scheduler.engine.check_consistent()
            self.restarts = scheduler.core_restarts

    @property
    def has_place(self) -> bool:
        """Whether the victim can be placed."""
        return "none" not in str(self.victim.pods()[0].manifest()["spec"].get("nodeSelector"))

    def _create(self, *pods: PodBuilder) -> None:
        self.sim.create(*(pod.selects(disk="small") for pod in pods))
        self.others += _names(pods)

    async def _happen(self) -> None:
        sim = self.sim
        await asyncio.sleep(1)
        if not self.victim.bound:
            sim.create(*self.victim.pods())
        self._create(a_pod("lone-1").needs(cpu=1), *members("g", 3))
        await asyncio.sleep(1)
        sim.patch("node", "n1", {"metadata": {"labels": {"zone": "a"}}})
        self._create(a_pod("lone-2").needs(cpu=1).labelled(app="a"))
        sim.patch("pod", "victim", {"metadata": {"labels": {"color": "red"}}})
        await asyncio.sleep(2)
        sim.delete("pod", "lone-1")
        self.others.remove("lone-1")
        self._create(*members("h", 2), a_pod("lone-3").needs(cpu=2))
        await asyncio.sleep(12)

    def _unbound(self) -> list[str]:
        unbound = [name for name in self.others if not self.sim.node_of(name)]
        gang = [] if self.victim.needed else _names(self.victim.pods())
        placed = [name for name in gang if self.sim.node_of(name)]
        return unbound + (gang if gang and len(placed) < 2 else [])

    def _check_told(self) -> None:
        told = set(_names(self.victim.pods()))
        events = self.sim.cluster.objects("events", "events.k8s.io")
        reasons = {event["reason"] for event in events if event["regarding"]["name"] in told}
        assert reasons & set(REASONS) or self.sim.node_of("victim"), reasons


#: Faults that hurt others once.
FOUND: list[tuple[str, Callee, bool, int | None]] = [
    # Not even what stands for the pod could be counted, at the next start either.
    *(
        (name, Callee("arranger.cluster.nodes.placed_pods", "PlacedPods", "add"), after, None)
        for name in ("a pod on a node", "a pod on a node that others avoid")
        for after in (False, True)
    ),
    *(
        (
            "a lone pod",
            Callee("arranger.engine.context.pending_effects", "PendingEffects", "awaits"),
            *when,
        )
        for when in ((False, None), (True, 1))
    ),
    # The last member of a gang bound in part was refused its Binding, and tried again without end.
    ("a member of a gang", Callee("arranger.engine.engine", "Engine", "awaits"), True, None),
    *(
        ("a pod on a node", Callee("arranger.engine.handlers.initial_objects", "", "_rank"), *when)
        for when in ((False, None), (True, 1))
    ),
    *(
        ("a member that its gang can do without", Callee(f"arranger.{module}", *names), after, None)
        for module, *names in (
            ("plugins.queueing.scheduling_gates", "SchedulingGates", "pre_enqueue"),
            ("plugins.dynamicresources.dynamic_resources", "DynamicResources", "pre_enqueue"),
            ("engine.pod.scheduling_cycle", "SchedulingCycle", "place"),
        )
        for after in (False, True)
    ),
    *(
        (
            "a pod that evicts another",
            Callee("arranger.engine.context.pending_effects", "PendingEffects", "send"),
            False,
            times,
        )
        for times in (None, 1)
    ),
    *(
        (
            "a pod that evicts another",
            Callee("arranger.engine.context.pod_events", "", name),
            False,
            None,
        )
        for name in ("object_ref", "pod_key")
    ),
]


@pytest.mark.parametrize("name", [name for name, victim in VICTIMS.items() if victim.needed])
async def test_whatever_raises_about_one_pod_only_that_pod_suffers(name: str) -> None:
    await inject(name, crashes=False)


@pytest.mark.parametrize("name", ["a lone pod", "a member of a gang", "a pod on a node"])
async def test_so_it_is_after_a_crash_at_any_moment(name: str) -> None:
    await inject(name, crashes=True)


@pytest.mark.parametrize(("name", "callee", "after", "times"), FOUND, ids=str)
async def test_so_it_is_where_others_suffered_once(
    name: str, callee: Callee, after: bool, times: int | None
) -> None:
    fault = Fault(callee, "victim", after, times)
    await _inject_one(name, fault, None)
    assert fault.met


async def inject(name: str, *, crashes: bool) -> None:
    """Run the world of a victim again and again, each time with another fault."""
    with recorded("victim") as found:
        await FaultyWorld(VICTIMS[name]).run(None)
    assert len(found) > 20, "the victim was hardly looked at"
    rng = random.Random(zlib.crc32(name.encode()) + crashes)
    for callee, after, times in sample(found, rng, COUNT):
        crash_after = rng.uniform(0.5, 8) if crashes else None
        await _inject_one(name, Fault(callee, "victim", after, times), crash_after)


async def _inject_one(name: str, fault: Fault, crash_after: float | None) -> None:
    world = FaultyWorld(VICTIMS[name])
    try:
        await world.run(fault, crash_after=crash_after)
        world.sim.check()
    except BaseException as error:
        error.add_note(f"{fault}, {crash_after=}")
        raise
