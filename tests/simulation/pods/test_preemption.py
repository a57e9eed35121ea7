"""Preemption (docs/design/preemption.md) by the whole scheduler, in virtual time, with kubelets.

After every test: nobody was evicted for a pod that is not more important, everybody who was knew
why, nothing was over its capacity, and room was kept for every nomination
(:mod:`tests.simulation.harnesses.preemption`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress

import pytest

from arranger.embedded.storage.store import Change
from tests.builders import PodBuilder, a_node
from tests.faults.injector import (
    LEASES,
    WRITES,
    ConcurrentAction,
    Delay,
    DropConnection,
    Reply,
    RequestMatcher,
    for_object,
    from_user,
)
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
from tests.simulation.harnesses.volumes import VolumeHarness
from tests.storage import ZONE, a_claim, a_class, a_volume

pytestmark = VIRTUAL_TIME


@pytest.fixture
def sim() -> Iterator[PreemptionHarness]:
    """A simulation whose invariants are checked in the end."""
    sim = PreemptionHarness()
    yield sim
    sim.check()


def nodes(sim: PreemptionHarness, *cpus: int) -> None:
    """Nodes ``n0`` … of so many CPUs."""
    sim.create(*(a_node(f"n{n}").offers(cpu=cpu) for n, cpu in enumerate(cpus)))


async def until_bound(sim: PreemptionHarness, name: str, node: str, within: float = 60) -> None:
    """Until a pod is on a node."""
    await sim.until(lambda: sim.exists(name) and sim.node_of(name) == node, within=within)


# --- the seed's race ---------------------------------------------------------------------------


async def test_what_is_freed_for_the_nominee_is_not_stolen(sim: PreemptionHarness) -> None:
    nodes(sim, 2)
    sim.create(*(slow_to_terminate(5, pod(f"low-{n}").on("n0")) for n in range(2)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9, 2))
        await sim.until(lambda: len(sim.evicted()) == 2)
        for n in range(60):  # all the time between the evictions and the Binding, and after
            sim.create(pod(f"thief-{n}", n % 9))
            await asyncio.sleep(0.2)
        await until_bound(sim, "high", "n0")
        assert sim.bound() == 1
        assert sorted(sim.evicted()) == ["low-0", "low-1"]


async def test_only_a_more_important_pod_may_take_it(sim: PreemptionHarness) -> None:
    nodes(sim, 1)
    sim.create(slow_to_terminate(5, pod("low").on("n0")))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 5))
        await sim.until(lambda: sim.nominated("high") == "n0")
        sim.create(pod("highest", 9))
        await until_bound(sim, "highest", "n0")
        await asyncio.sleep(30)
        assert sim.nominated("high") == ""
        assert sim.evicted() == ["low"]


async def test_who_loses_the_promise_to_another_looks_elsewhere_at_once(
    sim: PreemptionHarness,
) -> None:
    nodes(sim, 1, 1)
    sim.create(slow_to_terminate(60, pod("low").on("n0")), pod("less-low", 1).on("n1"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 5))
        await sim.until(lambda: sim.nominated("high") == "n0")
        sim.create(pod("highest", 9).selects({"kubernetes.io/hostname": "n0"}))
        await until_bound(sim, "high", "n1", within=15)
        await until_bound(sim, "highest", "n0", within=90)
        assert sim.evicted() == ["low", "less-low"]


# --- victims with a will of their own ----------------------------------------------------------


async def test_for_a_victim_that_takes_its_time_nobody_else_has_to_go(
    sim: PreemptionHarness,
) -> None:
    nodes(sim, 1, 1)
    sim.create(slow_to_terminate(1200, pod("low").on("n0")), pod("other", 1).on("n1"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await sim.until(lambda: sim.nominated("high") == "n0")
        await asyncio.sleep(1190)
        assert "not eligible due to a terminating pod" in sim.condition_message("high")
        await until_bound(sim, "high", "n0")
        assert sim.evicted() == ["low"]


async def test_a_victim_that_never_ends_is_waited_for_and_room_elsewhere_is_taken(
    sim: PreemptionHarness,
) -> None:
    nodes(sim, 1)
    sim.create(slow_to_terminate(10**6, pod("low").on("n0")))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await sim.until(lambda: sim.nominated("high") == "n0")
        await asyncio.sleep(3600)
        sim.create(a_node("n1").offers(cpu=1))
        await until_bound(sim, "high", "n1", within=15)
        sim.create(pod("late"))
        await asyncio.sleep(60)
        assert sim.evicted() == ["low"]


def owner(sim: PreemptionHarness, *templates: PodBuilder) -> None:
    """As a StatefulSet would, create pods again, under their names, as soon as they are gone."""
    again = {template.manifest()["metadata"]["name"]: template for template in templates}

    def see(change: Change) -> None:
        name = change.after["metadata"]["name"]
        if change.resource == "/pods" and change.type == "DELETED" and name in again:
            asyncio.get_running_loop().call_soon(sim.create, again[name])

    sim.cluster.store.subscribe(see)


async def test_a_victim_recreated_under_its_name_waits_behind_who_took_its_place(
    sim: PreemptionHarness,
) -> None:
    nodes(sim, 1)
    owner(sim, pod("web-0"))
    sim.create(pod("web-0").on("n0"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await until_bound(sim, "high", "n0")
        await asyncio.sleep(60)
        assert sim.node_of("web-0") == ""
        assert sim.evicted() == ["web-0"]


async def test_a_pod_that_has_taken_a_victims_name_is_not_meant(sim: PreemptionHarness) -> None:
    nodes(sim, 1)
    sim.create(pod("web-0").on("n0"))

    def replace() -> None:
        sim.delete("pod", "web-0")
        sim.create(pod("web-0").on("n0"))

    sim.faults.inject(DELETES, ConcurrentAction(replace), times=1)
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await until_bound(sim, "high", "n0", within=120)
        # The first delete was meant for another pod: the second is an eviction of its own.
        assert [write.status for write in sim.faults.received(DELETES & from_user("one"))] == [
            409,
            200,
        ]


async def test_the_claim_for_one_pod_is_taken_where_its_pod_runs(sim: PreemptionHarness) -> None:
    storage = VolumeHarness(sim)
    sim.create(*(a_node(f"n{n}").labelled({ZONE: f"z{n}"}).offers(cpu=2) for n in range(2)))
    sim.create(a_class(), a_claim("only").with_spec(accessModes=["ReadWriteOncePod"]))
    sim.create(pod("low").with_claim("only"))
    async with storage.loop.running(), sim.scheduler(), sim.kubelets():
        await sim.until_settled(1)
        node = sim.node_of("low")
        sim.create(*(pod(f"other-{n}", 1).on(f"n{n}") for n in range(2)))
        sim.create(pod("high", 9).with_claim("only"))
        await until_bound(sim, "high", node)
        assert sim.evicted() == ["low"], "there is room, but for the claim"
    storage.check()


async def test_of_two_that_lack_room_and_volumes_only_room_is_made_by_evictions(
    sim: PreemptionHarness,
) -> None:
    storage = VolumeHarness(sim)
    sim.create(*(a_node(f"n{n}").labelled({ZONE: f"z{n}"}).offers(cpu=1) for n in range(2)))
    sim.create(a_class("hand", by="kubernetes.io/no-provisioner"), a_claim("lacks", of="hand"))
    sim.create(*(pod(f"low-{n}").on(f"n{n}") for n in range(2)))
    async with storage.loop.running(), sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9).with_claim("lacks"))
        await asyncio.sleep(60)
        assert sim.evicted() == []
        assert "didn't find available persistent volumes to bind" in sim.condition_message("high")
        sim.create(a_volume("v", of="hand").usable_in("z1"))
        # What rejects it is the lack of room, so that it is not woken by volumes, as upstream.
        await until_bound(sim, "high", "n1", within=400)
        assert sim.evicted() == ["low-1"]
    storage.check()


# --- budgets -----------------------------------------------------------------------------------


async def test_whom_a_budget_forbids_to_evict_is_spared_for_another(
    sim: PreemptionHarness,
) -> None:
    nodes(sim, 1, 1)
    sim.budget(0, app="db")
    sim.create(pod("db").labelled(app="db").on("n0"), pod("web", 5).on("n1"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await until_bound(sim, "high", "n1")
        assert sim.evicted() == ["web"]


async def test_a_budget_is_broken_rather_than_that_the_more_important_waits(
    sim: PreemptionHarness,
) -> None:
    nodes(sim, 3)
    sim.budget(1, app="db")
    sim.create(*(pod(f"db-{n}", n).labelled(app="db").on("n0") for n in range(2)))
    sim.create(pod("web", 2).on("n0"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9, 2))
        await until_bound(sim, "high", "n0")
        # Upstream spares those first whom a budget protects: of db-1 and db-0, in this order,
        # the budget lets db-1 go, so that db-0 is spared, and then web.
        assert sorted(sim.evicted()) == ["db-1", "web"]


# --- one after the other -----------------------------------------------------------------------


async def test_a_evicts_b_which_evicts_c_and_nobody_moves_twice(sim: PreemptionHarness) -> None:
    nodes(sim, 1, 1, 1)
    templates = [
        pod(name, priority).requires(
            {"key": "kubernetes.io/hostname", "operator": "In", "values": places}
        )
        for name, priority, places in (
            ("a", 9, ["n0"]),
            ("b", 6, ["n0", "n1"]),
            ("c", 3, ["n1", "n2"]),
            ("d", 0, ["n2"]),
        )
    ]
    a, *others = templates
    owner(sim, *others)
    sim.create(*(each.on(f"n{n}") for n, each in enumerate(others)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(a)
        for n, name in enumerate("abc"):
            await until_bound(sim, name, f"n{n}")
        await asyncio.sleep(600)
        assert sim.evicted() == ["b", "c", "d"]
        assert sim.node_of("d") == ""


async def test_many_that_preempt_at_once_take_one_victim_each(sim: PreemptionHarness) -> None:
    nodes(sim, *([2] * 10))
    sim.create(*(slow_to_terminate(2, pod(f"low-{n}", n % 3).on(f"n{n // 2}")) for n in range(20)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(*(pod(f"high-{n}", 9) for n in range(15)))
        await sim.until(lambda: sum(bool(sim.node_of(f"high-{n}")) for n in range(15)) == 15)
        evicted = sim.evicted()
        assert len(evicted) == len(set(evicted)) == 15


# --- gangs -------------------------------------------------------------------------------------


async def test_gang_against_gang_the_less_important_leaves_whole(sim: PreemptionHarness) -> None:
    nodes(sim, 1, 1, 1, 1)
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
    nodes(sim, 2, 2)
    sim.budget(0, app="db")
    sim.create(*(pod(f"db-{n}").labelled(app="db").on(f"n{n}") for n in range(2)))
    sim.create(*(pod(f"web-{n}", 5).on(f"n{n}") for n in range(2)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(9, *members("g", 2)))
        await sim.until(lambda: len(sim.placed("g")) == 2)
        assert sorted(sim.evicted()) == ["web-0", "web-1"]


async def test_gangs_that_push_each_other_out_come_to_rest(sim: PreemptionHarness) -> None:
    """Each is made again as soon as it has gone, as its Job would."""
    nodes(sim, 1, 1, 1, 1)
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
    nodes(sim, 4)
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
    nodes(sim, 1, 1, 1)
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
    nodes(sim, 4)
    sim.create(*(pod(f"low-{n}").on("n0") for n in range(4)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(5, *members("g", 4, 2)))
        await sim.until(lambda: len(sim.evicted()) > 0)
        assert len(sim.evicted()) == 2
        await sim.until(lambda: len(sim.placed("g")) >= 2)


async def test_a_gang_whose_promised_room_is_not_enough_gives_it_back(
    sim: PreemptionHarness,
) -> None:
    nodes(sim, 1, 1)
    sim.create(*(slow_to_terminate(20, pod(f"low-{n}").on(f"n{n}")) for n in range(2)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(*with_priority(5, *members("g", 2)))
        await sim.until(lambda: len(sim.evicted()) == 2)
        sim.patch("node", "n1", {"spec": {"unschedulable": True}})
        sim.create(pod("late", 1))
        await asyncio.sleep(15)
        assert sim.nominated("g-0")
        await until_bound(sim, "late", "n0", within=400)
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
    nodes(sim, 1, 1)
    sim.create(slow_to_terminate(3, pod("low").on("n0")), pod("other", 1).on("n1"))
    for where, fault, times in faults:
        sim.faults.inject(where & from_user("one"), fault, times=times)
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await until_bound(sim, "high", "n0", within=180)
        assert set(sim.evicted()) == victims


async def test_if_nobody_may_be_deleted_nothing_is_promised(sim: PreemptionHarness) -> None:
    sim.writes_per_pod = 2 * 600 // 10  # two patches an attempt, and ten seconds between two
    nodes(sim, 1)
    sim.create(pod("low").on("n0"))
    with sim.faults.inject(DELETES, Reply(403, "Forbidden")):
        async with sim.scheduler(), sim.kubelets():
            sim.create(pod("high", 9))
            await asyncio.sleep(600)
            assert sim.evicted() == []
            sim.create(a_node("n1").offers(cpu=1))
            await until_bound(sim, "high", "n1", within=15)
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
    nodes(sim, 1, 1)
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
            await until_bound(sim, "high", "n0", within=120)
            await asyncio.sleep(60)
            assert sim.evicted() == ["low"]
            assert sim.node_of("other") == "n1"


async def test_of_two_replicas_the_second_goes_on_where_the_first_died(
    sim: PreemptionHarness,
) -> None:
    nodes(sim, 1, 1)
    sim.create(slow_to_terminate(40, pod("low").on("n0")), pod("other", 1).on("n1"))
    async with sim.scheduler("one"), sim.scheduler("two"), sim.kubelets():
        leader = await _leader(sim)
        sim.create(pod("high", 9))
        await sim.until(lambda: sim.nominated("high") == "n0")
        sim.crash(leader)
        await until_bound(sim, "high", "n0", within=120)
        assert sim.evicted() == ["low"]


async def _leader(sim: PreemptionHarness) -> str:
    await sim.until(lambda: bool(sim.faults.applied(LEASES)))
    await asyncio.sleep(5)
    return str(sim.faults.applied(LEASES)[-1].request.json["spec"]["holderIdentity"])


# --- what people do meanwhile ------------------------------------------------------------------


async def test_if_the_preemptor_is_deleted_others_get_the_room(sim: PreemptionHarness) -> None:
    nodes(sim, 2)
    sim.create(*(slow_to_terminate(5, pod(f"low-{n}").on("n0")) for n in range(2)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9, 2))
        await sim.until(lambda: len(sim.evicted()) == 2)
        sim.create(pod("late"))
        await asyncio.sleep(1)
        sim.delete("pod", "high")
        await until_bound(sim, "late", "n0", within=20)
        assert len(sim.evicted()) == 2


async def test_if_the_nominated_node_goes_the_pod_evicts_elsewhere(
    sim: PreemptionHarness,
) -> None:
    nodes(sim, 1, 1)
    sim.create(slow_to_terminate(300, pod("low").on("n0")), pod("other", 1).on("n1"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await sim.until(lambda: sim.nominated("high") == "n0")
        sim.delete("node", "n0")
        await until_bound(sim, "high", "n1", within=20)
        assert sim.evicted() == ["low", "other"]


# --- never more than needed --------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
async def test_no_set_of_victims_would_have_cost_less(seed: int, sim: PreemptionHarness) -> None:
    """Pods of one size: what is evicted costs as little as the best of all sets of pods."""
    rng = random.Random(seed)
    cpus = [rng.randint(1, 5) for _ in range(3)]
    nodes(sim, *cpus)
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
    nodes(sim, *cpus)
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
    nodes(sim, *([4] * 4))
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
