"""The examples and figures of the designs of gangs and bundles do what is said of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.builders import PodBuilder, a_node, a_pod
from tests.simulation.harnesses.gangs import GangHarness
from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.seeds.documents import corrected, documents, pods_with

pytestmark = VIRTUAL_TIME


@pytest.fixture
def sim() -> Iterator[GangHarness]:
    """A simulation with the namespaces of the examples; every gang is whole or nothing."""
    sim = GangHarness()
    sim.namespaces("ns-a", "ns-b")
    yield sim
    sim.check()


def of_gang_a(count: int, *, first: int = 0, namespace: str = "default") -> list[PodBuilder]:
    """Pods that name the PodGroup ``gang-a``."""
    pods = (
        a_pod(f"a-{n}").needs(cpu=1).in_pod_group("gang-a") for n in range(first, first + count)
    )
    return [pod.in_namespace(namespace) for pod in pods]


async def bound_after(sim: GangHarness, *pods: PodBuilder) -> int:
    """How many pods are bound some time after these have come."""
    sim.create(*pods)
    await asyncio.sleep(30)
    return sim.bound()


# --- gangs by PodGroup ---------------------------------------------------------------------------


async def test_a_podgroup_of_five_starts_with_its_fifth_pod(sim: GangHarness) -> None:
    (group,) = documents("gang-a")
    sim.cluster.create(corrected(group))
    sim.create(a_node("n1").offers(cpu=8))
    async with sim.scheduler():
        assert await bound_after(sim, *of_gang_a(4)) == 0
        assert await bound_after(sim, *of_gang_a(1, first=4)) == 5


async def test_pods_that_come_before_their_podgroup_wait_for_it(sim: GangHarness) -> None:
    (group,) = documents("gang-a")
    sim.create(a_node("n1").offers(cpu=8))
    async with sim.scheduler():
        assert await bound_after(sim, *of_gang_a(5)) == 0
        sim.cluster.create(corrected(group))
        assert await bound_after(sim) == 5


async def test_a_podgroup_in_a_gang_group_waits_for_the_other_gang(sim: GangHarness) -> None:
    (first,) = documents("gang-group")
    (_, second) = documents("annotations-one-group")
    sim.cluster.create(corrected(first))
    sim.create(a_node("n1").offers(cpu=16))
    async with sim.scheduler():
        assert await bound_after(sim, *of_gang_a(5, namespace="ns-a")) == 0
        assert await bound_after(sim, *pods_with(second, "b", 5, "ns-b")) == 10


# --- gangs by annotations ------------------------------------------------------------------------


async def test_five_pods_that_say_so_start_together(sim: GangHarness) -> None:
    (notes,) = documents("annotations-basic")
    pods = pods_with(notes, "a", 5)
    sim.create(a_node("n1").offers(cpu=8))
    async with sim.scheduler():
        assert await bound_after(sim, *pods[:4]) == 0
        assert await bound_after(sim, pods[4]) == 5


async def test_two_roles_of_one_gang_group_start_together(sim: GangHarness) -> None:
    a, b = documents("annotations-one-group")
    workers = pods_with(b, "b", 5, "ns-b")
    sim.create(a_node("n1").offers(cpu=16))
    async with sim.scheduler():
        assert await bound_after(sim, *pods_with(a, "a", 5, "ns-a"), *workers[:4]) == 0
        assert await bound_after(sim, workers[4]) == 10


async def test_two_roles_of_different_gang_groups_start_by_themselves(sim: GangHarness) -> None:
    a, b = documents("annotations-two-groups")
    workers = pods_with(b, "b", 5, "ns-b")
    sim.create(a_node("n1").offers(cpu=16))
    async with sim.scheduler():
        assert await bound_after(sim, *pods_with(a, "a", 5, "ns-a"), *workers[:4]) == 5
        assert await bound_after(sim, workers[4]) == 10


# --- bundles -------------------------------------------------------------------------------------


async def test_a_job_starts_when_each_of_its_bundles_has_five(sim: GangHarness) -> None:
    ps, worker = documents("bundles-one-gang")
    workers = pods_with(worker, "worker", 5)
    sim.create(a_node("n1").offers(cpu=16))
    async with sim.scheduler():
        assert await bound_after(sim, *pods_with(ps, "ps", 5), *workers[:4]) == 0
        assert await bound_after(sim, workers[4]) == 10


async def test_roles_that_are_two_gangs_start_by_themselves(sim: GangHarness) -> None:
    ps, worker = documents("bundles-two-gangs")
    workers = pods_with(worker, "worker", 5)
    sim.create(a_node("n1").offers(cpu=16))
    async with sim.scheduler():
        assert await bound_after(sim, *pods_with(ps, "ps", 5), *workers[:4]) == 5
        assert await bound_after(sim, workers[4]) == 10


async def test_half_of_the_servers_and_all_of_the_workers_are_enough(sim: GangHarness) -> None:
    servers = [a_pod(f"ps-{n}").needs(cpu=1).in_bundle("job", "ps", 2) for n in range(4)]
    workers = [a_pod(f"w-{n}").needs(cpu=1).in_bundle("job", "worker", 4) for n in range(4)]
    sim.create(a_node("n1").offers(cpu=6))
    async with sim.scheduler():
        assert await bound_after(sim, *servers, *workers) == 6
        assert sum(name.startswith("w-") for name in sim.placed("job")) == 4


# --- figures -------------------------------------------------------------------------------------


def of_three(mode: str) -> list[PodBuilder]:
    """Three gangs of five, whose first pods come one gang after the other."""
    pods = (
        a_pod(f"g{gang}-{n}").needs(cpu=1).in_gang(f"g{gang}", 5, mode=mode, waiting_time="60s")
        for n in range(5)
        for gang in range(3)
    )
    return list(pods)


async def test_of_three_strict_gangs_of_five_two_run_where_ten_fit(sim: GangHarness) -> None:
    sim.create(a_node("n1").offers(cpu=10), *of_three("Strict"))
    async with sim.scheduler():
        await asyncio.sleep(60)
        assert sorted(len(sim.placed(f"g{n}")) for n in range(3)) == [0, 5, 5]


#: Room for ten, of which for whatever reason three, three and four may have some.
ROOMS = {"g0": 3, "g1": 3, "g2": 4}


def with_rooms(sim: GangHarness, mode: str) -> None:
    nodes = (a_node(gang).labelled(of=gang).offers(cpu=cpus) for gang, cpus in ROOMS.items())
    pods = (pod.selects(of=pod.manifest()["metadata"]["name"][:2]) for pod in of_three(mode))
    sim.create(*nodes, *pods)


async def test_three_strict_gangs_that_all_lack_room_leave_it_to_others(sim: GangHarness) -> None:
    with_rooms(sim, "Strict")
    async with sim.scheduler() as scheduler:
        await asyncio.sleep(30)
        assert (len(scheduler.engine.cluster), sim.bound()) == (0, 0)
        assert await bound_after(sim, *(a_pod(f"p{n}").needs(cpu=1) for n in range(10))) == 10


async def test_three_gangs_that_hold_what_they_have_end_by_their_wait_time(
    sim: GangHarness,
) -> None:
    with_rooms(sim, "NonStrict")
    async with sim.scheduler() as scheduler:
        await asyncio.sleep(30)
        assert (len(scheduler.engine.cluster), sim.bound()) == (10, 0), "they wait for each other"
        await asyncio.sleep(60)
        assert (len(scheduler.engine.cluster), sim.bound()) == (0, 0), "and give it back in time"
        assert all(len(sim.timed_out_pods(gang)) == 5 for gang in ROOMS)


def of_ten(mode: str) -> list[PodBuilder]:
    """A gang of ten, of which the sixth fits nowhere."""
    pods = [a_pod(f"t-{n}").needs(cpu=1).in_gang("t", 10, mode=mode) for n in range(10)]
    pods[5] = pods[5].needs(cpu=64)
    return pods


@pytest.mark.parametrize(("mode", "held"), [("Strict", 0), ("NonStrict", 9)])
async def test_where_the_sixth_of_ten_fails_the_others_go_back_or_are_kept(
    sim: GangHarness, mode: str, held: int
) -> None:
    sim.create(a_node("n1").offers(cpu=16), *of_ten(mode))
    async with sim.scheduler() as scheduler:
        await asyncio.sleep(30)
        assert (len(scheduler.engine.cluster), sim.bound()) == (held, 0)
