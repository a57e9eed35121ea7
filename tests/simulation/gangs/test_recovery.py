"""A scheduler dies, or is left in doubt, at every single write it makes for gangs.

Whatever it has left behind, the next one finishes: nothing is bound twice, no gang rests between
nothing and its minimum, and what fits is bound in the end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import pytest

from arranger.daemon.config.schema import Config, GangConfig
from tests.builders import a_node, a_pod
from tests.faults.injector import BINDINGS, LEASES, WRITES, from_user
from tests.faults.kinds import ConcurrentAction, DropConnection, FaultRule
from tests.simulation.harnesses.gangs import KOORDINATOR, GangHarness, bundle, members
from tests.simulation.harnesses.simulation import CONFIG, VIRTUAL_TIME

pytestmark = VIRTUAL_TIME

#: Seconds within which the successor leads (15 and a little) and has finished.
RECOVERY = 60.0
ITS_WRITES = WRITES & ~LEASES & from_user("one")
#: Without it a gang of bundles would not know of a role while its only pod is replaced.
ALL_ROLES = {KOORDINATOR + "min-available": "3"}
TOGETHER = json.dumps(["default/at", "default/by"])


@dataclass
class FaultScenario:
    """One run: gangs of all kinds, of which not all fit, and something that happens on the way."""

    sim: GangHarness = field(default_factory=lambda: GangHarness(max_bind_seconds=RECOVERY))
    died: asyncio.Event = field(default_factory=asyncio.Event)
    dead: FaultRule | None = None

    def begin(self) -> None:
        """14 CPUs, 6 of which come later; gangs need 15, and rivals 3 once it has died."""
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
        self.sim.cluster.create({**head, "metadata": {"name": "important"}})
        self.sim.create(
            *(a_node(f"n{n}").offers(cpu=4) for n in range(2)),
            *members("at", 2, groups=TOGETHER),
            *members("by", 2, groups=TOGETHER),
            *members("crew", 3),
            *members("gathers", 3, mode="NonStrict"),
            *(pod.annotated(ALL_ROLES) for pod in bundle("roles", "ps", 1)),
            *(pod.annotated(ALL_ROLES) for pod in bundle("roles", "worker", 2)),
            *members("spare", 2),
        )
        later = asyncio.get_running_loop().call_later
        later(3, self.sim.create, a_node("n2").offers(cpu=6))

    def die(self) -> None:
        """As by ``kill -9``; meanwhile somebody more important wants the room."""
        if not self.died.is_set():
            self.dead = self.sim.crash()
            rivals = (a_pod(f"rival-{n}").needs(cpu=1) for n in range(3))
            self.sim.create(*(r.with_spec(priorityClassName="important") for r in rivals))
            self.died.set()

    def replace(self, uid: str) -> None:
        """A pod is deleted, and a second later its owner creates another."""
        pods = self.sim.cluster.objects("pods")
        meta = next(p["metadata"] for p in pods if p["metadata"]["uid"] == uid)
        self.sim.delete("pod", meta["name"])
        again = a_pod(f"{meta['name']}-again").needs(cpu=1).annotated(meta["annotations"])
        asyncio.get_running_loop().call_later(1, self.sim.create, again)

    async def run(self, successor: str) -> None:
        """Until it dies (or has done all it can); then its successor, until all is done."""
        self.begin()
        async with self.sim.scheduler("one"):
            with suppress(TimeoutError):
                await asyncio.wait_for(self.died.wait(), 15)
            if not self.died.is_set():
                self.check()
        if self.dead is not None:
            await asyncio.sleep(2)  # no process starts at once
            self.dead.stop()
            async with self.sim.scheduler(successor):
                await asyncio.sleep(RECOVERY)
                self.check()

    def check(self) -> None:
        """At rest: what must hold, and nothing waits that would fit."""
        self.sim.check()
        pods = self.sim.cluster.objects("pods")
        waiting = [pod for pod in pods if "nodeName" not in pod["spec"]]
        gathers = (pod for pod in waiting if pod["metadata"]["name"].startswith("gathers"))
        held = sum("nominatedNodeName" in pod["status"] for pod in gathers)
        free = 14 - (len(pods) - len(waiting)) - held
        needs = {"at": 4, "by": 4, "crew": 3, "gathers": 3, "roles": 3, "spare": 2}
        for pod in waiting:
            name = pod["metadata"]["name"]
            # Pods need one CPU each, so that free CPUs are free places.
            room = free + held * name.startswith("gathers")
            assert room < needs.get(name.partition("-")[0], 1), f"{name} waits with {room} free"


# --- what happens at a write -------------------------------------------------------------------


def it_dies_after_it(story: FaultScenario, nth: int) -> FaultRule:
    return story.sim.faults.inject(
        ITS_WRITES, ConcurrentAction(story.die, after=True), skip=nth, times=1
    )


def its_answer_is_lost(story: FaultScenario, nth: int) -> FaultRule:
    return story.sim.faults.inject(ITS_WRITES, DropConnection.AFTER, skip=nth, times=1)


def its_answer_is_lost_and_it_dies_soon(story: FaultScenario, nth: int) -> FaultRule:
    soon = ConcurrentAction(lambda: asyncio.get_running_loop().call_later(0.5, story.die))
    story.sim.faults.inject(ITS_WRITES, soon, skip=nth, times=1)
    return its_answer_is_lost(story, nth)


def its_pod_is_replaced(story: FaultScenario, nth: int) -> FaultRule:
    """Just before the Binding arrives, which is refused for good."""

    def replace() -> None:
        story.replace(rule.matched[0].json["metadata"]["uid"])

    rule = story.sim.faults.inject(
        ITS_WRITES & BINDINGS, ConcurrentAction(replace), skip=nth, times=1
    )
    return rule


def its_pod_is_replaced_and_it_dies(story: FaultScenario, nth: int) -> FaultRule:
    story.sim.faults.inject(
        ITS_WRITES & BINDINGS, ConcurrentAction(story.die, after=True), skip=nth, times=1
    )
    return its_pod_is_replaced(story, nth)


async def at_every_write(turn: Callable[[FaultScenario, int], FaultRule], successor: str) -> int:
    """Tell the story with the turn at the first write, at the second, ...; returns how many."""
    for nth in count():
        story = FaultScenario()
        rule = turn(story, nth)
        try:
            await story.run(successor)
        except Exception as error:
            error.add_note(f"at write {nth}: {rule.matched}")
            raise
        if not rule.matched:
            return nth
    raise AssertionError("unreachable")


@pytest.mark.parametrize("successor", ["one", "two"])
@pytest.mark.parametrize(
    "turn", [it_dies_after_it, its_answer_is_lost_and_it_dies_soon, its_pod_is_replaced_and_it_dies]
)
async def test_killed_at_any_write_its_successor_leaves_no_gang_in_pieces(
    turn: Callable[[FaultScenario, int], FaultRule], successor: str
) -> None:
    assert await at_every_write(turn, successor) >= 13


@pytest.mark.parametrize("turn", [its_answer_is_lost, its_pod_is_replaced])
async def test_whichever_write_goes_wrong_it_leaves_no_gang_in_pieces(
    turn: Callable[[FaultScenario, int], FaultRule],
) -> None:
    assert await at_every_write(turn, "none") >= 13


# --- what the configuration says about a gang that is bound in part -----------------------------


def bind(sim: GangHarness, name: str) -> None:
    """As an earlier scheduler did, just before it died."""
    path = f"/api/v1/namespaces/default/pods/{name}/binding"
    sim.request("POST", path, {"metadata": {"name": name}, "target": {"name": "n1"}})


def partly_bound() -> GangHarness:
    """Three CPUs, a gang of three of which one is bound, and two rivals that go first."""
    sim = GangHarness()
    sim.may_be_partial.add("default/g")  # by whoever it was
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    sim.cluster.create({**head, "metadata": {"name": "important"}})
    rivals = (a_pod(f"rival-{n}").needs(cpu=1) for n in range(2))
    sim.create(
        a_node("n1").offers(cpu=3),
        *members("g", 3),
        *(rival.with_spec(priorityClassName="important") for rival in rivals),
    )
    bind(sim, "g-0")
    return sim


def configured(choice: str) -> Config:
    return CONFIG.model_copy(update={"gangs": GangConfig(on_partial_bind=choice)})


@pytest.mark.parametrize(
    ("choice", "bound"),
    [
        ("Complete", {"g-0", "g-1", "g-2"}),
        ("Delete", {"g-0", "g-1", "g-2"}),
        ("Hold", {"g-0", "rival-0", "rival-1"}),
    ],
)
async def test_a_gang_bound_in_part_goes_before_all_others_unless_it_is_to_hold(
    choice: str, bound: set[str]
) -> None:
    sim = partly_bound()
    async with sim.scheduler(config=configured(choice)):
        await asyncio.sleep(120)
    pods = sim.cluster.objects("pods")
    assert {p["metadata"]["name"] for p in pods if "nodeName" in p["spec"]} == bound
    sim.check()


@pytest.mark.parametrize(
    ("choice", "left"), [("Complete", {"g-0"}), ("Delete", set()), ("Hold", {"g-0"})]
)
async def test_a_gang_bound_in_part_that_cannot_be_completed_stays_or_is_deleted(
    choice: str, left: set[str]
) -> None:
    sim = partly_bound()
    for name in ("rival-0", "rival-1"):
        bind(sim, name)
    async with sim.scheduler(config=configured(choice)), sim.kubelets():
        await asyncio.sleep(590)
        assert sim.placed("g") == {"g-0"}
        await asyncio.sleep(30)
        assert sim.placed("g") == left
        assert not sim.timed_out_pods("g"), "it is tried again"
        if not left:
            sim.create(*members("g", 1, 3, first=3))
        for name in ("rival-0", "rival-1"):
            sim.delete("pod", name)
        await sim.until(lambda: len(sim.placed("g")) == 3)
    sim.check()
