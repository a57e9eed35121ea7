"""Everything goes wrong at random for a while; when it stops, nothing may show of it."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from arranger.daemon.election import LeadershipLostError
from arranger.daemon.scheduler import Scheduler
from tests.builders import a_node, a_pod
from tests.faults.injector import ALL, BINDINGS, LEASES, READS, WATCHES, WRITES, RequestMatcher
from tests.faults.kinds import (
    Delay,
    DropConnection,
    Reply,
    WatchCut,
    WatchDelay,
    WatchExpiry,
    WatchStall,
)
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME

#: What strikes, whom, and how often a call or a line is struck at most.
FAULTS: list[tuple[RequestMatcher, Any, float]] = [
    (ALL, DropConnection.REFUSED, 0.2),
    (ALL, DropConnection.BEFORE, 0.2),
    (ALL, DropConnection.AFTER, 0.2),
    (WRITES, Delay(4), 0.3),
    (WRITES, Delay(30, after=True), 0.2),
    (READS, Delay(20, after=True), 0.3),
    (WRITES, Reply(429, "TooManyRequests", retry_after=2), 0.4),
    (WRITES, Reply(500, "InternalError", after=True), 0.3),
    (BINDINGS, Reply(503, "ServiceUnavailable"), 1.0),
    (LEASES, DropConnection.BEFORE, 0.5),
    (WATCHES, Reply(410, "Expired"), 0.5),
    (WATCHES, WatchCut(), 0.1),
    (WATCHES, WatchCut(within_line=True, reset=True), 0.1),
    (WATCHES, WatchExpiry(), 0.05),
    (WATCHES, WatchDelay(3), 0.1),
    (WATCHES, WatchStall(), 0.02),
]
NODES, PODS, HOPELESS = 8, 28, {"huge0", "huge1"}
SECONDS = 120
SEEDS = int(os.environ.get("SOAK_SEEDS", "8"))


class Chaos:
    """Does something random to a simulation, again and again, and keeps two schedulers alive.

    Nodes keep their sizes and pods theirs, so that all that is not hopeless fits in the end.
    """

    def __init__(
        self, sim: SimulationHarness, rng: random.Random, schedulers: AsyncExitStack
    ) -> None:
        self._sim = sim
        self._rng = rng
        self._schedulers = schedulers
        self._started = 0
        self._born = 0

    async def run(self) -> None:
        """For :data:`SECONDS`."""
        loop = asyncio.get_running_loop()
        steps = [self._calm, self._renew, self._cordon, self._replace, self._compact, self._crash]
        steps += [self._strike, self._strike, self._strike, self._renew]
        while loop.time() < SECONDS:
            await self.restart_ended_schedulers()
            self._rng.choice(steps)()
            await asyncio.sleep(self._rng.uniform(0.1, 4.0))
        self._sim.faults.clear()
        for n in range(NODES):
            self._sim.patch("node", f"n{n}", {"spec": {"unschedulable": False}})

    async def restart_ended_schedulers(self) -> None:
        """Start what has died anew, as a Deployment would."""
        for name in self._sim.ended_by_themselves():
            assert isinstance(await self._sim.wait_until_ended(name), LeadershipLostError)
        while len(self._sim.alive()) < 2:
            self._started += 1
            scheduler = self._sim.scheduler(f"s{self._started}")
            await self._schedulers.enter_async_context(scheduler)

    def _strike(self) -> None:
        matcher, fault, chance = self._rng.choice(FAULTS)
        self._sim.faults.inject(matcher, fault, probability=self._rng.uniform(0.0, chance))

    def _calm(self) -> None:
        self._sim.faults.clear()

    def _renew(self) -> None:
        """A pod goes and another comes."""
        names = [pod["metadata"]["name"] for pod in self._sim.cluster.objects("pods")]
        self._sim.delete("pod", self._rng.choice([n for n in names if n not in HOPELESS]))
        self._sim.create(a_pod(f"born{self._born}").needs(cpu=1))
        self._born += 1

    def _cordon(self) -> None:
        change = {"spec": {"unschedulable": self._rng.random() < 0.5}}
        self._sim.patch("node", f"n{self._rng.randrange(NODES)}", change)

    def _replace(self) -> None:
        """A node goes and comes back; its pods stay where they are."""
        name = f"n{self._rng.randrange(NODES)}"
        self._sim.delete("node", name)
        self._sim.create(a_node(name).offers(cpu=4))

    def _compact(self) -> None:
        self._sim.cluster.store.compact()

    def _crash(self) -> None:
        self._sim.kill(self._rng.choice(self._sim.alive()))


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_when_the_faults_are_over_everything_is_in_its_place(seed: int) -> None:
    sim = SimulationHarness(seed)
    sim.writes_per_pod = 200
    sim.create_nodes_and_pods(nodes=NODES, pods=PODS)
    sim.create(*(a_pod(name).needs(cpu=64) for name in HOPELESS))
    async with AsyncExitStack() as schedulers:
        chaos = Chaos(sim, random.Random(seed), schedulers)
        await chaos.run()

        def leader() -> Scheduler | None:
            leading = [sim.schedulers[name] for name in sim.alive()]
            return next((each for each in leading if each.may_write()), None)

        def at_rest() -> bool:
            leads = leader()
            if leads is None or sim.bound() != PODS:
                return False
            waiting = {member.pod.pod.metadata.name for member in leads.engine.pods()}
            return waiting == HOPELESS and all(
                leads.engine.cluster.node_of(pod["metadata"]["uid"]) == pod["spec"].get("nodeName")
                for pod in sim.cluster.objects("pods")
            )

        await settle(chaos, at_rest)
        for name in HOPELESS:
            assert "Insufficient cpu" in sim.message(name)
        for pod in sim.cluster.objects("pods"):
            sim.delete("pod", pod["metadata"]["name"])
        for n in range(NODES):
            sim.delete("node", f"n{n}")

        def empty() -> bool:
            leads = leader()
            if leads is None:
                return False
            engine = leads.engine
            known = (len(engine.cluster), engine.cluster.table.count, len(engine.queue))
            return not any(known) and not engine.pods()

        await settle(chaos, empty)
    sim.check()


async def settle(chaos: Chaos, reached: Callable[[], bool]) -> None:
    """Within ten minutes without any fault."""
    async with asyncio.timeout(600):
        while not reached():
            await chaos.restart_ended_schedulers()
            await asyncio.sleep(1)
