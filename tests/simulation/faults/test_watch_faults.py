"""Faults of the fault matrix that hit reads: F5 unseen changes, F6 stale servers, F7 streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.builders import a_pod
from tests.faults.injector import (
    BINDINGS,
    READS,
    WATCHES,
    ClientRequest,
    RequestMatcher,
    for_resource,
)
from tests.faults.kinds import (
    Delay,
    DropConnection,
    Reply,
    WatchCut,
    WatchDelay,
    WatchExpiry,
    WatchRepeat,
    WatchStall,
)
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME

TOO_LARGE = Reply(504, "Timeout", "Too large resource version: 99999, current: 1")
PODS = WATCHES & for_resource("pods")
NODES = WATCHES & for_resource("nodes")


def version(call: ClientRequest) -> int:
    """The version a read goes on from; 0 where it begins anew."""
    return int(call.query.get("resourceVersion") or 0)


#: Watches that begin with the full state.
ANEW = RequestMatcher(lambda call: version(call) == 0)

# --- F5: what nobody saw -----------------------------------------------------------------------


async def test_f5_a_watch_that_pauses_only_delays(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=2, pods=2)
    async with sim.scheduler():
        await sim.until_settled(2)
        sim.faults.inject(PODS, WatchDelay(40), times=1)
        sim.create_nodes_and_pods(pods=4)
        await asyncio.sleep(30)
        assert sim.bound() == 2
        await sim.until_settled(6, within=30)


async def test_f5_pods_that_come_and_go_unseen_leave_nothing_behind(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=1, pods=4)
    async with sim.scheduler() as scheduler:
        await sim.until_settled(4)
        sim.faults.inject(PODS, WatchStall(), times=1)
        sim.create(a_pod("brief").needs(cpu=1))
        sim.delete("pod", "brief")
        for n in range(4):
            sim.delete("pod", f"p{n}")
        sim.create(*(a_pod(f"p{n}").needs(cpu=2) for n in range(2)))  # the same names again
        sim.cluster.store.compact()  # and nobody can tell what happened in between
        await sim.until_settled(2, within=100)
        assert len(scheduler.engine.cluster) == 2


async def test_f5_nodes_that_come_and_go_unseen_are_as_they_are_now(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=2)
    async with sim.scheduler() as scheduler:
        await sim.until(lambda: scheduler.synced)
        sim.faults.inject(NODES, WatchStall(), times=1)
        sim.delete("node", "n0")
        sim.delete("node", "n1")
        sim.create_nodes_and_pods(nodes=1)  # n0 again
        sim.cluster.store.compact()
        await asyncio.sleep(100)
        sim.create_nodes_and_pods(pods=2)
        await sim.until_settled(2)
        assert {sim.node_of("p0"), sim.node_of("p1")} == {"n0"}


async def test_f5_a_quiet_half_hour_of_bookmarks_keeps_the_place(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=1)
    behind: list[int] = []

    def resumes(call: ClientRequest) -> bool:
        if PODS(call) and not ANEW(call):
            behind.append(sim.cluster.store.version - version(call))
        return False

    sim.faults.inject(resumes)
    listed = sim.faults.inject(READS & for_resource("pods"))
    anew = sim.faults.inject(PODS & ANEW)
    async with sim.scheduler():
        await asyncio.sleep(1800)
        sim.create_nodes_and_pods(pods=1)
        await sim.until_settled(1, within=1)
    assert len(anew.matched) == 1
    assert not listed.matched
    assert 2 <= len(behind) <= 6
    # The lease alone is written every other second, and a bookmark comes every minute.
    assert max(behind) <= 35


# --- F6: servers of the past -------------------------------------------------------------------


async def test_f6_a_server_that_lags_behind_is_asked_for_all_of_it(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=2, pods=2)
    async with sim.scheduler():
        await sim.until_settled(2)
        lags = sim.faults.inject(PODS & ~ANEW, TOO_LARGE, times=3)
        sim.faults.inject(PODS, WatchCut(), times=1)
        sim.create_nodes_and_pods(pods=4)
        await sim.until_settled(6, within=60)
    assert lags.matched


async def test_f6_nothing_is_ever_read_from_a_stale_cache(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=2, pods=4)
    stale = sim.faults.inject(lambda call: call.query.get("resourceVersion") == "0")
    sim.faults.inject(WATCHES, Reply(422, "Invalid"), times=7)  # one for each kind: lists instead
    sim.faults.inject(PODS, WatchExpiry(), skip=3, times=1)
    listed = sim.faults.inject(READS & for_resource("pods"))
    async with sim.scheduler("one"):
        await sim.until_settled(4)
    async with sim.scheduler("two"):
        sim.create_nodes_and_pods(pods=4)
        await sim.until_settled(8)
    assert listed.matched
    assert not stale.matched


async def test_f6_what_a_backup_has_undone_is_done_again(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=2, pods=2)
    async with sim.scheduler() as scheduler:
        await sim.until_settled(2)
        backup = sim.copy_server()
        sim.create_nodes_and_pods(pods=4)
        await sim.until_settled(6)
        # A restored server is asked for a future of which it never tells, bookmarks included.
        sim.faults.inject(lambda call: WATCHES(call) and version(call) > restored, WatchStall())
        restored = backup.store.version
        sim.faults.log.clear()  # what it remembers of has not happened
        await sim.switch_server(backup)
        sim.create_nodes_and_pods(pods=3)  # other pods under the names of those that are no more
        await sim.until_settled(5, within=600)
        assert len(scheduler.engine.cluster) == 5


async def test_f6_a_pod_that_a_backup_shows_unbound_is_bound_again(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=2, pods=2)
    async with sim.scheduler():
        sim.faults.inject(BINDINGS, Delay(5), times=2)
        await sim.until(lambda: len(sim.cluster.objects("leases", "coordination.k8s.io")) == 1)
        backup = sim.copy_server()
        await sim.until_settled(2)
        sim.faults.inject(lambda call: WATCHES(call) and version(call) > restored, WatchStall())
        restored = backup.store.version
        sim.faults.log.clear()
        await sim.switch_server(backup)
        assert sim.bound() == 0
        await sim.until_settled(2, within=600)


async def test_f5_what_a_watch_has_told_before_comes_again(sim: SimulationHarness) -> None:
    sim.faults.inject(WATCHES, WatchRepeat(older=True))
    await assert_nothing_is_missed(sim)


# --- F7: streams that break --------------------------------------------------------------------

REFUSALS = {
    "refused": DropConnection.REFUSED,
    "lost while it opens": DropConnection.AFTER,
    "410 at connect": Reply(410, "Expired"),
    "504 too large": TOO_LARGE,
    "503 at connect": Reply(503, "ServiceUnavailable"),
    "not answered for a minute": Delay(60, after=True),
}
BREAKS = {
    "410 in the stream": WatchExpiry(),
    "cut between lines": WatchCut(),
    "cut within a line": WatchCut(within_line=True),
    "reset": WatchCut(reset=True),
    "reset within a line": WatchCut(within_line=True, reset=True),
    "silent death": WatchStall(),
}


async def assert_nothing_is_missed(sim: SimulationHarness) -> None:
    """Pods and nodes come, change and go; the scheduler ends up with what there is."""
    sim.create_nodes_and_pods(nodes=1, pods=6)
    async with sim.scheduler() as scheduler:
        await sim.until(lambda: sim.bound() == 4, within=300)
        sim.create_nodes_and_pods(nodes=2, pods=5)
        await sim.until_settled(11, within=300)
        for n in range(11):
            sim.delete("pod", f"p{n}")
        sim.delete("node", "n2")
        left = scheduler.engine.cluster
        await sim.until(lambda: not len(left) and left.table.count == 2, within=150)


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS.keys())
@pytest.mark.parametrize("skip", [0, 1], ids=["the first", "the second"])
async def test_f7_whatever_keeps_a_watch_from_opening_nothing_is_missed(
    sim: SimulationHarness, fault: Any, skip: int
) -> None:
    rules = [sim.faults.inject(where, fault, skip=skip, times=2) for where in (PODS, NODES)]
    for where in (PODS, NODES):
        sim.faults.inject(where, WatchCut(), skip=2, times=1)  # so that there is a second
    await assert_nothing_is_missed(sim)
    assert [len(rule.matched) for rule in rules] == [2, 2]


@pytest.mark.parametrize("fault", BREAKS.values(), ids=BREAKS.keys())
@pytest.mark.parametrize("skip", [0, 1, 3], ids=["at once", "early", "late"])
async def test_f7_whatever_breaks_a_watch_nothing_is_missed(
    sim: SimulationHarness, fault: Any, skip: int
) -> None:
    rules = [sim.faults.inject(where, fault, skip=skip, times=2) for where in (PODS, NODES)]
    await assert_nothing_is_missed(sim)
    assert all(rule.matched for rule in rules)


@pytest.mark.parametrize("seed", range(3))
async def test_f7_a_network_that_cuts_every_tenth_line_is_slow_and_no_more(seed: int) -> None:
    sim = SimulationHarness(seed)
    sim.create_nodes_and_pods(nodes=4)
    for fault in (WatchCut(), WatchCut(reset=True), WatchCut(within_line=True), WatchExpiry()):
        sim.faults.inject(WATCHES, fault, probability=0.02)
    sim.faults.inject(WATCHES, DropConnection.BEFORE, probability=0.2)
    async with sim.scheduler():
        for _ in range(8):
            sim.create_nodes_and_pods(pods=2)
            await asyncio.sleep(20)
        await sim.until_settled(16, within=600)
    sim.check()
