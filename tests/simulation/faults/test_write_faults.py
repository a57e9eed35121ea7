"""Faults of the fault matrix that hit writes: F2 crashes, F3 doubt, F4 conflicts, F8 overload."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.builders import a_node, a_pod
from tests.faults.injector import (
    ALL,
    BINDINGS,
    EVENTS,
    LEASES,
    READS,
    STATUSES,
    WATCHES,
    WRITES,
    RequestMatcher,
    for_object,
    from_user,
)
from tests.faults.kinds import ConcurrentAction, Delay, DropConnection, Reply
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME


def events(sim: SimulationHarness, reason: str) -> list[str]:
    """Names of the pods that have an event of that reason, once per Event object."""
    return [
        e["regarding"]["name"]
        for e in sim.cluster.objects("events", "events.k8s.io")
        if e["reason"] == reason
    ]


# --- F3: nobody knows whether it was done ------------------------------------------------------

DOUBTS = {
    "the request is lost": DropConnection.BEFORE,
    "the answer is lost": DropConnection.AFTER,
    "no connection is made": DropConnection.REFUSED,
    "500 instead of the act": Reply(500, "InternalError"),
    "500 in spite of the act": Reply(500, "InternalError", after=True),
    "504 instead of the act": Reply(504, "Timeout"),
    "504 in spite of the act": Reply(504, "Timeout", after=True),
    "the answer takes 40 s": Delay(40, after=True),
    "the request takes 40 s": Delay(40),
}


@pytest.mark.parametrize("fault", DOUBTS.values(), ids=DOUBTS.keys())
@pytest.mark.parametrize("times", [1, 30])
async def test_f3_a_binding_in_doubt_is_repeated_to_the_same_node_until_it_is_known(
    sim: SimulationHarness, fault: Any, times: int
) -> None:
    sim.create_nodes_and_pods(nodes=6, pods=24)  # full: nobody may be counted twice or forgotten
    sent = sim.faults.inject(BINDINGS)
    doubt = sim.faults.inject(BINDINGS, fault, times=times)
    async with sim.scheduler():
        await sim.until_settled(24, within=300)
        await asyncio.sleep(60)  # for what is still under way
    assert len(doubt.matched) == times
    places = {(call.json["metadata"]["uid"], call.json["target"]["name"]) for call in sent.matched}
    assert len(places) == 24
    assert sorted(events(sim, "Scheduled")) == sorted(f"p{n}" for n in range(24))


@pytest.mark.parametrize("seed", range(5))
async def test_f3_no_pod_is_lost_or_bound_twice_when_answers_get_lost(seed: int) -> None:
    sim = SimulationHarness(seed)
    sim.create_nodes_and_pods(nodes=6, pods=24)
    lost = sim.faults.inject(BINDINGS, DropConnection.BEFORE, probability=0.1)
    unheard = sim.faults.inject(BINDINGS, DropConnection.AFTER, probability=0.3)
    async with sim.scheduler():
        await sim.until_settled(24, within=600)
    assert lost.matched
    assert unheard.matched
    sim.check()


async def test_f3_a_late_binding_that_lands_after_all_is_recognised_as_ours(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=1, pods=1)
    sim.faults.inject(BINDINGS, Delay(20), times=1)
    sim.faults.inject(BINDINGS, DropConnection.BEFORE, skip=1)  # no repetition gets through
    async with sim.scheduler() as scheduler:
        await sim.until(lambda: sim.bound() == 1)
        # The watch shows the pod where it was being bound; doubt keeps it counted, once.
        sim.faults.clear()
        await sim.until(lambda: not scheduler.engine.pods())


# --- F4: the server says no --------------------------------------------------------------------


async def test_f4_a_pod_that_somebody_else_has_just_bound_stays_there(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=2, pods=1)
    sim.patch("node", "n1", {"spec": {"unschedulable": True}})
    path = "/api/v1/namespaces/default/pods/p0/binding"
    theirs = {"metadata": {"name": "p0"}, "target": {"name": "n1"}}
    sim.faults.inject(
        BINDINGS, ConcurrentAction(lambda: sim.request("POST", path, theirs)), times=1
    )
    async with sim.scheduler() as scheduler:
        await sim.until_settled(1)
        assert sim.node_of("p0") == "n1"
        await asyncio.sleep(60)
        # What was reserved for it on n0 is free again.
        sim.create(*(a_pod(f"q{n}").needs(cpu=1) for n in range(4)))
        await sim.until_settled(5)
        assert scheduler.engine.cluster.table.count == 2
    assert [w.status for w in sim.faults.received(BINDINGS & for_object("p0"))] == [409]
    assert not sim.faults.received(STATUSES)


async def test_f4_a_pod_recreated_under_its_name_is_bound_as_the_new_one(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=1, pods=1)

    def recreate() -> None:
        sim.delete("pod", "p0")
        sim.create(a_pod("p0").needs(cpu=4))

    sim.faults.inject(BINDINGS, ConcurrentAction(recreate), times=1)
    async with sim.scheduler():
        await sim.until_settled(1)
    refused, taken = sim.faults.received(BINDINGS)
    assert (refused.status, taken.status) == (409, 201)
    assert refused.request.json["metadata"]["uid"] != taken.request.json["metadata"]["uid"]


async def test_f4_a_pod_recreated_with_a_gate_waits_for_it(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=1, pods=1)

    def recreate() -> None:
        sim.delete("pod", "p0")
        sim.create(a_pod("p0").needs(cpu=1).gated("later"))

    sim.faults.inject(BINDINGS, ConcurrentAction(recreate), times=1)
    async with sim.scheduler():
        await asyncio.sleep(30)
        assert sim.bound() == 0
        sim.patch("pod", "p0", {"spec": {"schedulingGates": None}})
        await sim.until_settled(1, within=5)


async def test_f4_a_pod_that_is_being_deleted_gives_its_room_to_the_next(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=1, pods=0)
    # A finalizer keeps it there, terminating.
    sim.create(a_pod("old").needs(cpu=4))
    sim.patch("pod", "old", {"metadata": {"finalizers": ["example.com/hold"]}})
    sim.faults.inject(BINDINGS, ConcurrentAction(lambda: sim.delete("pod", "old")), times=1)
    async with sim.scheduler():
        await asyncio.sleep(5)
        assert sim.bound() == 0
        sim.create(a_pod("new").needs(cpu=4))
        await sim.until_settled(1, within=15)
        assert sim.node_of("new") == "n0"
        sim.patch("pod", "old", {"metadata": {"finalizers": None}})
        await asyncio.sleep(5)


async def test_f4_a_pod_that_is_gone_leaves_nothing_behind(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=1, pods=1)
    sim.faults.inject(BINDINGS, ConcurrentAction(lambda: sim.delete("pod", "p0")), times=1)
    async with sim.scheduler() as scheduler:
        await asyncio.sleep(5)
        assert not scheduler.engine.pods()
        assert not len(scheduler.engine.cluster)


# --- F8: the server labours --------------------------------------------------------------------

STORMS: dict[str, tuple[RequestMatcher, Any]] = {
    "429 with Retry-After for everything": (ALL, Reply(429, "TooManyRequests", retry_after=3)),
    "500 for everything": (ALL, Reply(500, "InternalError")),
    "503 for bindings and their repetition": (BINDINGS, Reply(503, "ServiceUnavailable")),
    "everything takes 30 s": (ALL & ~LEASES, Delay(30)),
    "writes fail, watches work": (WRITES & ~LEASES, Reply(503, "ServiceUnavailable")),
    "nothing can be read": (READS & ~LEASES | WATCHES, Reply(503, "ServiceUnavailable")),
    "events and statuses fail, bindings work": (EVENTS | STATUSES, Reply(500, "InternalError")),
}


@pytest.mark.parametrize(("where", "fault"), STORMS.values(), ids=STORMS.keys())
async def test_f8_after_a_storm_of_five_minutes_everything_is_bound(
    sim: SimulationHarness, where: RequestMatcher, fault: Any
) -> None:
    sim.create_nodes_and_pods(nodes=3, pods=12)
    with sim.faults.inject(where, fault) as storm:
        async with asyncio.timeout(400), sim.scheduler():
            await asyncio.sleep(300)
            storm.stop()
            await sim.until_settled(12, within=90)
    # It was not flooded while it laboured: a few tries a second are all that is in flight.
    assert 0 < len(storm.matched) < 5 * 300


async def test_f8_retry_after_is_heeded(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=1, pods=1)
    refused = sim.faults.inject(BINDINGS, Reply(429, "TooManyRequests", retry_after=9), times=2)
    async with sim.scheduler():
        await sim.until_settled(1)
    first, second = (call.at for call in refused.matched)
    (taken,) = sim.faults.applied(BINDINGS)
    assert second - first >= 9
    assert taken.at - second >= 9


async def test_f8_a_pod_that_cannot_be_bound_lets_its_node_go_and_is_tried_again(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=1, pods=0)
    sim.create(a_pod("stuck").needs(cpu=4))
    sim.faults.inject(
        BINDINGS & for_object("stuck"), DropConnection.REFUSED
    )  # known not to have happened
    async with sim.scheduler():
        await asyncio.sleep(20)
        sim.create(a_pod("other").needs(cpu=4))
        await sim.until(lambda: sim.node_of("other") == "n0", within=60)
        sim.delete("pod", "other")
        sim.faults.clear()
        await sim.until(lambda: sim.node_of("stuck") == "n0", within=60)


# --- F2: it dies between any two of its writes -------------------------------------------------

BOUNDARIES = {
    "lease": LEASES,
    "binding": BINDINGS,
    "event": EVENTS,
    "condition": STATUSES,
}


@pytest.mark.parametrize("where", BOUNDARIES.values(), ids=BOUNDARIES.keys())
@pytest.mark.parametrize("nth", [0, 1, 3])
@pytest.mark.parametrize("acted", [False, True], ids=["before the write", "after the write"])
async def test_f2_killed_at_a_write_its_successor_finishes_the_work(
    sim: SimulationHarness, where: RequestMatcher, nth: int, acted: bool
) -> None:
    sim.create_nodes_and_pods(nodes=2, pods=8)
    sim.create(*(a_pod(f"huge{n}").needs(cpu=64) for n in range(4)))  # for the conditions
    died = asyncio.Event()

    def die() -> None:
        sim.kill("one")
        died.set()

    sim.faults.inject(
        where & from_user("one"), ConcurrentAction(die, after=acted), skip=nth, times=1
    )
    if not acted:
        sim.faults.inject(where & from_user("one"), DropConnection.BEFORE, skip=nth)
    async with sim.scheduler("one"), sim.scheduler("two"):
        async with asyncio.timeout(60):
            await died.wait()
        await sim.until(lambda: sim.bound() == 8, within=60)
        huge = [f"huge{n}" for n in range(4)]
        await sim.until(lambda: all("conditions" in sim.pod(p)["status"] for p in huge))


async def test_f2_a_restart_without_any_fault_writes_nothing_anew(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=1, pods=6)
    async with sim.scheduler("one"):
        await sim.until(lambda: len(sim.faults.applied(STATUSES)) == 2)
        await asyncio.sleep(5)
    before = sim.faults.applied(~LEASES & ~EVENTS)
    async with sim.scheduler("two"):
        await asyncio.sleep(120)
    assert sim.faults.applied(~LEASES & ~EVENTS) == before
    assert sim.bound() == 4


async def test_f2_a_graceful_stop_waits_for_the_bindings_it_has_sent(
    sim: SimulationHarness,
) -> None:
    sim.create_nodes_and_pods(nodes=2, pods=8)
    sent = sim.faults.inject(BINDINGS, Delay(4))
    async with sim.scheduler() as scheduler:
        await sim.until(lambda: len(sent.matched) == 8)
        scheduler.stop()
    assert sim.bound() == 8
    assert not scheduler.engine.pods()
    released = sim.faults.log[-1]
    assert LEASES(released.request)
    assert released.request.json["spec"]["holderIdentity"] == ""


# --- a webhook of one tenant's namespace that does not answer -----------------------------------

HANGING = {
    "writes of any kind hang": WRITES,
    "Bindings hang": BINDINGS,
    "statuses and Events hang, Bindings do not": EVENTS | STATUSES,
}


@pytest.mark.parametrize("which", HANGING.values(), ids=HANGING.keys())
async def test_writes_that_hang_in_one_namespace_keep_no_pod_of_another_from_its_node(
    sim: SimulationHarness, which: RequestMatcher
) -> None:
    sim.create(*(a_node(f"n{n}").offers(cpu=1000, pods=2000) for n in range(3)))
    sim.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slow"}})
    slow = RequestMatcher(lambda request: "/namespaces/slow/" in request.path)
    sim.faults.inject(which & slow & ~LEASES, Delay(1e6))
    fits = [a_pod(f"s{n}").needs(cpu=1).in_namespace("slow") for n in range(1100)]
    too_big = [a_pod(f"b{n}").needs(cpu=5000).in_namespace("slow") for n in range(100)]
    waits = []
    async with sim.scheduler():
        sim.create(*fits, *too_big)
        await asyncio.sleep(0.5)
        for n in range(40):
            began = asyncio.get_running_loop().time()
            sim.create(a_pod(f"p{n}").needs(cpu=1))
            async with asyncio.timeout(60):
                while not sim.node_of(f"p{n}"):  # noqa: ASYNC110 — it is virtual time
                    await asyncio.sleep(0.01)
            waits.append(asyncio.get_running_loop().time() - began)
            await asyncio.sleep(0.3)
    assert sorted(waits)[len(waits) // 2] <= 0.1, waits
    assert max(waits) <= 1.0, waits
