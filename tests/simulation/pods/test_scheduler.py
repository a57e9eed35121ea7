"""The whole scheduler against the embedded API server in virtual time, while all goes well."""

from __future__ import annotations

import asyncio

from tests.builders import a_node, a_pod
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME


async def test_a_pod_without_room_is_told_why_and_woken_by_a_deletion(
    sim: SimulationHarness,
) -> None:
    sim.create(a_node("n1").offers(cpu=1), a_pod("first").needs(cpu=1))
    async with sim.scheduler():
        await sim.until_settled(1)
        sim.create(a_pod("second").needs(cpu=1))
        await sim.until(lambda: bool(sim.pod("second")["status"].get("conditions")))
        (condition,) = sim.pod("second")["status"]["conditions"]
        assert condition["message"] == (
            "0/1 nodes are available: 1 Insufficient cpu. preemption: "
            "0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )
        sim.delete("pod", "first")
        await sim.until(lambda: sim.node_of("second") == "n1")


async def test_a_gated_pod_is_scheduled_once_its_gate_is_gone(sim: SimulationHarness) -> None:
    sim.create(a_node("n1"), a_pod("p").gated("wait"))
    async with sim.scheduler():
        await asyncio.sleep(30)
        assert sim.bound() == 0
        sim.patch("pod", "p", {"spec": {"schedulingGates": None}})
        await sim.until(lambda: sim.bound() == 1, within=5)


async def test_memory_is_given_back_when_everything_is_gone(sim: SimulationHarness) -> None:
    sim.create(*(a_node(f"n{n}") for n in range(3)), *(a_pod(f"p{n}") for n in range(20)))
    async with sim.scheduler() as scheduler:
        await sim.until_settled(20)
        for n in range(20):
            sim.delete("pod", f"p{n}")
        for n in range(3):
            sim.delete("node", f"n{n}")
        await sim.until(lambda: not scheduler.engine.cluster.table.count)
        assert not len(scheduler.engine.cluster)
        assert not scheduler.engine.pods()
        assert not len(scheduler.engine.queue)


async def test_the_time_of_every_attempt_is_measured(sim: SimulationHarness) -> None:
    sim.create(a_node("n1").offers(cpu=10), *(a_pod(f"p{n}").needs(cpu=1) for n in range(5)))
    async with sim.scheduler() as scheduler:
        await sim.until_settled(5)
        metrics = scheduler.metrics.registry
    duration = "scheduler_scheduling_algorithm_duration_seconds"
    assert metrics.get_sample_value(f"{duration}_count") == 5
    assert (metrics.get_sample_value(f"{duration}_sum") or 0) > 0
