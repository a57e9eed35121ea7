"""Preemption by gangs, with faults, and while people edit (docs/design/preemption.md)."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from tests.builders import a_node
from tests.faults.injector import LEASES, WRITES, RequestMatcher, for_object, from_user
from tests.faults.kinds import ConcurrentAction, Delay, DropConnection, Reply
from tests.simulation.harnesses.gangs import members
from tests.simulation.harnesses.preemption import (
    DELETES,
    PreemptionHarness,
    minimal_victims,
    pod,
    slow_to_terminate,
    with_priority,
)
from tests.simulation.harnesses.simulation import CONFIG, VIRTUAL_TIME
from tests.simulation.preemption.test_preemption import owner

pytestmark = VIRTUAL_TIME


# --- gangs -------------------------------------------------------------------------------------


async def test_gang_against_gang_the_less_important_leaves_whole(sim: PreemptionHarness) -> None:
    sim.nodes(1, 1, 1, 1)
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(1, *members("old", 3)))
        await sim.until_settled(3)
        sim.create(*with_priority(5, *members("new", 2)))
        await sim.until(lambda: len(sim.placed("new")) == 2)
        # One place is free already, yet two of three would be a gang in pieces.
        assert sorted(sim.evicted()) == ["old-0", "old-1", "old-2"]
        sim.create(pod("small"))
        await sim.until(lambda: bool(sim.node_of("small")), within=20)


async def test_a_gang_spares_whom_a_budget_protects(sim: PreemptionHarness) -> None:
    sim.nodes(2, 2)
    sim.budget(0, app="db")
    sim.create(*(pod(f"db-{n}").labelled(app="db").on(f"n{n}") for n in range(2)))
    sim.create(*(pod(f"web-{n}", 5).on(f"n{n}") for n in range(2)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(9, *members("g", 2)))
        await sim.until(lambda: len(sim.placed("g")) == 2)
        assert sorted(sim.evicted()) == ["web-0", "web-1"]


async def test_gangs_that_push_each_other_out_come_to_rest(sim: PreemptionHarness) -> None:
    """Each is made again as soon as it has gone, as its Job would."""
    sim.nodes(1, 1, 1, 1)
    gangs = [with_priority(priority, *members(f"gang-{priority}", 2)) for priority in (1, 4, 7)]
    owner(sim, *(member for gang in gangs for member in gang))
    async with sim.scheduler(), sim.kubelets():
        for number, gang in enumerate(gangs):
            sim.create(*gang)
            await sim.until_settled(min(2 * number + 2, 4))
        await sim.until(lambda: len(sim.placed("gang-7")) == 2)
        await asyncio.sleep(900)
        assert not sim.placed("gang-1")
        assert sorted(sim.evicted()) == ["gang-1-0", "gang-1-1"]


async def test_a_gang_gives_its_surplus_first(sim: PreemptionHarness) -> None:
    sim.nodes(4)
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(1, *members("old", 4, 2)))
        await sim.until_settled(4)
        sim.create(*with_priority(5, *members("new", 2)))
        await sim.until(lambda: len(sim.placed("new")) == 2)
        assert len(sim.evicted()) == 2
        assert len(sim.placed("old")) == 2


async def test_of_two_gangs_that_want_one_place_the_more_important_gets_it(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(1, 1, 1)
    sim.create(*(slow_to_terminate(20, pod(f"low-{n}").on(f"n{n}")) for n in range(3)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(4, *members("silver", 3)))
        await sim.until(lambda: len(sim.evicted()) == 3)
        sim.create(*with_priority(8, *members("gold", 3)))
        await sim.until(lambda: len(sim.placed("gold")) == 3)
        await asyncio.sleep(600)
        assert not sim.placed("silver")
        assert len(sim.evicted()) == 3, "there was nothing else to gain"


async def test_for_members_beyond_the_minimum_nobody_has_to_leave(sim: PreemptionHarness) -> None:
    sim.nodes(4)
    sim.create(*(pod(f"low-{n}").on("n0") for n in range(4)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(5, *members("g", 4, 2)))
        await sim.until(lambda: len(sim.evicted()) > 0)
        assert len(sim.evicted()) == 2
        await sim.until(lambda: len(sim.placed("g")) >= 2)


async def test_a_gang_whose_promised_room_is_not_enough_gives_it_back(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(1, 1)
    sim.create(*(slow_to_terminate(20, pod(f"low-{n}").on(f"n{n}")) for n in range(2)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(5, *members("g", 2)))
        await sim.until(lambda: len(sim.evicted()) == 2)
        sim.patch("node", "n1", {"spec": {"unschedulable": True}})
        sim.create(pod("late", 1))
        await asyncio.sleep(15)
        assert sim.nominated("g-0")
        await sim.until_bound("late", "n0", within=400)
        assert not sim.nominated("g-0") + sim.nominated("g-1")
        assert not sim.placed("g")


# --- what fails --------------------------------------------------------------------------------

Case = tuple[list[tuple[RequestMatcher, DropConnection | Reply | Delay, int]], set[str]]
FAULTS: dict[str, Case] = {
    "refused once": ([(DELETES, Reply(403, "Forbidden"), 1)], {"low"}),
    "too much for the server": ([(DELETES, Reply(503), 3)], {"low"}),
    "lost on its way": ([(DELETES, DropConnection.BEFORE, 2)], {"low"}),
    "done, and its answer lost": ([(DELETES, DropConnection.AFTER, 2)], {"low"}),
    "a minute late": ([(DELETES, Delay(60), 1)], {"low"}),
    "not preceded by its condition": ([(for_object("low"), DropConnection.BEFORE, 1)], {"low"}),
}


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS.keys())
async def test_a_delete_that_is(case: Case, sim: PreemptionHarness) -> None:
    faults, victims = case
    sim.nodes(1, 1)
    sim.create(slow_to_terminate(3, pod("low").on("n0")), pod("other", 1).on("n1"))
    for where, fault, times in faults:
        sim.faults.inject(where & from_user("one"), fault, times=times)
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await sim.until_bound("high", "n0", within=180)
        assert set(sim.evicted()) == victims


async def test_if_nobody_may_be_deleted_nothing_is_promised(sim: PreemptionHarness) -> None:
    sim.writes_per_pod = 2 * 600 // 10  # two patches an attempt, and ten seconds between two
    sim.nodes(1)
    sim.create(pod("low").on("n0"))
    with sim.faults.inject(DELETES, Reply(403, "Forbidden")):
        async with sim.scheduler(), sim.kubelets():
            sim.create(pod("high", 9))
            await asyncio.sleep(600)
            assert sim.evicted() == []
            sim.create(a_node("n1").offers(cpu=1))
            await sim.until_bound("high", "n1", within=15)
            assert sim.node_of("low") == "n0"


#: The writes for a preemption, from the first patch to the Binding; Events among them.
ALL_WRITES = WRITES & ~LEASES & from_user("one")


@pytest.mark.parametrize(
    "how", [DropConnection.BEFORE, DropConnection.AFTER], ids=["before", "after"]
)
@pytest.mark.parametrize("number", range(8))
async def test_killed_at_any_write_its_successor_honours_the_nomination(
    sim: PreemptionHarness, number: int, how: DropConnection
) -> None:
    sim.nodes(1, 1)
    sim.create(
        slow_to_terminate(20, pod("low").on("n0")), slow_to_terminate(20, pod("other", 1).on("n1"))
    )
    died = asyncio.Event()

    def die() -> None:
        died.set()

    sim.faults.inject(
        ALL_WRITES, ConcurrentAction(die, after=how is DropConnection.AFTER), skip=number, times=1
    )
    sim.faults.inject(ALL_WRITES, how, skip=number, times=1)
    async with sim.scheduler("one"), sim.kubelets():
        sim.create(pod("high", 9))
        with suppress(TimeoutError):
            await asyncio.wait_for(died.wait(), 60)
        sim.crash("one")
        async with sim.scheduler("two"):
            sim.create(*(pod(f"thief-{n}", 1) for n in range(3)))
            await sim.until_bound("high", "n0", within=120)
            await asyncio.sleep(60)
            assert sim.evicted() == ["low"]
            assert sim.node_of("other") == "n1"


async def test_of_two_replicas_the_second_goes_on_where_the_first_died(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(1, 1)
    sim.create(slow_to_terminate(40, pod("low").on("n0")), pod("other", 1).on("n1"))
    async with sim.scheduler("one"), sim.scheduler("two"), sim.kubelets():
        leader = await _leader(sim)
        sim.create(pod("high", 9))
        await sim.until(lambda: sim.nominated("high") == "n0")
        sim.crash(leader)
        await sim.until_bound("high", "n0", within=120)
        assert sim.evicted() == ["low"]


async def _leader(sim: PreemptionHarness) -> str:
    await sim.until(lambda: bool(sim.faults.applied(LEASES)))
    await asyncio.sleep(5)
    return str(sim.faults.applied(LEASES)[-1].request.json["spec"]["holderIdentity"])


# --- what people do meanwhile ------------------------------------------------------------------


async def test_if_the_preemptor_is_deleted_others_get_the_room(sim: PreemptionHarness) -> None:
    sim.nodes(2)
    sim.create(*(slow_to_terminate(5, pod(f"low-{n}").on("n0")) for n in range(2)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9, 2))
        await sim.until(lambda: len(sim.evicted()) == 2)
        sim.create(pod("late"))
        await asyncio.sleep(1)
        sim.delete("pod", "high")
        await sim.until_bound("late", "n0", within=20)
        assert len(sim.evicted()) == 2


async def test_if_the_nominated_node_goes_the_pod_evicts_elsewhere(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(1, 1)
    sim.create(slow_to_terminate(300, pod("low").on("n0")), pod("other", 1).on("n1"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await sim.until(lambda: sim.nominated("high") == "n0")
        sim.delete("node", "n0")
        await sim.until_bound("high", "n1", within=20)
        assert sim.evicted() == ["low", "other"]


# --- never more than needed --------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
async def test_no_set_of_victims_would_have_cost_less(seed: int, sim: PreemptionHarness) -> None:
    """Pods of one size: what is evicted costs as little as the best of all sets of pods."""
    rng = random.Random(seed)
    cpus = [rng.randint(1, 5) for _ in range(3)]
    sim.nodes(*cpus)
    there: list[list[tuple[int, int]]] = []
    for n, cpu in enumerate(cpus):
        there.append([(rng.randint(0, 12), 1) for _ in range(rng.randint(0, cpu))])
        sim.create(
            *(pod(f"low-{n}-{i}", priority).on(f"n{n}") for i, (priority, _) in enumerate(there[n]))
        )
    wanted = rng.randint(1, 4)
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9, wanted))
        await asyncio.sleep(60)
        free = [cpu - len(pods) for cpu, pods in zip(cpus, there, strict=True)]
        best = min(
            (
                least
                for room, pods in zip(free, there, strict=True)
                if (least := minimal_victims([p for p in pods if p[0] < 9], room, wanted))
                is not None
            ),
            default=None,
        )
        gone = [there[int(n)][int(i)][0] for n, i in (v[4:].split("-") for v in sim.evicted())]
        if max(free) >= wanted or best is None:
            assert gone == []
        else:
            assert (max(gone), sum(2**31 + p for p in gone), len(gone)) == best
        assert bool(sim.node_of("high")) == (max(free) >= wanted or best is not None)


@pytest.mark.parametrize("seed", range(15))
async def test_a_gang_evicts_no_more_than_the_fewest_that_do(
    seed: int, sim: PreemptionHarness
) -> None:
    """Pods of one size, anywhere: as many go as places are lacking, none if that is in vain."""
    rng = random.Random(seed)
    cpus = [rng.randint(1, 4) for _ in range(3)]
    sim.nodes(*cpus)
    used = [rng.randint(0, cpu) for cpu in cpus]
    priorities = [[rng.randint(0, 12) for _ in range(count)] for count in used]
    for n, row in enumerate(priorities):
        sim.create(*(pod(f"low-{n}-{i}", p).on(f"n{n}") for i, p in enumerate(row)))
    size = rng.randint(2, 6)
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(9, *members("g", size)))
        await asyncio.sleep(120)
        lacking = max(0, size - (sum(cpus) - sum(used)))
        possible = sum(priority < 9 for row in priorities for priority in row) >= lacking
        assert len(sim.evicted()) == (lacking if possible else 0)
        assert len(sim.placed("g")) == (size if possible else 0)


@pytest.mark.parametrize("seed", range(4))
async def test_in_a_busy_cluster_with_faults_all_comes_to_rest(seed: int) -> None:
    rng, sim = random.Random(seed), PreemptionHarness(seed)
    sim.writes_per_pod = 60
    sim.nodes(*([4] * 4))
    for where, fault, chance in (
        (DELETES, DropConnection.AFTER, 0.1),
        (DELETES, Reply(403, "Forbidden"), 0.1),
        (WRITES & ~LEASES & ~DELETES, DropConnection.BEFORE, 0.03),
        (WRITES & ~LEASES & ~DELETES, Reply(503), 0.03),
    ):
        sim.faults.inject(where & from_user("one"), fault, probability=chance)
    async with sim.scheduler(config=CONFIG), sim.kubelets():
        for n in range(60):
            wish = pod(f"p{n}", rng.randint(0, 9), rng.randint(1, 3))
            sim.create(slow_to_terminate(rng.randint(1, 20), wish))
            await asyncio.sleep(rng.random() * 4)
            if rng.random() < 0.2 and sim.exists(f"p{n // 2}"):
                sim.delete("pod", f"p{n // 2}")
        sim.faults.clear()
        await asyncio.sleep(900)
        pending = [p for p in sim.cluster.objects("pods") if not p["spec"].get("nodeName")]
        placed = [p for p in sim.cluster.objects("pods") if p["spec"].get("nodeName")]
        assert all(not p["metadata"].get("deletionTimestamp") for p in placed)
        assert not any(p["status"].get("nominatedNodeName") for p in pending)
    sim.check()
