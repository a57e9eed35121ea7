"""Faults of the fault matrix that hit reads: F5 unseen changes, F6 stale servers, F7 streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arranger.embedded.fault_injection import (
    BINDINGS,
    READS,
    WATCHES,
    ClientRequest,
    Delay,
    DropConnection,
    Reply,
    RequestMatcher,
    WatchCut,
    WatchDelay,
    WatchExpiry,
    WatchStall,
    for_resource,
)
from tests.builders import a_pod
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


async def test_f5_a_watch_that_pauses_only_delays(stage: SimulationHarness) -> None:
    stage.create_nodes_and_pods(nodes=2, pods=2)
    async with stage.scheduler():
        await stage.until_settled(2)
        stage.faults.inject(PODS, WatchDelay(40), times=1)
        stage.create_nodes_and_pods(pods=4)
        await asyncio.sleep(30)
        assert stage.bound() == 2
        await stage.until_settled(6, within=30)


async def test_f5_pods_that_come_and_go_unseen_leave_nothing_behind(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=1, pods=4)
    async with stage.scheduler() as scheduler:
        await stage.until_settled(4)
        stage.faults.inject(PODS, WatchStall(), times=1)
        stage.create(a_pod("brief").needs(cpu=1))
        stage.delete("pod", "brief")
        for n in range(4):
            stage.delete("pod", f"p{n}")
        stage.create(*(a_pod(f"p{n}").needs(cpu=2) for n in range(2)))  # the same names again
        stage.cluster.store.compact()  # and nobody can tell what happened in between
        await stage.until_settled(2, within=100)
        assert len(scheduler.engine.cluster) == 2


async def test_f5_nodes_that_come_and_go_unseen_are_as_they_are_now(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=2)
    async with stage.scheduler() as scheduler:
        await stage.until(lambda: scheduler.synced)
        stage.faults.inject(NODES, WatchStall(), times=1)
        stage.delete("node", "n0")
        stage.delete("node", "n1")
        stage.create_nodes_and_pods(nodes=1)  # n0 again
        stage.cluster.store.compact()
        await asyncio.sleep(100)
        stage.create_nodes_and_pods(pods=2)
        await stage.until_settled(2)
        assert {stage.node_of("p0"), stage.node_of("p1")} == {"n0"}


async def test_f5_a_quiet_half_hour_of_bookmarks_keeps_the_place(stage: SimulationHarness) -> None:
    stage.create_nodes_and_pods(nodes=1)
    behind: list[int] = []

    def resumes(call: ClientRequest) -> bool:
        if PODS(call) and not ANEW(call):
            behind.append(stage.cluster.store.version - version(call))
        return False

    stage.faults.inject(resumes)
    listed = stage.faults.inject(READS & for_resource("pods"))
    anew = stage.faults.inject(PODS & ANEW)
    async with stage.scheduler():
        await asyncio.sleep(1800)
        stage.create_nodes_and_pods(pods=1)
        await stage.until_settled(1, within=1)
    assert len(anew.matched) == 1
    assert not listed.matched
    assert 2 <= len(behind) <= 6
    # The lease alone is written every other second, and a bookmark comes every minute.
    assert max(behind) <= 35


# --- F6: servers of the past -------------------------------------------------------------------


async def test_f6_a_server_that_lags_behind_is_asked_for_all_of_it(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=2, pods=2)
    async with stage.scheduler():
        await stage.until_settled(2)
        lags = stage.faults.inject(PODS & ~ANEW, TOO_LARGE, times=3)
        stage.faults.inject(PODS, WatchCut(), times=1)
        stage.create_nodes_and_pods(pods=4)
        await stage.until_settled(6, within=60)
    assert lags.matched


async def test_f6_nothing_is_ever_read_from_a_stale_cache(stage: SimulationHarness) -> None:
    stage.create_nodes_and_pods(nodes=2, pods=4)
    stale = stage.faults.inject(lambda call: call.query.get("resourceVersion") == "0")
    stage.faults.inject(WATCHES, Reply(422, "Invalid"), times=7)  # one for each kind: lists instead
    stage.faults.inject(PODS, WatchExpiry(), skip=3, times=1)
    listed = stage.faults.inject(READS & for_resource("pods"))
    async with stage.scheduler("one"):
        await stage.until_settled(4)
    async with stage.scheduler("two"):
        stage.create_nodes_and_pods(pods=4)
        await stage.until_settled(8)
    assert listed.matched
    assert not stale.matched


async def test_f6_what_a_backup_has_undone_is_done_again(stage: SimulationHarness) -> None:
    stage.create_nodes_and_pods(nodes=2, pods=2)
    async with stage.scheduler() as scheduler:
        await stage.until_settled(2)
        backup = stage.copy_server()
        stage.create_nodes_and_pods(pods=4)
        await stage.until_settled(6)
        # A restored server is asked for a future of which it never tells, bookmarks included.
        stage.faults.inject(lambda call: WATCHES(call) and version(call) > restored, WatchStall())
        restored = backup.store.version
        stage.faults.log.clear()  # what it remembers of has not happened
        await stage.switch_server(backup)
        stage.create_nodes_and_pods(pods=3)  # other pods under the names of those that are no more
        await stage.until_settled(5, within=600)
        assert len(scheduler.engine.cluster) == 5


async def test_f6_a_pod_that_a_backup_shows_unbound_is_bound_again(
    stage: SimulationHarness,
) -> None:
    stage.create_nodes_and_pods(nodes=2, pods=2)
    async with stage.scheduler():
        stage.faults.inject(BINDINGS, Delay(5), times=2)
        await stage.until(lambda: len(stage.cluster.objects("leases", "coordination.k8s.io")) == 1)
        backup = stage.copy_server()
        await stage.until_settled(2)
        stage.faults.inject(lambda call: WATCHES(call) and version(call) > restored, WatchStall())
        restored = backup.store.version
        stage.faults.log.clear()
        await stage.switch_server(backup)
        assert stage.bound() == 0
        await stage.until_settled(2, within=600)


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


async def assert_nothing_is_missed(stage: SimulationHarness) -> None:
    """Pods and nodes come, change and go; the scheduler ends up with what there is."""
    stage.create_nodes_and_pods(nodes=1, pods=6)
    async with stage.scheduler() as scheduler:
        await stage.until(lambda: stage.bound() == 4, within=300)
        stage.create_nodes_and_pods(nodes=2, pods=5)
        await stage.until_settled(11, within=300)
        for n in range(11):
            stage.delete("pod", f"p{n}")
        stage.delete("node", "n2")
        left = scheduler.engine.cluster
        await stage.until(lambda: not len(left) and left.table.count == 2, within=150)


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS.keys())
@pytest.mark.parametrize("skip", [0, 1], ids=["the first", "the second"])
async def test_f7_whatever_keeps_a_watch_from_opening_nothing_is_missed(
    stage: SimulationHarness, fault: Any, skip: int
) -> None:
    rules = [stage.faults.inject(where, fault, skip=skip, times=2) for where in (PODS, NODES)]
    for where in (PODS, NODES):
        stage.faults.inject(where, WatchCut(), skip=2, times=1)  # so that there is a second
    await assert_nothing_is_missed(stage)
    assert [len(rule.matched) for rule in rules] == [2, 2]


@pytest.mark.parametrize("fault", BREAKS.values(), ids=BREAKS.keys())
@pytest.mark.parametrize("skip", [0, 1, 3], ids=["at once", "early", "late"])
async def test_f7_whatever_breaks_a_watch_nothing_is_missed(
    stage: SimulationHarness, fault: Any, skip: int
) -> None:
    rules = [stage.faults.inject(where, fault, skip=skip, times=2) for where in (PODS, NODES)]
    await assert_nothing_is_missed(stage)
    assert all(rule.matched for rule in rules)


@pytest.mark.parametrize("seed", range(3))
async def test_f7_a_network_that_cuts_every_tenth_line_is_slow_and_no_more(seed: int) -> None:
    stage = SimulationHarness(seed)
    stage.create_nodes_and_pods(nodes=4)
    for fault in (WatchCut(), WatchCut(reset=True), WatchCut(within_line=True), WatchExpiry()):
        stage.faults.inject(WATCHES, fault, probability=0.02)
    stage.faults.inject(WATCHES, DropConnection.BEFORE, probability=0.2)
    async with stage.scheduler():
        for _ in range(8):
            stage.create_nodes_and_pods(pods=2)
            await asyncio.sleep(20)
        await stage.until_settled(16, within=600)
    stage.check()
