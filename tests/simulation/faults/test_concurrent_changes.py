"""Faults of the fault matrix by others: F10 nodes change, F13 other schedulers place pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arranger.embedded.fault_injection import (
    BINDINGS,
    LEASES,
    ConcurrentAction,
)
from tests.builders import PodBuilder, a_node, a_pod
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME


def big(name: str) -> PodBuilder:
    """A pod that leaves a node of 4 CPU no room for another of its size."""
    return a_pod(name).needs(cpu=3)


# --- F10: nodes change between the decision and the binding ------------------------------------


async def test_f10_a_node_deleted_under_a_binding_counts_its_pod_when_it_is_back(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=1)
    stage.create(big("first"))
    stage.faults.inject(BINDINGS, ConcurrentAction(lambda: stage.delete("node", "n0")), times=1)
    async with stage.scheduler():
        await stage.until_settled(1)  # the server does not look whether the node exists
        stage.create(big("second"))
        await stage.until(lambda: stage.message("second") == "no nodes available to schedule pods")
        stage.create_nodes_and_pods(nodes=1)  # n0 again
        await stage.until(lambda: "1 Insufficient cpu." in stage.message("second"))
        stage.delete("pod", "first")
        await stage.until(lambda: stage.node_of("second") == "n0")


async def test_f10_a_node_deleted_and_added_anew_at_once_loses_no_pod(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=1)
    stage.create(big("first"))

    def replace() -> None:
        stage.delete("node", "n0")
        stage.create(a_node("n0").offers(cpu=6))

    stage.faults.inject(BINDINGS, ConcurrentAction(replace), times=1)
    async with stage.scheduler():
        await stage.until_settled(1)
        stage.create(big("second"), big("third"))
        await stage.until(lambda: stage.bound() == 2)
        await stage.until(lambda: "Insufficient cpu" in stage.message("third"))


EDITS: dict[str, dict[str, Any]] = {
    "cordoned": {"spec": {"unschedulable": True}},
    "tainted": {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
    "shrunk": {"status": {"allocatable": {"cpu": "2"}}},
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
async def test_f10_a_node_edited_under_a_binding_gets_that_pod_and_no_other(
    stage: SimulationHarness, edit: dict[str, Any]
) -> None:
    stage.create_nodes_and_pods(nodes=1)
    stage.create(a_pod("first").needs(cpu=2, memory="1Gi"))
    stage.excused.add("n0")
    sub = "/status" if "status" in edit else ""
    hit = stage.faults.inject(
        BINDINGS, ConcurrentAction(lambda: stage.patch("node", "n0", edit, sub=sub)), times=1
    )
    async with stage.scheduler():
        await stage.until_settled(1)
        stage.create(a_pod("second").needs(cpu=1))
        await stage.until(lambda: bool(stage.message("second")))
        await asyncio.sleep(30)
        assert stage.bound() == 1
        stage.create_nodes_and_pods(nodes=1)
        await stage.until(lambda: stage.node_of("second") == "n1")
    assert hit.matched


# --- F13: others place pods, too ---------------------------------------------------------------


async def test_f13_pods_of_another_scheduler_take_room_as_soon_as_they_are_seen(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=1)
    stage.create(big("theirs").for_scheduler("other"), a_pod("by-hand").needs(cpu=1).on("n0"))
    path = "/api/v1/namespaces/default/pods/theirs/binding"
    stage.request("POST", path, {"metadata": {"name": "theirs"}, "target": {"name": "n0"}})
    async with stage.scheduler():
        stage.create(a_pod("ours").needs(cpu=1))
        await stage.until(lambda: "1 Insufficient cpu." in stage.message("ours"))
        stage.patch("pod", "theirs", {"status": {"phase": "Succeeded"}}, sub="/status")
        await stage.until(lambda: stage.node_of("ours") == "n0")


async def test_f13_a_race_with_another_scheduler_costs_one_pod_too_many_and_no_more(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=2)
    stage.create(big("ours"), big("next"), big("after"))
    stage.excused.add("n0")

    def by_hand() -> None:
        stage.create(big("theirs").for_scheduler("other").on("n0"))

    stage.faults.inject(
        lambda call: BINDINGS(call) and call.json["target"]["name"] == "n0",
        ConcurrentAction(by_hand),
        times=1,
    )
    async with stage.scheduler() as scheduler:
        await stage.until(lambda: stage.bound() == 3)
        await asyncio.sleep(120)
        on = [stage.node_of(name) for name in ("theirs", "ours", "next", "after")]
        assert sorted(on) == ["", "n0", "n0", "n1"]
        scheduler.engine.check_consistent()


async def test_f13_pods_of_other_schedulers_are_never_touched(stage: SimulationHarness) -> None:
    stage.create_nodes_and_pods(nodes=1)
    stage.create(*(a_pod(f"p{n}").for_scheduler("default-scheduler") for n in range(3)))
    async with stage.scheduler():
        await asyncio.sleep(60)
    assert stage.bound() == 0
    assert not stage.faults.received(~LEASES)
