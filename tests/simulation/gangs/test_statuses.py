"""What is written of gangs is true once the world is quiet, whatever has happened.

Random worlds without controllers: gangs come, their pods are deleted and made anew, and the
scheduler is killed at any moment. A model that has seen everything says what must be known.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.builders import a_node, a_pod
from tests.simulation.harnesses.gang_statuses import (
    gangs_with_held_nodes,
    recorded_gangs,
    satisfied_gangs,
    waiting_gangs,
)
from tests.simulation.harnesses.gangs import GangHarness
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME

#: Seconds after which everything is written, with the time that a successor needs to lead.
QUIET = 45.0


class RandomWorld:
    """Gangs ``g0`` to ``g3`` on six CPUs, and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sim = GangHarness(seed)
        self.sim.may_be_partial |= {f"default/g{n}" for n in range(4)}
        self.sim.create(*(a_node(f"n{n}").offers(cpu=2) for n in range(3)))
        self.least = {f"g{n}": self.rng.randint(2, 3) for n in range(4)}
        self.mode = {gang: self.rng.choice(["Strict", "NonStrict"]) for gang in self.least}
        self.born = 0
        #: Gangs that were complete, and had not been recorded, when a scheduler died.
        self.forgotten: set[str] = set()

    def happen(self) -> None:
        """A pod is made or deleted."""
        gang = self.rng.choice(sorted(self.least))
        pods = [pod["metadata"]["name"] for pod in self.sim.pods_of(gang)]
        if pods and self.rng.random() < 0.45:
            self.sim.delete("pod", self.rng.choice(pods))
        elif len(pods) < 4:
            self.born += 1
            pod = a_pod(f"{gang}-{self.born}").needs(cpu=1)
            self.sim.create(pod.in_gang(gang, self.least[gang], mode=self.mode[gang]))

    async def live(self) -> None:
        """Lives of schedulers, each with events at random intervals; the last one is checked."""
        for life in range(3):
            async with self.sim.scheduler() as scheduler:
                await asyncio.sleep(self.rng.choice([0.0, 16.0]))
                for _ in range(self.rng.randint(2, 12)):
                    self.happen()
                    await asyncio.sleep(self.rng.choice([0.0, 0.3, 2.0, 6.0]))
                if life == 2 or self.rng.random() < 0.5:
                    await asyncio.sleep(QUIET)
                    self.check(scheduler.engine.registry.gangs)
                known = satisfied_gangs(self.sim.history)
                self.forgotten |= known - recorded_gangs(self.sim)
                dead = self.sim.crash()
            for _ in range(self.rng.randint(0, 3)):
                self.happen()
            await asyncio.sleep(1)
            dead.stop()

    def check(self, gangs: object) -> None:
        """The objects, the scheduler and the model say the same."""
        assert isinstance(gangs, dict)
        truth = satisfied_gangs(self.sim.history)
        found = {name for name, gang in gangs.items() if gang.satisfied}
        assert found - self.forgotten == truth - self.forgotten, "what the scheduler knows"
        assert recorded_gangs(self.sim) == found, "what the objects say"
        self.forgotten &= truth - found
        assert waiting_gangs(self.sim) >= gangs_with_held_nodes(self.sim), "what is held"


@pytest.mark.parametrize("first", range(0, 40, 10))
async def test_what_is_known_of_a_gang_survives_any_restart(first: int) -> None:
    for seed in range(first, first + 10):
        world = RandomWorld(seed)
        try:
            await world.live()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
