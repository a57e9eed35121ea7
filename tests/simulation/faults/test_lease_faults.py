"""Faults of the fault matrix that hit the lease (F9): one leader writes, and soon one does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from arranger.daemon.scheduler import LeadershipLostError
from arranger.embedded.fault_injection import (
    BINDINGS,
    LEASES,
    WRITES,
    Delay,
    DropConnection,
    Reply,
    from_user,
)
from tests.builders import a_node, a_pod
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


def holder(stage: SimulationHarness) -> str:
    leases = stage.cluster.objects("leases", "coordination.k8s.io")
    return str(leases[0]["spec"]["holderIdentity"]) if leases else ""


def take_lease(
    stage: SimulationHarness, who: str = "thief", *, skew: timedelta = timedelta()
) -> None:
    """Somebody whose clock is wrong by ``skew`` writes the lease."""
    stamp = (datetime.now(UTC) + skew).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec: dict[str, Any] = {"holderIdentity": who, "renewTime": stamp, "acquireTime": stamp}
    stage.request("PATCH", LEASE, {"spec": spec}, "application/merge-patch+json")


async def trickle(stage: SimulationHarness) -> None:
    """A pod every second, so that there is always something to write."""
    while True:
        stage.create_nodes_and_pods(pods=1)
        await asyncio.sleep(1)


async def test_f9_a_standby_takes_over_within_the_lease_time(stage: SimulationHarness) -> None:
    stage.create(a_node("n1"))
    async with stage.scheduler("a") as leader:
        await stage.until(leader.may_write)
        async with stage.scheduler("b") as standby:
            await asyncio.sleep(20)
            assert not standby.may_write()
            stage.kill("a")  # it releases nothing
            stage.create(a_pod("p"))
            await stage.until(lambda: stage.bound() == 1, within=20)
            assert standby.may_write()


async def test_f9_a_leader_that_stops_in_good_order_is_followed_at_once(
    stage: SimulationHarness,
) -> None:
    stage.create(a_node("n1"))
    async with stage.scheduler("b"), stage.scheduler("a"):
        await stage.until(lambda: holder(stage) == "b")
        stage.schedulers["b"].stop()
        assert await stage.wait_until_ended("b") is None
        stage.create(a_pod("p"))
        await stage.until(lambda: stage.bound() == 1, within=5)


async def test_f9_a_stolen_lease_ends_the_leader(stage: SimulationHarness) -> None:
    stage.create_nodes_and_pods(nodes=50)
    async with stage.scheduler("one") as leader:
        await stage.until(leader.may_write)
        arrivals = asyncio.create_task(trickle(stage))
        await asyncio.sleep(10.5)
        take_lease(stage)
        stolen = now()
        assert isinstance(await stage.wait_until_ended("one"), LeadershipLostError)
        assert now() - stolen <= 2.1  # by the next renewal
        arrivals.cancel()
    # Nothing in the API could stop what it wrote before it looked.
    late = [w for w in stage.faults.received(~LEASES) if w.call.at > stolen]
    assert all(w.call.at <= stolen + 2.1 for w in late)
    stage.faults.log[:] = [w for w in stage.faults.log if w not in late]


async def test_f9_a_lease_deleted_by_hand_is_made_anew_by_its_leader(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=1)
    async with stage.scheduler("one") as leader:
        await stage.until(leader.may_write)
        stage.request("DELETE", LEASE)
        await asyncio.sleep(30)
        assert leader.may_write()
        assert holder(stage) == "one"


SICK = {
    "hangs": Delay(600),
    "hangs on the way back": Delay(600, after=True),
    "is lost": DropConnection.BEFORE,
    "is refused": Reply(500, "InternalError"),
    "is told to wait": Reply(429, "TooManyRequests", retry_after=60),
}


@pytest.mark.parametrize("fault", SICK.values(), ids=SICK.keys())
async def test_f9_a_leader_whose_renewals_fail_has_stopped_before_another_begins(
    stage: SimulationHarness, fault: Any
) -> None:
    stage.create_nodes_and_pods(nodes=50)
    async with stage.scheduler("one") as leader:
        await stage.until(leader.may_write)
        async with stage.scheduler("two") as standby:
            arrivals = asyncio.create_task(trickle(stage))
            await asyncio.sleep(10)
            cut_off = now()
            stage.faults.inject(RENEWALS & from_user("one"), fault)  # all else of it works
            assert isinstance(await stage.wait_until_ended("one"), LeadershipLostError)
            assert now() - cut_off <= 10.1
            await stage.until(standby.may_write, within=40)
            assert not leader.may_write()
            await asyncio.sleep(5)
            arrivals.cancel()
            await stage.until_settled(len(stage.cluster.objects("pods")))
    ours, theirs = (
        [w.call.at for w in stage.faults.received(BINDINGS & from_user(n))] for n in ("one", "two")
    )
    assert max(ours) + 5 <= min(theirs)  # and what was in flight has ended, too
    assert max(ours) <= cut_off + 10


async def test_f9_a_renewal_or_two_may_fail(stage: SimulationHarness) -> None:
    stage.create_nodes_and_pods(nodes=50)
    async with stage.scheduler("one") as leader:
        await stage.until(leader.may_write)
        async with stage.scheduler("two"):
            arrivals = asyncio.create_task(trickle(stage))
            for fault in (
                DropConnection.BEFORE,
                DropConnection.AFTER,
                Delay(4),
                Delay(4, after=True),
                Reply(500),
            ):
                stage.faults.inject(RENEWALS, fault, times=2)
                await asyncio.sleep(20)
            arrivals.cancel()
            assert leader.may_write()
    assert {w.call.user for w in stage.faults.received(BINDINGS)} == {"one"}


@pytest.mark.parametrize("hours", [-1, 1])
async def test_f9_clocks_that_differ_by_an_hour_neither_hurry_nor_hinder(
    stage: SimulationHarness, hours: int
) -> None:
    stage.create_nodes_and_pods(nodes=1, pods=1)
    async with stage.scheduler("one"):
        await stage.until(lambda: holder(stage) == "one")
        stage.kill("one")
    take_lease(stage, "other", skew=timedelta(hours=hours))
    taken = now()
    async with stage.scheduler("two") as standby:
        await stage.until(standby.may_write, within=25)
        assert now() - taken >= 15


async def test_f9_a_short_stall_of_the_loop_costs_one_renewal_and_loses_no_pod(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=3)
    async with stage.scheduler("one") as leader:
        await stage.until(lambda: leader.synced)
        await asyncio.sleep(5)
        # It happens while there is work: decided before the stall, nothing is written after it
        # until the lease has been renewed.
        stage.faults.inject(RENEWALS, Delay(1), times=1)
        stage.create_nodes_and_pods(pods=6)
        block_event_loop(5)
        stalled = now()
        await stage.until_settled(6, within=3)
        assert leader.may_write()
    (first, *_) = (w.at for w in stage.faults.applied(BINDINGS))
    renewals = [w.at for w in stage.faults.applied(LEASES) if w.at >= stalled]
    assert first >= renewals[0] >= stalled


async def test_f9_a_loop_that_stalls_for_longer_than_the_lease_writes_nothing_more(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=3)
    async with stage.scheduler("one") as leader:
        await stage.until(lambda: leader.synced)
        stage.create_nodes_and_pods(pods=6)
        block_event_loop(20)
        assert not leader.may_write()
        assert isinstance(await stage.wait_until_ended("one"), LeadershipLostError)
    assert not stage.faults.received(BINDINGS)
    async with stage.scheduler("two"):
        await stage.until_settled(6)


async def test_f9_two_that_start_together_agree_on_one(stage: SimulationHarness) -> None:
    stage.create_nodes_and_pods(nodes=2, pods=8)
    async with stage.scheduler("one"), stage.scheduler("two"), stage.scheduler("three"):
        await stage.until(lambda: stage.bound() == 8)
        assert len({w.call.user for w in stage.faults.received(~LEASES)}) == 1


async def test_f9_a_late_binding_of_the_old_leader_does_not_harm_the_new(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=2, pods=1)
    stage.patch("node", "n0", {"spec": {"unschedulable": True}})
    # Sent while it led, it lands when the other has long decided.
    stage.faults.inject(BINDINGS & from_user("one"), Delay(60), times=1)
    async with stage.scheduler("one"):
        await stage.until(lambda: holder(stage) == "one")
        await asyncio.sleep(1)
        stage.kill("one")
    stage.patch("node", "n0", {"spec": {"unschedulable": False}})
    stage.patch("node", "n1", {"spec": {"unschedulable": True}})
    async with stage.scheduler("two"):
        await stage.until_settled(1)
        assert stage.node_of("p0") == "n0"
        await asyncio.sleep(60)
        assert stage.node_of("p0") == "n0"
    assert [w.status for w in stage.faults.received(BINDINGS & from_user("one"))] == [409]
