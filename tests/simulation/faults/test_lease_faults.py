"""Faults of the fault matrix that hit the lease (F9): one leader writes, and soon one does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from arranger.daemon.scheduler import LeadershipLostError
from arranger.engine.gang.attempt import attempts
from tests.builders import a_node, a_pod
from tests.faults.injector import BINDINGS, LEASES, WRITES, from_user
from tests.faults.kinds import Delay, DropConnection, Reply
from tests.simulation.harnesses.gangs import members
from tests.simulation.harnesses.simulation import (
    LEASE,
    VIRTUAL_TIME,
    SimulationHarness,
    block_event_loop,
)

pytestmark = VIRTUAL_TIME

RENEWALS = LEASES & WRITES


def now() -> float:
    return asyncio.get_running_loop().time()


def holder(sim: SimulationHarness) -> str:
    leases = sim.cluster.objects("leases", "coordination.k8s.io")
    return str(leases[0]["spec"]["holderIdentity"]) if leases else ""


def take_lease(
    sim: SimulationHarness, who: str = "thief", *, skew: timedelta = timedelta()
) -> None:
    """Somebody whose clock is wrong by ``skew`` writes the lease."""
    stamp = (datetime.now(UTC) + skew).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec: dict[str, Any] = {"holderIdentity": who, "renewTime": stamp, "acquireTime": stamp}
    sim.request("PATCH", LEASE, {"spec": spec}, "application/merge-patch+json")


async def trickle(sim: SimulationHarness) -> None:
    """A pod every second, so that there is always something to write."""
    while True:
        sim.create_nodes_and_pods(pods=1)
        await asyncio.sleep(1)


async def test_f9_a_standby_takes_over_within_the_lease_time(sim: SimulationHarness) -> None:
    sim.create(a_node("n1"))
    async with sim.scheduler("a") as leader:
        await sim.until(leader.may_write)
        async with sim.scheduler("b") as standby:
            await asyncio.sleep(20)
            assert not standby.may_write()
            sim.kill("a")  # it releases nothing
            sim.create(a_pod("p"))
            await sim.until(lambda: sim.bound() == 1, within=20)
            assert standby.may_write()


async def test_f9_a_leader_that_is_cancelled_leaves_nothing_running(sim: SimulationHarness) -> None:
    sim.create(a_node("n1"))
    async with sim.scheduler("a") as leader:
        await sim.until(leader.may_write)
        await sim.until(lambda: leader.synced)
        sim.kill("a")
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_f9_a_leader_that_stops_in_good_order_is_followed_at_once(
    sim: SimulationHarness,
) -> None:
    sim.create(a_node("n1"))
    async with sim.scheduler("b"), sim.scheduler("a"):
        await sim.until(lambda: holder(sim) == "b")
        sim.schedulers["b"].stop()
        assert await sim.wait_until_ended("b") is None
        sim.create(a_pod("p"))
        await sim.until(lambda: sim.bound() == 1, within=5)


async def test_f9_a_stolen_lease_ends_the_leader(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=50)
    async with sim.scheduler("one") as leader:
        await sim.until(leader.may_write)
        arrivals = asyncio.create_task(trickle(sim))
        await asyncio.sleep(10.5)
        take_lease(sim)
        stolen = now()
        assert isinstance(await sim.wait_until_ended("one"), LeadershipLostError)
        assert now() - stolen <= 2.1  # by the next renewal
        arrivals.cancel()
    # Nothing in the API could stop what it wrote before it looked.
    late = [w for w in sim.faults.received(~LEASES) if w.request.at > stolen]
    assert all(w.request.at <= stolen + 2.1 for w in late)
    sim.faults.log[:] = [w for w in sim.faults.log if w not in late]


async def test_f9_a_lease_deleted_by_hand_is_made_anew_by_its_leader(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=1)
    async with sim.scheduler("one") as leader:
        await sim.until(leader.may_write)
        sim.request("DELETE", LEASE)
        await asyncio.sleep(30)
        assert leader.may_write()
        assert holder(sim) == "one"


SICK = {
    "hangs": Delay(600),
    "hangs on the way back": Delay(600, after=True),
    "is lost": DropConnection.BEFORE,
    "is refused": Reply(500, "InternalError"),
    "is told to wait": Reply(429, "TooManyRequests", retry_after=60),
}


@pytest.mark.parametrize("fault", SICK.values(), ids=SICK.keys())
async def test_f9_a_leader_whose_renewals_fail_has_stopped_before_another_begins(
    sim: SimulationHarness, fault: Any
) -> None:
    sim.create_nodes_and_pods(nodes=50)
    async with sim.scheduler("one") as leader:
        await sim.until(leader.may_write)
        async with sim.scheduler("two") as standby:
            arrivals = asyncio.create_task(trickle(sim))
            await asyncio.sleep(10)
            cut_off = now()
            sim.faults.inject(RENEWALS & from_user("one"), fault)  # all else of it works
            assert isinstance(await sim.wait_until_ended("one"), LeadershipLostError)
            assert now() - cut_off <= 10.1
            await sim.until(standby.may_write, within=40)
            assert not leader.may_write()
            await asyncio.sleep(5)
            arrivals.cancel()
            await sim.until_settled(len(sim.cluster.objects("pods")))
    ours, theirs = (
        [w.request.at for w in sim.faults.received(BINDINGS & from_user(n))] for n in ("one", "two")
    )
    assert max(ours) + 5 <= min(theirs)  # and what was in flight has ended, too
    assert max(ours) <= cut_off + 10


async def test_f9_a_renewal_or_two_may_fail(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=50)
    async with sim.scheduler("one") as leader:
        await sim.until(leader.may_write)
        async with sim.scheduler("two"):
            arrivals = asyncio.create_task(trickle(sim))
            for fault in (
                DropConnection.BEFORE,
                DropConnection.AFTER,
                Delay(4),
                Delay(4, after=True),
                Reply(500),
            ):
                sim.faults.inject(RENEWALS, fault, times=2)
                await asyncio.sleep(20)
            arrivals.cancel()
            assert leader.may_write()
    assert {w.request.user for w in sim.faults.received(BINDINGS)} == {"one"}


@pytest.mark.parametrize("hours", [-1, 1])
async def test_f9_clocks_that_differ_by_an_hour_neither_hurry_nor_hinder(
    sim: SimulationHarness, hours: int
) -> None:
    sim.create_nodes_and_pods(nodes=1, pods=1)
    async with sim.scheduler("one"):
        await sim.until(lambda: holder(sim) == "one")
        sim.kill("one")
    take_lease(sim, "other", skew=timedelta(hours=hours))
    taken = now()
    async with sim.scheduler("two") as standby:
        await sim.until(standby.may_write, within=25)
        assert now() - taken >= 15


async def test_f9_a_short_stall_of_the_loop_costs_one_renewal_and_loses_no_pod(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=3)
    async with sim.scheduler("one") as leader:
        await sim.until(lambda: leader.synced)
        await asyncio.sleep(5)
        # It happens while there is work: decided before the stall, nothing is written after it
        # until the lease has been renewed.
        sim.faults.inject(RENEWALS, Delay(1), times=1)
        sim.create_nodes_and_pods(pods=6)
        block_event_loop(5)
        stalled = now()
        await sim.until_settled(6, within=3)
        assert leader.may_write()
    (first, *_) = (w.at for w in sim.faults.applied(BINDINGS))
    renewals = [w.at for w in sim.faults.applied(LEASES) if w.at >= stalled]
    assert first >= renewals[0] >= stalled


async def test_f9_a_loop_that_stalls_for_longer_than_the_lease_writes_nothing_more(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=3)
    async with sim.scheduler("one") as leader:
        await sim.until(lambda: leader.synced)
        sim.create_nodes_and_pods(pods=6)
        block_event_loop(20)
        assert not leader.may_write()
        assert isinstance(await sim.wait_until_ended("one"), LeadershipLostError)
    assert not sim.faults.received(BINDINGS)
    async with sim.scheduler("two"):
        await sim.until_settled(6)


@pytest.mark.parametrize(
    ("seconds", "ends"), [(5, False), (20, True)], ids=["and won again", "for good"]
)
async def test_f9_a_lease_is_lost_between_two_steps_of_a_gangs_attempt(
    sim: SimulationHarness, monkeypatch: pytest.MonkeyPatch, seconds: float, ends: bool
) -> None:
    monkeypatch.setattr(attempts, "STEP_UNITS", 50)
    sim.create_nodes_and_pods(nodes=20)
    async with sim.scheduler("one") as leader:
        await sim.until(lambda: leader.synced)
        await asyncio.sleep(5)
        sim.create(*members("g", 40))
        began = now()
        while not any(entity.suspended for entity in leader.engine.queue.entities()):
            assert now() == began, "it is not tried in steps"
            await asyncio.sleep(0)
        if not ends:
            sim.faults.inject(RENEWALS, Delay(1), times=1)
        block_event_loop(seconds)
        stalled = now()
        assert not leader.may_write()
        leader.engine.check_consistent()
        if ends:
            assert isinstance(await sim.wait_until_ended("one"), LeadershipLostError)
        else:
            await sim.until_settled(40)
    if ends:
        assert not sim.faults.received(BINDINGS)
        async with sim.scheduler("two"):
            await sim.until_settled(40)
    else:
        renewals = [w.at for w in sim.faults.applied(LEASES) if w.at >= stalled]
        assert min(w.at for w in sim.faults.applied(BINDINGS)) >= renewals[0]


async def test_f9_two_that_start_together_agree_on_one(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=2, pods=8)
    async with sim.scheduler("one"), sim.scheduler("two"), sim.scheduler("three"):
        await sim.until(lambda: sim.bound() == 8)
        assert len({w.request.user for w in sim.faults.received(~LEASES)}) == 1


async def test_f9_a_late_binding_of_the_old_leader_does_not_harm_the_new(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=2, pods=1)
    sim.patch("node", "n0", {"spec": {"unschedulable": True}})
    # Sent while it led, it lands when the other has long decided.
    sim.faults.inject(BINDINGS & from_user("one"), Delay(60), times=1)
    async with sim.scheduler("one"):
        await sim.until(lambda: holder(sim) == "one")
        await asyncio.sleep(1)
        sim.kill("one")
    sim.patch("node", "n0", {"spec": {"unschedulable": False}})
    sim.patch("node", "n1", {"spec": {"unschedulable": True}})
    async with sim.scheduler("two"):
        await sim.until_settled(1)
        assert sim.node_of("p0") == "n0"
        await asyncio.sleep(60)
        assert sim.node_of("p0") == "n0"
    assert [w.status for w in sim.faults.received(BINDINGS & from_user("one"))] == [409]
