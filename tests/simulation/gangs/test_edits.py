"""Gangs that people edit, that have run, or that are many, in virtual time."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.builders import a_node, a_pod
from tests.faults.injector import WRITES
from tests.faults.kinds import Delay
from tests.simulation.harnesses.gangs import (
    KOORDINATOR,
    GangHarness,
    members,
    of_pod_group,
    running_for,
)
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME


# --- what people do meanwhile ------------------------------------------------------------------


async def test_a_member_deleted_while_it_holds_a_node_leaves_it_to_others(
    sim: GangHarness,
) -> None:
    sim.create(a_node("n1").offers(cpu=2), *members("g", 3, mode="NonStrict"))
    async with sim.scheduler() as scheduler:
        await asyncio.sleep(5)
        assert len(scheduler.engine.cluster) == 2
        held = next(m.pod.pod.metadata.name for m in scheduler.engine.pods() if m.node)
        sim.delete("pod", held)
        await asyncio.sleep(30)
        assert not sim.placed("g")
        sim.create(a_node("n2").offers(cpu=1))
        sim.create(*members("g", 1, 3, first=3, mode="NonStrict"))
        await sim.until(lambda: len(sim.placed("g")) == 3)


async def test_a_member_deleted_while_a_strict_gang_waits_is_waited_for(sim: GangHarness) -> None:
    sim.create(a_node("n1").offers(cpu=2), *members("g", 3))
    async with sim.scheduler():
        await asyncio.sleep(5)
        sim.delete("pod", "g-1")
        await sim.stays_unbound("g")  # two would fit
        assert "gang default/g waits for members: 2 of 3 arrived" in sim.condition_message("g-0")
        sim.create(a_node("n2").offers(cpu=1))
        await sim.stays_unbound("g")
        sim.create(*members("g", 1, 3, first=3))
        await sim.until(lambda: len(sim.placed("g")) == 3)


async def test_without_its_podgroup_a_waiting_gang_waits_for_another(sim: GangHarness) -> None:
    sim.pod_group("g", 3)
    sim.create(a_node("n1").offers(cpu=2), *of_pod_group("g", 3))
    async with sim.scheduler():
        await asyncio.sleep(5)
        sim.delete_pod_group("g")
        sim.create(a_node("n2").offers(cpu=2))
        await sim.stays_unbound("g")
        assert "gang default/g waits to be defined" in sim.condition_message("g-0")
        sim.pod_group("g", 2)
        await sim.until(lambda: len(sim.placed("g")) == 3)


async def test_without_its_podgroup_a_running_gang_goes_on_and_is_replaced(
    sim: GangHarness,
) -> None:
    sim.pod_group("g", 3)
    sim.create(a_node("n1").offers(cpu=4), *of_pod_group("g", 3))
    async with sim.scheduler():
        await sim.until_settled(3)
        sim.delete_pod_group("g")
        sim.delete("pod", "g-1")
        sim.create(*of_pod_group("g", 1, first=3))
        await sim.until(lambda: bool(sim.node_of("g-3")))
        assert sim.placed("g") == {"g-0", "g-2", "g-3"}


async def test_a_minimum_raised_above_the_members_keeps_them_waiting(sim: GangHarness) -> None:
    sim.pod_group("g", 3)
    sim.create(a_node("n1").offers(cpu=2), *of_pod_group("g", 3))
    async with sim.scheduler():
        await asyncio.sleep(5)
        sim.edit_pod_group("g", minMember=5)
        sim.create(a_node("n2").offers(cpu=2))
        await sim.stays_unbound("g")
        assert "gang default/g waits for members: 3 of 5 arrived" in sim.condition_message("g-0")
        sim.edit_pod_group("g", minMember=3)
        await sim.until(lambda: len(sim.placed("g")) == 3)


async def test_a_minimum_raised_while_nodes_are_held_is_heeded(sim: GangHarness) -> None:
    sim.pod_group("g", 3)
    note = {KOORDINATOR + "mode": "NonStrict"}
    pods = [pod.annotated(note) for pod in of_pod_group("g", 4)]
    sim.create(a_node("n1").offers(cpu=2), *pods[:3])
    async with sim.scheduler():
        await asyncio.sleep(5)
        sim.edit_pod_group("g", minMember=4)
        sim.create(a_node("n2").offers(cpu=2))
        await sim.stays_unbound("g")
        sim.create(pods[3])
        await sim.until(lambda: len(sim.placed("g")) == 4)


async def test_a_minimum_raised_while_the_gang_runs_changes_nothing_for_it(
    sim: GangHarness,
) -> None:
    sim.pod_group("g", 2)
    sim.create(a_node("n1").offers(cpu=3), *of_pod_group("g", 2))
    async with sim.scheduler():
        await sim.until_settled(2)
        sim.edit_pod_group("g", minMember=5)
        sim.create(*of_pod_group("g", 1, first=2))
        await sim.until_settled(3)
        sim.edit_pod_group("g", minMember=2)


# --- after the gang has run --------------------------------------------------------------------


async def test_members_that_come_after_the_gang_was_complete_go_by_themselves(
    sim: GangHarness,
) -> None:
    sim.create(a_node("n1").offers(cpu=4), *members("g", 4))
    async with sim.scheduler():
        await sim.until_settled(4)
        for n in (1, 2):
            sim.delete("pod", f"g-{n}")
        sim.create(*members("g", 1, 4, first=4))
        await sim.until(lambda: bool(sim.node_of("g-4")), within=5)
        assert sim.placed("g") == {"g-0", "g-3", "g-4"}


@pytest.mark.parametrize(
    ("policy", "alone"),
    [("once-satisfied", True), ("waiting-and-running", True), ("only-waiting", False)],
)
async def test_the_match_policy_says_whether_those_that_ran_count_for_those_that_come(
    sim: GangHarness, policy: str, alone: bool
) -> None:
    words = {"match_policy": policy}
    sim.create(a_node("n1").offers(cpu=4), *running_for(5, members("g", 2, **words)))
    async with sim.scheduler(), sim.kubelets():
        await sim.until(lambda: sim.phases("g") == {"Succeeded": 2})
        sim.create(*members("g", 1, 2, first=2, **words))
        await asyncio.sleep(30)
        assert bool(sim.node_of("g-2")) is alone
        sim.create(*members("g", 1, 2, first=3, **words))
        await sim.until(lambda: len(sim.placed("g")) == 4)


async def test_waiting_and_running_replaces_together_what_was_lost_together(
    sim: GangHarness,
) -> None:
    words = {"match_policy": "waiting-and-running"}
    sim.create(a_node("n1").offers(cpu=4), *members("g", 4, **words))
    async with sim.scheduler():
        await sim.until_settled(4)
        for n in (0, 1):
            sim.delete("pod", f"g-{n}")
        sim.create(*members("g", 1, 4, first=4, **words))
        await asyncio.sleep(30)
        assert not sim.node_of("g-4"), "two places are open, and one pod has come"
        sim.create(*members("g", 1, 4, first=5, **words))
        await sim.until(lambda: len(sim.placed("g")) == 4)


# --- many, and large ---------------------------------------------------------------------------


async def test_ten_of_twenty_gangs_of_fifty_run_and_the_others_follow(sim: GangHarness) -> None:
    gangs = [f"g{n:02}" for n in range(20)]
    sim.create(*(a_node(f"n{n}").offers(cpu=50) for n in range(10)))
    sim.create(*(p for n, gang in enumerate(gangs) for p in running_for(60 + n, members(gang, 50))))

    def ended_gangs() -> list[str]:
        return [gang for gang in gangs if sim.phases(gang) == {"Succeeded": 50}]

    async with sim.scheduler(), sim.kubelets():
        await asyncio.sleep(10)
        runs = {gang for gang in gangs if len(sim.placed(gang)) == 50}
        assert len(runs) == 10
        for gang in set(gangs) - runs:
            why = sim.condition_message(f"{gang}-7")
            assert f"gang default/{gang}: 50 of 50 arrived, 0 placeable now" in why
            assert "Insufficient cpu" in why
            assert sim.event_notes(f"{gang}-7") == [why]
        for ended in range(1, 11):
            await sim.until(lambda n=ended: len(ended_gangs()) >= n, within=100)
            await asyncio.sleep(11)  # the longest back-off
            begun = [gang for gang in gangs if sim.placed(gang)]
            assert len(begun) >= 10 + ended, "the next follows as soon as one has ended"
            sim.check_all_or_nothing()
        await sim.until(lambda: len(ended_gangs()) == 20, within=300)


async def test_a_gang_of_five_thousand_that_does_not_fit_leaves_small_work_alone(
    sim: GangHarness,
) -> None:
    sim.create(*(a_node(f"n{n}").offers(cpu=100, pods=200) for n in range(40)))
    sim.create(*members("huge", 5000))
    # Writes take as long as they do, so that a flood of them would hold others up.
    sim.faults.inject(WRITES, Delay(0.005))
    waits = []
    async with sim.scheduler(), sim.kubelets():
        loop = asyncio.get_running_loop()
        for n in range(50):
            since = loop.time()
            sim.create(*running_for(3, [a_pod(f"small-{n}").needs(cpu=1)]))
            await sim.until(lambda n=n: bool(sim.node_of(f"small-{n}")), within=20)
            waits.append(loop.time() - since)
            await asyncio.sleep(0.5)
        assert not sim.placed("huge")
        assert max(waits) <= 0.5, waits
        # How many exactly depends on the small work that ran when they were told.
        assert re.search(
            r"huge: 5000 of 5000 arrived, (39..|4000) placeable", sim.condition_message("huge-9")
        )
