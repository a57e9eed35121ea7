"""Preemption (docs/design/preemption.md) by the whole scheduler, in virtual time, with kubelets.

After every test: nobody was evicted for a pod that is not more important, everybody who was knew
why, nothing was over its capacity, and room was kept for every nomination
(:mod:`tests.simulation.harnesses.preemption`).
"""

from __future__ import annotations

import asyncio

import pytest

from arranger.embedded.storage.store import Change
from tests.builders import PodBuilder, a_node
from tests.faults.injector import from_user
from tests.faults.kinds import ConcurrentAction
from tests.simulation.harnesses.preemption import (
    DELETES,
    PreemptionHarness,
    pod,
    slow_to_terminate,
)
from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.harnesses.volumes import VolumeHarness
from tests.storage import ZONE, a_claim, a_class, a_volume

pytestmark = VIRTUAL_TIME


# --- two preemptors, one node -------------------------------------------------------------------


async def test_what_is_freed_for_the_nominee_is_not_stolen(sim: PreemptionHarness) -> None:
    sim.nodes(2)
    # The room of the first is free, and not yet enough, while the second still terminates.
    sim.create(*(slow_to_terminate(2 + 7 * n, pod(f"low-{n}").on("n0")) for n in range(2)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9, 2))
        await sim.until(lambda: len(sim.evicted()) == 2)
        for n in range(60):  # all the time between the evictions and the Binding, and after
            sim.create(pod(f"thief-{n}", n % 9))
            await asyncio.sleep(0.2)
        await sim.until_bound("high", "n0")
        assert sim.bound() == 1
        assert sorted(sim.evicted()) == ["low-0", "low-1"]


async def test_only_a_more_important_pod_may_take_it(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    sim.create(slow_to_terminate(5, pod("low").on("n0")))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 5))
        await sim.until(lambda: sim.nominated("high") == "n0")
        sim.create(pod("highest", 9))
        await sim.until_bound("highest", "n0")
        await asyncio.sleep(30)
        assert sim.nominated("high") == ""
        assert sim.evicted() == ["low"]


async def test_who_loses_the_promise_to_another_looks_elsewhere_at_once(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(1, 1)
    sim.create(slow_to_terminate(60, pod("low").on("n0")), pod("less-low", 1).on("n1"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 5))
        await sim.until(lambda: sim.nominated("high") == "n0")
        sim.create(pod("highest", 9).selects({"kubernetes.io/hostname": "n0"}))
        await sim.until_bound("high", "n1", within=15)
        await sim.until_bound("highest", "n0", within=90)
        assert sim.evicted() == ["low", "less-low"]


# --- victims with a will of their own ----------------------------------------------------------


async def test_for_a_victim_that_takes_its_time_nobody_else_has_to_go(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(1, 1)
    sim.create(slow_to_terminate(1200, pod("low").on("n0")), pod("other", 1).on("n1"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await sim.until(lambda: sim.nominated("high") == "n0")
        await asyncio.sleep(1190)
        assert "not eligible due to a terminating pod" in sim.condition_message("high")
        await sim.until_bound("high", "n0")
        assert sim.evicted() == ["low"]


async def test_a_victim_that_never_ends_is_waited_for_and_room_elsewhere_is_taken(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(1)
    sim.create(slow_to_terminate(10**6, pod("low").on("n0")))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await sim.until(lambda: sim.nominated("high") == "n0")
        await asyncio.sleep(3000)
        sim.create(a_node("n1").offers(cpu=1))
        await sim.until_bound("high", "n1", within=15)
        sim.create(pod("late"))
        await asyncio.sleep(60)
        assert sim.evicted() == ["low"]


@pytest.mark.parametrize("deleted", [False, True], ids=["it asks for that", "deleted with that"])
async def test_a_victim_that_would_take_years_has_an_hour(
    sim: PreemptionHarness, deleted: bool
) -> None:
    sim.nodes(1)
    sim.create(slow_to_terminate(10**9, pod("low").on("n0")))
    async with sim.scheduler(), sim.kubelets():
        if deleted:
            sim.deleted_by_owners.add("low")
            sim.delete("pod", "low", grace=10**9)
        sim.create(pod("high", 9))
        await sim.until_bound("high", "n0", within=3600 + 60)
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
    sim.nodes(1)
    owner(sim, pod("web-0"))
    sim.create(pod("web-0").on("n0"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await sim.until_bound("high", "n0")
        await asyncio.sleep(60)
        assert sim.node_of("web-0") == ""
        assert sim.evicted() == ["web-0"]


async def test_a_pod_that_has_taken_a_victims_name_is_not_meant(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    sim.create(pod("web-0").on("n0"))

    def replace() -> None:
        sim.delete("pod", "web-0")
        sim.create(pod("web-0").on("n0"))

    sim.faults.inject(DELETES, ConcurrentAction(replace), times=1)
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await sim.until_bound("high", "n0", within=120)
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
        await sim.until_bound("high", node)
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
        await sim.until_bound("high", "n1", within=400)
        assert sim.evicted() == ["low-1"]
    storage.check()


# --- budgets -----------------------------------------------------------------------------------


async def test_whom_a_budget_forbids_to_evict_is_spared_for_another(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(1, 1)
    sim.budget(0, app="db")
    sim.create(pod("db").labelled(app="db").on("n0"), pod("web", 5).on("n1"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9))
        await sim.until_bound("high", "n1")
        assert sim.evicted() == ["web"]


async def test_a_budget_is_broken_rather_than_that_the_more_important_waits(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(3)
    sim.budget(1, app="db")
    sim.create(*(pod(f"db-{n}", n).labelled(app="db").on("n0") for n in range(2)))
    sim.create(pod("web", 2).on("n0"))
    async with sim.scheduler(), sim.kubelets():
        sim.create(pod("high", 9, 2))
        await sim.until_bound("high", "n0")
        # Upstream spares those first whom a budget protects: of db-1 and db-0, in this order,
        # the budget lets db-1 go, so that db-0 is spared, and then web.
        assert sorted(sim.evicted()) == ["db-1", "web"]


# --- one after the other -----------------------------------------------------------------------


async def test_a_evicts_b_which_evicts_c_and_nobody_moves_twice(sim: PreemptionHarness) -> None:
    sim.nodes(1, 1, 1)
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
            await sim.until_bound(name, f"n{n}")
        await asyncio.sleep(600)
        assert sim.evicted() == ["b", "c", "d"]
        assert sim.node_of("d") == ""


async def test_many_that_preempt_at_once_take_one_victim_each(sim: PreemptionHarness) -> None:
    sim.nodes(*([2] * 10))
    sim.create(*(slow_to_terminate(2, pod(f"low-{n}", n % 3).on(f"n{n // 2}")) for n in range(20)))
    async with sim.scheduler(), sim.kubelets():
        sim.create(*(pod(f"high-{n}", 9) for n in range(15)))
        await sim.until(lambda: sum(bool(sim.node_of(f"high-{n}")) for n in range(15)) == 15)
        evicted = sim.evicted()
        assert len(evicted) == len(set(evicted)) == 15
