"""Gangs (docs/design/gang-scheduling.md, bundles.md) through the whole scheduler, in virtual time.

After every test: the scheduler's state is consistent, nothing is over its capacity, nothing was
bound twice, and no gang was ever left between nothing and its minimum
(:mod:`tests.simulation.harnesses.gangs`).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator

import pytest

from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.faults.injector import BINDINGS, WRITES, Delay
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


@pytest.fixture
def sim() -> Iterator[GangHarness]:
    """A simulation whose invariants are checked in the end, and every gang whole or nothing."""
    sim = GangHarness()
    yield sim
    sim.check()


def node(name: str, cpu: int) -> NodeBuilder:
    return a_node(name).offers(cpu=cpu)


def lone(name: str, cpu: int = 1) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu)


async def still_unbound(sim: GangHarness, gang: str, seconds: float = 60) -> None:
    """Let time pass; none of the gang is bound then."""
    await asyncio.sleep(seconds)
    assert not sim.placed(gang)


# --- patience ----------------------------------------------------------------------------------

PATIENCE = {
    "ten minutes by default": (600, {}),
    "two hours, beyond the fifteen minutes of kube-scheduler": (7200, {"waiting_time": "2h"}),
}


@pytest.mark.parametrize(("wait", "words"), PATIENCE.values(), ids=PATIENCE.keys())
async def test_a_non_strict_gang_gives_its_nodes_back_when_its_patience_ends(
    sim: GangHarness, wait: float, words: dict[str, str]
) -> None:
    sim.create(node("n1", 2), *members("g", 3, mode="NonStrict", **words))
    async with sim.scheduler():
        await asyncio.sleep(wait - 10)
        sim.create(lone("other", 2))
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

        sim.create(node("n2", 4))
        await still_unbound(sim, "g", 3600)  # not before its owner acts
        sim.patch("pod", "g-0", {"metadata": {"annotations": {KOORDINATOR + "timeout": None}}})
        await sim.until(lambda: len(sim.placed("g")) == 3)
        await sim.until(lambda: not sim.timed_out_pods("g"))


async def test_a_strict_gang_waits_for_room_as_long_as_it_takes(sim: GangHarness) -> None:
    sim.create(node("n1", 2), *members("g", 3))
    async with sim.scheduler():
        await still_unbound(sim, "g", 500)
        sim.create(lone("other", 2))  # it holds nothing meanwhile
        await sim.until(lambda: sim.node_of("other") == "n1", within=1)
        await still_unbound(sim, "g", 7300)
        assert not sim.timed_out_pods("g")
        sim.create(node("n2", 3))
        await sim.until(lambda: len(sim.placed("g")) == 3)


async def test_a_podgroup_says_how_long_its_gang_is_patient(sim: GangHarness) -> None:
    sim.pod_group("g", 3, scheduleTimeoutSeconds=90)
    pods = of_pod_group("g", 3)
    sim.create(node("n1", 2), *(p.annotated({KOORDINATOR + "mode": "NonStrict"}) for p in pods))
    async with sim.scheduler():
        await asyncio.sleep(85)
        assert not sim.timed_out_pods("g")
        await sim.until(lambda: len(sim.timed_out_pods("g")) == 3, within=10)
        sim.create(node("n2", 3))
        await still_unbound(sim, "g")
        sim.edit_pod_group("g", scheduleTimeoutSeconds=91)
        await sim.until(lambda: len(sim.placed("g")) == 3)


# --- what people see ---------------------------------------------------------------------------


async def test_the_newest_event_of_a_member_says_what_holds_it_now(sim: GangHarness) -> None:
    sim.create(node("n1", 2))
    async with sim.scheduler():
        sim.create(*members("g", 2, 3))
        await asyncio.sleep(30)
        waits = "gang default/g waits for members: 2 of 3 arrived"
        assert sim.event_notes("g-0") == [waits]
        sim.create(*members("g", 1, 3, first=2))
        await asyncio.sleep(1)
        full = (
            "0/1 nodes are available: 1 Insufficient cpu. gang default/g: 3 of 3 arrived, "
            "2 placeable now, blocked by pod default/g-2."
        )
        assert sorted(sim.event_notes("g-0")) == sorted([waits, full])
        assert sim.event_notes("g-2") == [full]
        sim.create(node("n2", 0))
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

    sim.create(node("n1", 1))
    async with sim.scheduler():
        sim.create(*members("g", 2))
        await sim.until(lambda: shown() == 1, within=1)
        sim.create(node("n2", 1))
        await sim.until_settled(2)
        await sim.until(lambda: shown() == 2, within=60)


# --- who goes with whom ------------------------------------------------------------------------


async def test_of_two_gangs_whose_pods_come_in_turn_one_runs_and_the_other_holds_nothing(
    sim: GangHarness,
) -> None:
    # If gangs kept what they get, both would hold a node and wait for ever.
    sim.create(node("n1", 3))
    (a, b), (c, d) = running_for(60, members("first", 2)), members("second", 2)
    async with sim.scheduler(), sim.kubelets():
        for pod in (a, c, b, d):
            sim.create(pod)
            await asyncio.sleep(1)
        assert (len(sim.placed("first")), len(sim.placed("second"))) == (2, 0)
        sim.create(lone("between"))
        await sim.until(lambda: sim.node_of("between") == "n1", within=1)
        await sim.until(lambda: len(sim.placed("second")) == 2, within=120)
        assert sim.phases("first") == {"Succeeded": 2}


async def test_many_gangs_that_compete_never_block_each_other(sim: GangHarness) -> None:
    sim.create(*(node(f"n{n}", 4) for n in range(3)))
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
    sim.create(node("n1", 5))
    async with sim.scheduler():
        for name in names:
            for other in names:
                await still_unbound(sim, other, 10)
            sim.create(*pods[name])
        for name in names:
            await still_unbound(sim, name, 30)  # five places for six
        assert "gang group blue/b,green/g,red/r: blue/b 2 of 2 arrived" in sim.condition_message(
            "b-0"
        )
        assert sim.condition_message("b-0") == sim.condition_message("r-1")
        sim.create(node("n2", 1))
        await sim.until_settled(6)
        assert len({w.at for w in sim.faults.applied(BINDINGS)}) == 1


async def test_parameter_servers_and_workers_have_minima_of_their_own(sim: GangHarness) -> None:
    ps, workers = bundle("g", "ps", 1, cpu=2), bundle("g", "worker", 3)
    sim.create(node("n1", 4), *ps, *workers[:2])
    async with sim.scheduler():
        await still_unbound(sim, "g")
        assert "ps 1 of 1 arrived, worker 2 of 3 arrived" in sim.condition_message("g-ps-0")
        sim.create(workers[2])
        await still_unbound(sim, "g")  # four CPUs for five
        assert "ps 1 of 1 arrived, worker 3 of 3 arrived, 3 placeable" in sim.condition_message(
            "g-ps-0"
        )
        sim.create(node("n2", 1))
        await sim.until_settled(4)
        assert len({w.at for w in sim.faults.applied(BINDINGS)}) == 1


async def test_a_minimum_over_all_bundles_waits_for_roles_that_nobody_has_seen_yet(
    sim: GangHarness,
) -> None:
    all_told = {KOORDINATOR + "min-available": "4"}
    ps, workers = bundle("g", "ps", 1), bundle("g", "worker", 3)
    sim.create(node("n1", 4), *(pod.annotated(all_told) for pod in ps))
    async with sim.scheduler():
        await still_unbound(sim, "g")
        sim.create(*(pod.annotated(all_told) for pod in workers))
        await sim.until_settled(4)
        assert len({w.at for w in sim.faults.applied(BINDINGS)}) == 1


async def test_a_non_strict_gang_gathers_nodes_as_they_come(sim: GangHarness) -> None:
    sim.create(*members("g", 4, mode="NonStrict"))
    async with sim.scheduler() as scheduler:
        for n in range(3):
            sim.create(node(f"n{n}", 1))
            await asyncio.sleep(15)
            assert not sim.placed("g")
            assert len(scheduler.engine.cluster) == n + 1, "the nodes so far are kept"
        sim.create(lone("other"))
        await asyncio.sleep(30)
        assert not sim.node_of("other")
        sim.create(node("n3", 1))
        await sim.until(lambda: len(sim.placed("g")) == 4)
        assert len({w.at for w in sim.faults.applied(BINDINGS)}) == 1
        assert not sim.node_of("other")


# --- what people do meanwhile ------------------------------------------------------------------


async def test_a_member_deleted_while_it_holds_a_node_leaves_it_to_others(
    sim: GangHarness,
) -> None:
    sim.create(node("n1", 2), *members("g", 3, mode="NonStrict"))
    async with sim.scheduler() as scheduler:
        await asyncio.sleep(5)
        assert len(scheduler.engine.cluster) == 2
        held = next(m.pod.pod.metadata.name for m in scheduler.engine.pods() if m.node)
        sim.delete("pod", held)
        await asyncio.sleep(30)
        assert not sim.placed("g")
        sim.create(node("n2", 1))
        sim.create(*members("g", 1, 3, first=3, mode="NonStrict"))
        await sim.until(lambda: len(sim.placed("g")) == 3)


async def test_a_member_deleted_while_a_strict_gang_waits_is_waited_for(sim: GangHarness) -> None:
    sim.create(node("n1", 2), *members("g", 3))
    async with sim.scheduler():
        await asyncio.sleep(5)
        sim.delete("pod", "g-1")
        await still_unbound(sim, "g")  # two would fit
        assert "gang default/g waits for members: 2 of 3 arrived" in sim.condition_message("g-0")
        sim.create(node("n2", 1))
        await still_unbound(sim, "g")
        sim.create(*members("g", 1, 3, first=3))
        await sim.until(lambda: len(sim.placed("g")) == 3)


async def test_without_its_podgroup_a_waiting_gang_waits_for_another(sim: GangHarness) -> None:
    sim.pod_group("g", 3)
    sim.create(node("n1", 2), *of_pod_group("g", 3))
    async with sim.scheduler():
        await asyncio.sleep(5)
        sim.delete_pod_group("g")
        sim.create(node("n2", 2))
        await still_unbound(sim, "g")
        assert "gang default/g waits to be defined" in sim.condition_message("g-0")
        sim.pod_group("g", 2)
        await sim.until(lambda: len(sim.placed("g")) == 3)


async def test_without_its_podgroup_a_running_gang_goes_on_and_is_replaced(
    sim: GangHarness,
) -> None:
    sim.pod_group("g", 3)
    sim.create(node("n1", 4), *of_pod_group("g", 3))
    async with sim.scheduler():
        await sim.until_settled(3)
        sim.delete_pod_group("g")
        sim.delete("pod", "g-1")
        sim.create(*of_pod_group("g", 1, first=3))
        await sim.until(lambda: bool(sim.node_of("g-3")))
        assert sim.placed("g") == {"g-0", "g-2", "g-3"}


async def test_a_minimum_raised_above_the_members_keeps_them_waiting(sim: GangHarness) -> None:
    sim.pod_group("g", 3)
    sim.create(node("n1", 2), *of_pod_group("g", 3))
    async with sim.scheduler():
        await asyncio.sleep(5)
        sim.edit_pod_group("g", minMember=5)
        sim.create(node("n2", 2))
        await still_unbound(sim, "g")
        assert "gang default/g waits for members: 3 of 5 arrived" in sim.condition_message("g-0")
        sim.edit_pod_group("g", minMember=3)
        await sim.until(lambda: len(sim.placed("g")) == 3)


async def test_a_minimum_raised_while_nodes_are_held_is_heeded(sim: GangHarness) -> None:
    sim.pod_group("g", 3)
    note = {KOORDINATOR + "mode": "NonStrict"}
    pods = [pod.annotated(note) for pod in of_pod_group("g", 4)]
    sim.create(node("n1", 2), *pods[:3])
    async with sim.scheduler():
        await asyncio.sleep(5)
        sim.edit_pod_group("g", minMember=4)
        sim.create(node("n2", 2))
        await still_unbound(sim, "g")
        sim.create(pods[3])
        await sim.until(lambda: len(sim.placed("g")) == 4)


async def test_a_minimum_raised_while_the_gang_runs_changes_nothing_for_it(
    sim: GangHarness,
) -> None:
    sim.pod_group("g", 2)
    sim.create(node("n1", 3), *of_pod_group("g", 2))
    async with sim.scheduler():
        await sim.until_settled(2)
        sim.edit_pod_group("g", minMember=5)
        sim.create(*of_pod_group("g", 1, first=2))
        await sim.until_settled(3)
        sim.edit_pod_group("g", minMember=2)


# --- after the gang has run --------------------------------------------------------------------


async def test_members_that_come_after_the_gang_was_complete_go_by_themselves(
    sim: GangHarness,
) -> None:
    sim.create(node("n1", 4), *members("g", 4))
    async with sim.scheduler():
        await sim.until_settled(4)
        for n in (1, 2):
            sim.delete("pod", f"g-{n}")
        sim.create(*members("g", 1, 4, first=4))
        await sim.until(lambda: bool(sim.node_of("g-4")), within=5)
        assert sim.placed("g") == {"g-0", "g-3", "g-4"}


@pytest.mark.parametrize(
    ("policy", "alone"),
    [("once-satisfied", True), ("waiting-and-running", True), ("only-waiting", False)],
)
async def test_the_match_policy_says_whether_those_that_ran_count_for_those_that_come(
    sim: GangHarness, policy: str, alone: bool
) -> None:
    words = {"match_policy": policy}
    sim.create(node("n1", 4), *running_for(5, members("g", 2, **words)))
    async with sim.scheduler(), sim.kubelets():
        await sim.until(lambda: sim.phases("g") == {"Succeeded": 2})
        sim.create(*members("g", 1, 2, first=2, **words))
        await asyncio.sleep(30)
        assert bool(sim.node_of("g-2")) is alone
        sim.create(*members("g", 1, 2, first=3, **words))
        await sim.until(lambda: len(sim.placed("g")) == 4)


async def test_waiting_and_running_replaces_together_what_was_lost_together(
    sim: GangHarness,
) -> None:
    words = {"match_policy": "waiting-and-running"}
    sim.create(node("n1", 4), *members("g", 4, **words))
    async with sim.scheduler():
        await sim.until_settled(4)
        for n in (0, 1):
            sim.delete("pod", f"g-{n}")
        sim.create(*members("g", 1, 4, first=4, **words))
        await asyncio.sleep(30)
        assert not sim.node_of("g-4"), "two places are open, and one pod has come"
        sim.create(*members("g", 1, 4, first=5, **words))
        await sim.until(lambda: len(sim.placed("g")) == 4)


# --- many, and large ---------------------------------------------------------------------------


async def test_ten_of_twenty_gangs_of_fifty_run_and_the_others_follow(sim: GangHarness) -> None:
    gangs = [f"g{n:02}" for n in range(20)]
    sim.create(*(node(f"n{n}", 50) for n in range(10)))
    sim.create(*(p for n, gang in enumerate(gangs) for p in running_for(60 + n, members(gang, 50))))

    def ended_gangs() -> list[str]:
        return [gang for gang in gangs if sim.phases(gang) == {"Succeeded": 50}]

    async with sim.scheduler(), sim.kubelets():
        await asyncio.sleep(10)
        runs = {gang for gang in gangs if len(sim.placed(gang)) == 50}
        assert len(runs) == 10
        for gang in set(gangs) - runs:
            why = sim.condition_message(f"{gang}-7")
            assert f"gang default/{gang}: 50 of 50 arrived, 0 placeable now" in why
            assert "Insufficient cpu" in why
            assert sim.event_notes(f"{gang}-7") == [why]
        for ended in range(1, 11):
            await sim.until(lambda n=ended: len(ended_gangs()) >= n, within=100)
            await asyncio.sleep(11)  # the longest back-off
            begun = [gang for gang in gangs if sim.placed(gang)]
            assert len(begun) >= 10 + ended, "the next follows as soon as one has ended"
            sim.check_all_or_nothing()
        await sim.until(lambda: len(ended_gangs()) == 20, within=300)


async def test_a_gang_of_five_thousand_that_does_not_fit_leaves_small_work_alone(
    sim: GangHarness,
) -> None:
    sim.create(*(a_node(f"n{n}").offers(cpu=100, pods=200) for n in range(40)))
    sim.create(*members("huge", 5000))
    # Writes take as long as they do, so that a flood of them would hold others up.
    sim.faults.inject(WRITES, Delay(0.005))
    waits = []
    async with sim.scheduler(), sim.kubelets():
        loop = asyncio.get_running_loop()
        for n in range(50):
            since = loop.time()
            sim.create(*running_for(3, [lone(f"small-{n}")]))
            await sim.until(lambda n=n: bool(sim.node_of(f"small-{n}")), within=20)
            waits.append(loop.time() - since)
            await asyncio.sleep(0.5)
        assert not sim.placed("huge")
        assert max(waits) <= 0.5, waits
        # How many exactly depends on the small work that ran when they were told.
        assert re.search(
            r"huge: 5000 of 5000 arrived, (39..|4000) placeable", sim.condition_message("huge-9")
        )
