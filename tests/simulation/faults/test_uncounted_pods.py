"""What a pod holds stays taken, even where our code can count it in no way at all.

A pod that is on a node makes each callable that is given it raise, always, for many minutes, while
more pods wait than there is room for, nodes report, are edited, and the scheduler is killed. The
specification judges each Binding. ``ARRANGER_INJECTED_FAULTS`` says how many faults are tried; 0
for all.
"""

from __future__ import annotations

import asyncio
import os
import random
import zlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count

import pytest

from tests.builders import PodBuilder, a_node, a_pod
from tests.faults.callables import Callee, Fault, recorded
from tests.faults.sampling import sample
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.gangs import DEFINITIONS
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, Object, SimulationHarness

pytestmark = VIRTUAL_TIME

COUNT = int(os.environ.get("ARRANGER_INJECTED_FAULTS", "6"))
#: Seconds between two things that happen, how many do, and after how many the scheduler is killed.
STEP, STEPS, KILLED = 15, 48, 20


@dataclass(frozen=True)
class Holding:
    """Something that a pod on a node holds, and others want.

    Attributes:
        pod: who holds it, or wants it, once it is named.
        others: how many of the others have room in all, beside the victim.
        objects: what there must be.
    """

    pod: Callable[[str], PodBuilder]
    others: int
    objects: list[Object] = field(default_factory=list)


def queued(name: str) -> PodBuilder:
    return a_pod(name).needs(cpu=1).in_queue("q")


def exclusive(key: str, name: str, *, labels: bool = True, terms: bool = True) -> PodBuilder:
    """A pod that no other with its label may be near, and that may not be near these."""
    near = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": key}
    wish = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    pod = a_pod(name).needs(cpu=1 if name == "victim" else 3)
    pod = pod.labelled(app="x") if labels else pod
    return pod.with_spec(affinity=wish) if terms else pod


HOSTNAME = "kubernetes.io/hostname"

HOLDINGS = {
    "a node, by what it says itself": Holding(
        lambda name: exclusive(HOSTNAME, name, labels=name != "victim", terms=name == "victim"), 2
    ),
    "a node, by its label": Holding(
        lambda name: exclusive(HOSTNAME, name, terms=name != "victim"), 2
    ),
    "its requests": Holding(lambda name: a_pod(name).needs(cpu=3), 2),
    "a host port": Holding(lambda name: a_pod(name).host_port(8080), 2),
    "what its queue may use": Holding(
        queued, 1, [*DEFINITIONS, a_queue_manifest("q", capability={"cpu": "2"})]
    ),
}


class CrowdedWorld:
    """Three nodes, of which the victim is on the first, and more pods than have room."""

    def __init__(self, holding: Holding) -> None:
        self.sim = SimulationHarness()
        self.sim.trace.expect_faults()
        self.sim.writes_per_pod = 120  # how often a pod is told is judged elsewhere
        self.holding = holding
        self._numbers = count()

    async def run(self, fault: Fault | None) -> None:
        """Let it all happen with the fault inside, if given; then lift it and edit the victim."""
        sim = self.sim
        for each in self.holding.objects:
            sim.cluster.create(each)
        sim.create(*(a_node(f"n{n}").offers(cpu=4, pods=20) for n in range(3)))
        sim.create(self.holding.pod("victim").on("n0"))
        async with AsyncExitStack() as schedulers:
            scheduler = await schedulers.enter_async_context(sim.scheduler())
            if fault is None:
                for step in range(5):
                    await self._happen(step)
            else:
                with fault.injected():
                    for step in range(STEPS):
                        await self._happen(step)
                        if step == KILLED:
                            sim.kill()
                            scheduler = await schedulers.enter_async_context(sim.scheduler("two"))
                sim.trace.check()
                sim.patch("pod", "victim", {"metadata": {"labels": {"edited": "yes"}}})
            quarantine = scheduler.engine.barrier.quarantine
            await sim.until(lambda: not quarantine, within=700)
            await sim.until(lambda: self.bound() == self.holding.others, within=60)
            scheduler.engine.check_consistent()
        sim.check()

    def bound(self) -> int:
        """How many of the others are on nodes."""
        return self.sim.bound() - 1

    async def _happen(self, step: int) -> None:
        sim = self.sim
        sim.create(self.holding.pod(f"p{next(self._numbers)}"))
        waiting = [p["metadata"]["name"] for p in sim.cluster.objects("pods")]
        if step % 6 == 5:  # somebody else leaves
            leaver = next((n for n in waiting if n != "victim" and sim.node_of(n)), None)
            if leaver is not None:
                sim.delete("pod", leaver)
        beat = {"type": "Ready", "status": "True", "message": f"the beat of step {step}"}
        sim.patch("node", "n0", {"status": {"conditions": [beat]}}, sub="/status")
        if step % 4 == 3:
            sim.patch("node", "n0", {"metadata": {"labels": {"edited": str(step)}}})
        await asyncio.sleep(STEP)


@pytest.mark.parametrize("name", HOLDINGS)
async def test_what_cannot_be_counted_stays_taken(name: str) -> None:
    with recorded("victim") as found:
        await CrowdedWorld(HOLDINGS[name]).run(None)
    assert len(found) > 20, "the victim was hardly looked at"
    rng = random.Random(zlib.crc32(name.encode()))
    for callee, after, times in sample(found, rng, COUNT):
        await inject(name, Fault(callee, "victim", after, times))


async def inject(name: str, fault: Fault) -> None:
    try:
        await CrowdedWorld(HOLDINGS[name]).run(fault)
    except BaseException as error:
        error.add_note(f"{name}: {fault}")
        raise


#: Faults with which there was room that was not there.
FOUND: list[tuple[str, Callee, bool]] = [
    # Not even what stands for the pod could be counted: its node came back after a second.
    *(
        ("its requests", Callee("arranger.cluster.nodes.placed_pods", "PlacedPods", "add"), after)
        for after in (False, True)
    ),
    ("its requests", Callee("arranger.quota.ledger", "QuotaLedger", "on_pod_moved"), True),
    # What need not be counted raised, and with it what was.
    ("its requests", Callee("arranger.engine.run_time.enforcer", "RunTimeEnforcer", "_due"), True),
    # What stood for a pod had no ports.
    ("a host port", Callee("arranger.daemon.informer_handlers", "", "creation_time"), False),
    ("a host port", Callee("arranger.engine.handlers.initial_objects", "", "key_of"), True),
    ("a host port", Callee("arranger.cluster.affinity_terms", "", "affinity_terms_of"), False),
    # A Queue that was set aside limited nobody.
    (
        "what its queue may use",
        Callee("arranger.quota.preemption.policy", "QueuePreemptionPolicy", "can_preempt"),
        False,
    ),
    # A charge that could not be worked out was none.
    ("what its queue may use", Callee("arranger.quota.ledger", "QuotaLedger", "charge"), False),
    # What stood for a pod had no queue.
    (
        "what its queue may use",
        Callee("arranger.daemon.informer_handlers", "", "creation_time"),
        False,
    ),
]


@pytest.mark.parametrize(("name", "callee", "after"), FOUND, ids=str)
async def test_so_it_does_where_it_did_not(name: str, callee: Callee, after: bool) -> None:
    fault = Fault(callee, "victim", after)
    await inject(name, fault)
    assert fault.met
