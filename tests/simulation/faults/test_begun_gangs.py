"""What ends a leader while the bindings of a gang begin step by step (F2, F9)."""

from __future__ import annotations

import asyncio

import pytest

from arranger.daemon.scheduler import LeadershipLostError
from tests.builders import a_node
from tests.faults.injector import BINDINGS
from tests.simulation.harnesses.gangs import members
from tests.simulation.harnesses.simulation import (
    VIRTUAL_TIME,
    SimulationHarness,
    block_event_loop,
)

pytestmark = VIRTUAL_TIME

SIZE = 20


@pytest.fixture(autouse=True)
def two_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arranger.engine.pod.binding_cycle.BINDINGS_PER_STEP", 2)


async def until_half_begun(sim: SimulationHarness) -> None:
    """A gang has got its nodes, and some of its bindings have begun, not all."""
    leader = sim.schedulers["one"]
    await sim.until(lambda: leader.synced)
    await asyncio.sleep(5)
    sim.create(*members("g", SIZE))
    unbegun = [True]
    while all(unbegun):
        await asyncio.sleep(0)
        unbegun = [pod.binding is None for pod in leader.engine.pods()] or unbegun
    assert sum(unbegun) > SIZE // 2


@pytest.fixture
def sim(sim: SimulationHarness) -> SimulationHarness:
    sim.create(*(a_node(f"n{n}").offers(cpu=4) for n in range(10)))
    return sim


async def test_f2_who_stops_in_good_order_sends_the_rest(sim: SimulationHarness) -> None:
    async with sim.scheduler("one") as leader:
        await until_half_begun(sim)
        leader.stop()
        assert await sim.wait_until_ended("one") is None
    assert sim.bound() == SIZE


async def test_f2_after_a_sudden_end_the_next_leader_binds_the_rest(
    sim: SimulationHarness,
) -> None:
    async with sim.scheduler("one"):
        await until_half_begun(sim)
        sim.kill("one")
    assert sim.bound() < SIZE
    async with sim.scheduler("two"):
        await sim.until_settled(SIZE)


async def test_f9_whose_lease_is_lost_sends_nothing_more(sim: SimulationHarness) -> None:
    async with sim.scheduler("one") as leader:
        await until_half_begun(sim)
        block_event_loop(20)
        assert not leader.may_write()
        before = len(sim.faults.received(BINDINGS))
        assert isinstance(await sim.wait_until_ended("one"), LeadershipLostError)
        assert len(sim.faults.received(BINDINGS)) == before
    async with sim.scheduler("two"):
        await sim.until_settled(SIZE)
