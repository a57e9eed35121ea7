"""Gangs (docs/design/gang-scheduling.md, bundles.md) through the whole scheduler, in virtual time.

After every test: the scheduler's state is consistent, nothing is over its capacity, nothing was
bound twice, and no gang was ever left between nothing and its minimum
(:mod:`tests.simulation.harnesses.gangs`).
"""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.builders import a_node, a_pod
from tests.faults.injector import BINDINGS
from tests.simulation.harnesses.gangs import (
    KOORDINATOR,
    GangHarness,
    bundle,
    members,
    of_pod_group,
    running_for,
)
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME


# --- wait times ----------------------------------------------------------------------------------

WAIT_TIMES = {
    "ten minutes by default": (600, {}),
    "two hours, beyond the fifteen minutes of kube-scheduler": (7200, {"waiting_time": "2h"}),
}


@pytest.mark.parametrize(("wait", "words"), WAIT_TIMES.values(), ids=WAIT_TIMES.keys())
async def test_a_non_strict_gang_gives_its_nodes_back_when_its_patience_ends(
    sim: GangHarness, wait: float, words: dict[str, str]
) -> None:
    sim.create(a_node("n1").offers(cpu=2), *members("g", 3, mode="NonStrict", **words))
    async with sim.scheduler():
        await asyncio.sleep(wait - 10)
        sim.create(a_pod("other").needs(cpu=2))
        await asyncio.sleep(9)
        assert not sim.node_of("other"), "the gang holds both places"
        assert not sim.timed_out_pods("g")
        await sim.until(lambda: sim.node_of("other") == "n1", within=5)
        await sim.until(lambda: len(sim.timed_out_pods("g")) == 3, within=5)
        await sim.until(
            lambda: all("ran out of time" in sim.condition_message(f"g-{n}") for n in range(3))
        )
        (note,) = sim.event_notes("g-2", "GangTimedOut")
        assert note == (
            f"gang default/g gave its nodes back: it did not become complete within {wait:g}s"
        )

        sim.create(a_node("n2").offers(cpu=4))
        await sim.stays_unbound("g", 3600)  # not before its owner acts
        sim.patch("pod", "g-0", {"metadata": {"annotations": {KOORDINATOR + "timeout": None}}})
        await sim.until(lambda: len(sim.placed("g")) == 3)
        await sim.until(lambda: not sim.timed_out_pods("g"))


async def test_a_strict_gang_waits_for_room_as_long_as_it_takes(sim: GangHarness) -> None:
    sim.create(a_node("n1").offers(cpu=2), *members("g", 3))
    async with sim.scheduler():
        await sim.stays_unbound("g", 500)
        sim.create(a_pod("other").needs(cpu=2))  # it holds nothing meanwhile
        await sim.until(lambda: sim.node_of("other") == "n1", within=1)
        await sim.stays_unbound("g", 7300)
        assert not sim.timed_out_pods("g")
        sim.create(a_node("n2").offers(cpu=3))
        await sim.until(lambda: len(sim.placed("g")) == 3)


async def test_a_podgroup_says_how_long_its_gang_is_patient(sim: GangHarness) -> None:
    sim.pod_group("g", 3, scheduleTimeoutSeconds=90)
    pods = of_pod_group("g", 3)
    sim.create(
        a_node("n1").offers(cpu=2),
        *(p.annotated({KOORDINATOR + "mode": "NonStrict"}) for p in pods),
    )
    async with sim.scheduler():
        await asyncio.sleep(85)
        assert not sim.timed_out_pods("g")
        await sim.until(lambda: len(sim.timed_out_pods("g")) == 3, within=10)
        sim.create(a_node("n2").offers(cpu=3))
        await sim.stays_unbound("g")
        sim.edit_pod_group("g", scheduleTimeoutSeconds=91)
        await sim.until(lambda: len(sim.placed("g")) == 3)


# --- what people see ---------------------------------------------------------------------------


async def test_the_newest_event_of_a_member_says_what_holds_it_now(sim: GangHarness) -> None:
    sim.create(a_node("n1").offers(cpu=2))
    async with sim.scheduler():
        sim.create(*members("g", 2, 3))
        await asyncio.sleep(30)
        waits = "gang default/g waits for members: 2 of 3 arrived"
        assert sim.event_notes("g-0") == [waits]
        sim.create(*members("g", 1, 3, first=2))
        await asyncio.sleep(1)
        full = (
            "Unsatisfiable: all nodes together have room for 2 of the 3 pods of gang default/g "
            "that must run. 0/1 nodes are available: 1 Insufficient cpu. gang default/g: 3 of 3 "
            "arrived, 2 placeable now, blocked by pod default/g-2."
        )
        assert sorted(sim.event_notes("g-0")) == sorted([waits, full])
        assert sim.event_notes("g-2") == [full]
        sim.create(a_node("n2").offers(cpu=0))
        await asyncio.sleep(5)
        assert len(sim.event_notes("g-0")) == 2, "other numbers are not worth an event at once"
        await asyncio.sleep(300)
        assert full.replace("0/1", "0/2").replace("1 Ins", "2 Ins") in sim.event_notes("g-0")
        assert len(sim.event_notes("g-0")) == 3


async def test_the_gang_object_counts_the_attempts(sim: GangHarness) -> None:
    head = {"apiVersion": "arranger.io/v1alpha1", "kind": "Gang"}
    bundles = [{"name": "", "minMember": 2}]
    made = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"bundles": bundles}}
    sim.cluster.create({**head, **made})

    def shown() -> int:
        (gang,) = sim.cluster.objects("gangs", "arranger.io")
        return int(gang.get("status", {}).get("schedulingCycle", 0))

    sim.create(a_node("n1").offers(cpu=1))
    async with sim.scheduler() as scheduler:
        sim.create(*members("g", 2))
        await sim.until(lambda: shown() == 1, within=2)
        sim.create(a_node("n2").offers(cpu=1))
        await sim.until_settled(2)
        (tried,) = (gang.scheduling_cycle for gang in scheduler.engine.registry.gangs.values())
        assert tried > 1
        await sim.until(lambda: shown() == tried, within=5)


# --- who goes with whom ------------------------------------------------------------------------


async def test_of_two_gangs_whose_pods_come_in_turn_one_runs_and_the_other_holds_nothing(
    sim: GangHarness,
) -> None:
    # If gangs kept what they get, both would hold a node and wait for ever.
    sim.create(a_node("n1").offers(cpu=3))
    (a, b), (c, d) = running_for(60, members("first", 2)), members("second", 2)
    async with sim.scheduler(), sim.kubelets():
        for pod in (a, c, b, d):
            sim.create(pod)
            await asyncio.sleep(1)
        assert (len(sim.placed("first")), len(sim.placed("second"))) == (2, 0)
        sim.create(a_pod("between").needs(cpu=1))
        await sim.until(lambda: sim.node_of("between") == "n1", within=1)
        await sim.until(lambda: len(sim.placed("second")) == 2, within=120)
        assert sim.phases("first") == {"Succeeded": 2}


async def test_many_gangs_that_compete_never_block_each_other(sim: GangHarness) -> None:
    sim.create(*(a_node(f"n{n}").offers(cpu=4) for n in range(3)))
    gangs = [f"g{n}" for n in range(6)]
    turns = zip(
        *(running_for(20, members(gang, 5, mode="NonStrict")) for gang in gangs), strict=True
    )
    async with sim.scheduler(), sim.kubelets():
        for pods in turns:
            sim.create(*pods)
            await asyncio.sleep(0.5)
        # 12 places for six gangs of five that keep what they get: they could block each other.
        await sim.until(
            lambda: all(sim.phases(g) == {"Succeeded": 5} for g in gangs), within=6 * 1300
        )


async def test_a_gang_group_over_three_namespaces_goes_at_once(sim: GangHarness) -> None:
    sim.namespaces("blue", "green", "red")
    names = ["blue/b", "green/g", "red/r"]
    groups = json.dumps(names)
    pods = {
        name: [p.in_namespace(name.partition("/")[0]) for p in members(name[-1], 2, groups=groups)]
        for name in names
    }
    sim.create(a_node("n1").offers(cpu=5))
    async with sim.scheduler():
        for name in names:
            for other in names:
                await sim.stays_unbound(other, 10)
            sim.create(*pods[name])
        for name in names:
            await sim.stays_unbound(name, 30)  # five places for six
        assert "gang group blue/b,green/g,red/r: blue/b 2 of 2 arrived" in sim.condition_message(
            "b-0"
        )
        assert "blocked by one of its pods" in sim.condition_message("b-0"), "of whatever namespace"
        assert sim.condition_message("b-0") == sim.condition_message("r-1")
        sim.create(a_node("n2").offers(cpu=1))
        await sim.until_settled(6)
        assert len({w.at for w in sim.faults.applied(BINDINGS)}) == 1


async def test_parameter_servers_and_workers_have_minima_of_their_own(sim: GangHarness) -> None:
    ps, workers = bundle("g", "ps", 1, cpu=2), bundle("g", "worker", 3)
    sim.create(a_node("n1").offers(cpu=4), *ps, *workers[:2])
    async with sim.scheduler():
        await sim.stays_unbound("g")
        assert "ps 1 of 1 arrived, worker 2 of 3 arrived" in sim.condition_message("g-ps-0")
        sim.create(workers[2])
        await sim.stays_unbound("g")  # four CPUs for five
        assert "ps 1 of 1 arrived, worker 3 of 3 arrived, 3 placeable" in sim.condition_message(
            "g-ps-0"
        )
        sim.create(a_node("n2").offers(cpu=1))
        await sim.until_settled(4)
        assert len({w.at for w in sim.faults.applied(BINDINGS)}) == 1


async def test_a_minimum_over_all_bundles_waits_for_roles_that_nobody_has_seen_yet(
    sim: GangHarness,
) -> None:
    all_told = {KOORDINATOR + "min-available": "4"}
    ps, workers = bundle("g", "ps", 1), bundle("g", "worker", 3)
    sim.create(a_node("n1").offers(cpu=4), *(pod.annotated(all_told) for pod in ps))
    async with sim.scheduler():
        await sim.stays_unbound("g")
        sim.create(*(pod.annotated(all_told) for pod in workers))
        await sim.until_settled(4)
        assert len({w.at for w in sim.faults.applied(BINDINGS)}) == 1


async def test_a_non_strict_gang_gathers_nodes_as_they_come(sim: GangHarness) -> None:
    sim.create(*members("g", 4, mode="NonStrict"))
    async with sim.scheduler() as scheduler:
        for n in range(3):
            sim.create(a_node(f"n{n}").offers(cpu=1))
            await asyncio.sleep(15)
            assert not sim.placed("g")
            assert len(scheduler.engine.cluster) == n + 1, "the nodes so far are kept"
        sim.create(a_pod("other").needs(cpu=1))
        await asyncio.sleep(30)
        assert not sim.node_of("other")
        sim.create(a_node("n3").offers(cpu=1))
        await sim.until(lambda: len(sim.placed("g")) == 4)
        assert len({w.at for w in sim.faults.applied(BINDINGS)}) == 1
        assert not sim.node_of("other")
