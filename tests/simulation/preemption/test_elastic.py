"""Elastic gangs: members beyond the minimum go first, and come back when room is idle."""

from __future__ import annotations

import asyncio
import random

import pytest

from arranger.daemon.config.schema import GangConfig
from tests.simulation.harnesses.gangs import members
from tests.simulation.harnesses.preemption import PreemptionHarness, with_priority
from tests.simulation.harnesses.simulation import CONFIG, VIRTUAL_TIME

pytestmark = VIRTUAL_TIME

PLANNED = CONFIG.model_copy(
    update={
        "gangs": GangConfig(
            starvation_after_seconds=5, reservation_seconds=3600, reservation_max_nodes_percent=100
        )
    }
)


def made_anew(sim: PreemptionHarness, gang: str, size: int, least: int) -> None:
    """What owns a gang makes the members again that it has lost."""
    there = {pod["metadata"]["name"] for pod in sim.pods_of(gang)}
    gone = (m for m in members(gang, size, least) if m.manifest()["metadata"]["name"] not in there)
    sim.create(*with_priority(1, *gone))


async def test_a_gang_that_gave_its_surplus_grows_again_where_room_is_idle(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(4)
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(1, *members("old", 4, 2)))
        await sim.until_settled(4)
        sim.create(*with_priority(5, *members("new", 2)))
        await sim.until(lambda: len(sim.placed("new")) == 2)
        made_anew(sim, "old", 4, 2)
        await asyncio.sleep(600)
        assert len(sim.placed("old")) == 2, "nobody leaves for members beyond the minimum"
        for left in (1, 0):
            sim.delete("pods", f"new-{left}")
            await sim.until(lambda left=left: len(sim.placed("old")) == 4 - left)  # type: ignore[misc]
        assert len(sim.evicted()) == 2


@pytest.mark.parametrize("seed", range(3))
async def test_through_many_tides_it_keeps_its_minimum_and_uses_what_is_idle(
    sim: PreemptionHarness, seed: int
) -> None:
    rng = random.Random(seed)
    sim.nodes(3, 3)
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(1, *members("old", 6, 2)))
        await sim.until_settled(6)
        for tide in range(6):
            size = rng.randint(1, 4)
            sim.create(*with_priority(5, *members(f"tide-{tide}", size)))
            await sim.until(lambda g=f"tide-{tide}", n=size: len(sim.placed(g)) == n)  # type: ignore[misc]
            await asyncio.sleep(60)
            assert len(sim.placed("old")) == 6 - size, "as many as have to, and no more"
            made_anew(sim, "old", 6, 2)
            await asyncio.sleep(30)
            for n in range(size):
                sim.delete("pods", f"tide-{tide}-{n}")
            await sim.until(lambda: len(sim.placed("old")) == 6)
            await asyncio.sleep(1800)  # the writes of an hour are bounded, by the names of pods


async def test_it_grows_beside_a_planned_start_and_does_not_delay_it(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(7)
    async with sim.scheduler(config=PLANNED), sim.kubelets():
        sim.create(*with_priority(1, *members("old", 7, 2)))
        await sim.until_settled(7)
        ends = 300
        new = [m.with_spec(activeDeadlineSeconds=ends) for m in members("new", 4)]
        sim.create(*with_priority(5, *new))
        await sim.until(lambda: len(sim.placed("new")) == 4)
        began = asyncio.get_running_loop().time()
        assert len(sim.placed("old")) == 3, "surplus leaves, and no more of it than has to"
        sim.delete("pod", min(sim.placed("old")))
        sim.create(*with_priority(1, *members("next", 3)))
        await asyncio.sleep(30)
        made_anew(sim, "old", 7, 2)
        await sim.until(lambda: len(sim.placed("old")) == 3)  # the node that nobody will need
        await asyncio.sleep(began + ends - 5 - asyncio.get_running_loop().time())
        assert len(sim.placed("old")) == 3, "the others would delay it"
        assert "known ends" in sim.message("next-0")
        # Their kubelets end the new ones.
        await sim.until(lambda: len(sim.placed("next")) == 3, within=10)
        await sim.until(lambda: len(sim.placed("old")) == 4)
        await asyncio.sleep(600)
        assert (len(sim.placed("old")), len(sim.placed("next"))) == (4, 3)
