"""Faults of the fault matrix by others: F10 nodes change, F13 other schedulers place pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.builders import PodBuilder, a_node, a_pod
from tests.faults.injector import BINDINGS, LEASES
from tests.faults.kinds import ConcurrentAction
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME


def big(name: str) -> PodBuilder:
    """A pod that leaves a node of 4 CPU no room for another of its size."""
    return a_pod(name).needs(cpu=3)


# --- F10: nodes change between the decision and the binding ------------------------------------


async def test_f10_a_node_deleted_under_a_binding_counts_its_pod_when_it_is_back(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=1)
    sim.create(big("first"))
    sim.faults.inject(BINDINGS, ConcurrentAction(lambda: sim.delete("node", "n0")), times=1)
    async with sim.scheduler():
        await sim.until_settled(1)  # the server does not look whether the node exists
        sim.create(big("second"))
        await sim.until(lambda: sim.message("second") == "no nodes available to schedule pods")
        sim.create_nodes_and_pods(nodes=1)  # n0 again
        await sim.until(lambda: "1 Insufficient cpu." in sim.message("second"))
        sim.delete("pod", "first")
        await sim.until(lambda: sim.node_of("second") == "n0")


async def test_f10_a_node_deleted_and_added_anew_at_once_loses_no_pod(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=1)
    sim.create(big("first"))

    def replace() -> None:
        sim.delete("node", "n0")
        sim.create(a_node("n0").offers(cpu=6))

    sim.faults.inject(BINDINGS, ConcurrentAction(replace), times=1)
    async with sim.scheduler():
        await sim.until_settled(1)
        sim.create(big("second"), big("third"))
        await sim.until(lambda: sim.bound() == 2)
        await sim.until(lambda: "Insufficient cpu" in sim.message("third"))


EDITS: dict[str, dict[str, Any]] = {
    "cordoned": {"spec": {"unschedulable": True}},
    "tainted": {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
    "shrunk": {"status": {"allocatable": {"cpu": "2"}}},
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
async def test_f10_a_node_edited_under_a_binding_gets_that_pod_and_no_other(
    sim: SimulationHarness, edit: dict[str, Any]
) -> None:
    sim.create_nodes_and_pods(nodes=1)
    sim.create(a_pod("first").needs(cpu=2, memory="1Gi"))
    sim.may_exceed_capacity.add("n0")
    sub = "/status" if "status" in edit else ""
    hit = sim.faults.inject(
        BINDINGS, ConcurrentAction(lambda: sim.patch("node", "n0", edit, sub=sub)), times=1
    )
    async with sim.scheduler():
        await sim.until_settled(1)
        sim.create(a_pod("second").needs(cpu=1))
        await sim.until(lambda: bool(sim.message("second")))
        await asyncio.sleep(30)
        assert sim.bound() == 1
        sim.create_nodes_and_pods(nodes=1)
        await sim.until(lambda: sim.node_of("second") == "n1")
    assert hit.matched


# --- F13: others place pods, too ---------------------------------------------------------------


async def test_f13_pods_of_another_scheduler_take_room_as_soon_as_they_are_seen(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=1)
    sim.create(big("theirs").for_scheduler("other"), a_pod("by-hand").needs(cpu=1).on("n0"))
    path = "/api/v1/namespaces/default/pods/theirs/binding"
    sim.request("POST", path, {"metadata": {"name": "theirs"}, "target": {"name": "n0"}})
    async with sim.scheduler():
        sim.create(a_pod("ours").needs(cpu=1))
        await sim.until(lambda: "1 Insufficient cpu." in sim.message("ours"))
        sim.patch("pod", "theirs", {"status": {"phase": "Succeeded"}}, sub="/status")
        await sim.until(lambda: sim.node_of("ours") == "n0")


async def test_f13_a_race_with_another_scheduler_costs_one_pod_too_many_and_no_more(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=2)
    sim.create(big("ours"), big("next"), big("after"))
    sim.may_exceed_capacity.add("n0")

    def by_hand() -> None:
        sim.create(big("theirs").for_scheduler("other").on("n0"))

    sim.faults.inject(
        lambda call: BINDINGS(call) and call.json["target"]["name"] == "n0",
        ConcurrentAction(by_hand),
        times=1,
    )
    async with sim.scheduler() as scheduler:
        await sim.until(lambda: sim.bound() == 3)
        await asyncio.sleep(120)
        on = [sim.node_of(name) for name in ("theirs", "ours", "next", "after")]
        assert sorted(on) == ["", "n0", "n0", "n1"]
        scheduler.engine.check_consistent()


async def test_f13_pods_of_other_schedulers_are_never_touched(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=1)
    sim.create(*(a_pod(f"p{n}").for_scheduler("default-scheduler") for n in range(3)))
    async with sim.scheduler():
        await asyncio.sleep(60)
    assert sim.bound() == 0
    assert not sim.faults.received(~LEASES)
