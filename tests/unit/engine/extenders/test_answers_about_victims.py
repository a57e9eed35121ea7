"""Answers about victims: what has happened before they come, and answers that make no sense."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

import pytest

from arranger.api.effects import (
    DeletePod,
    ExtenderDecision,
    ExtenderPreemptionDecision,
    NodeVictims,
    QueryExtenderPreemption,
    QueryExtenders,
)
from arranger.engine.context.queue_state import QueueState
from arranger.engine.extenders import preemption
from arranger.engine.pod import attempt_limits
from tests.builders import a_node, a_pod
from tests.unit.engine.extenders.test_extenders import (
    JUDGE,
    VETO,
    asking,
    evicted,
    full,
    question,
    victims,
)
from tests.unit.engine.harness import EngineHarness, of_kind, placements
from tests.unit.engine.reservations.test_reservations import reserved


def test_extenders_are_shown_the_victims_on_the_node_and_the_rest_of_the_gang_leaves_too() -> None:
    harness = asking(VETO)
    harness.observe(*(a_pod(f"w{n}").needs(cpu=4).in_gang("g", 2).on(f"n{n}") for n in range(2)))
    harness.observe(a_pod("high").needs(cpu=4).with_priority(10))
    asked = victims(harness)
    shown = {node: each.uids for node, each in asked.victims.items()}
    assert shown == {"n0": ("uid-default-w0",), "n1": ("uid-default-w1",)}
    assert {ref.name for ref in asked.pods.values()} == {"w0", "w1"}
    harness.settle(asked, ExtenderPreemptionDecision({"n1": asked.victims["n1"]}))
    assert sorted(evicted(harness)) == ["w0", "w1"]


NO_NEED: dict[str, tuple[Callable[[EngineHarness], None], str]] = {
    "a node comes": (lambda harness: harness.observe(a_node("n9").offers(cpu=8)), "n9"),
    "a victim ends by itself": (lambda harness: harness.observe_deleted(a_pod("v1")), "n1"),
}


@pytest.mark.parametrize(("happens", "node"), NO_NEED.values(), ids=NO_NEED.keys())
def test_nobody_is_evicted_for_a_pod_that_has_found_room_meanwhile(
    happens: Callable[[EngineHarness], None], node: str
) -> None:
    harness = full(VETO)
    asked = victims(harness)
    happens(harness)
    harness.settle(asked, ExtenderPreemptionDecision(asked.victims))
    assert evicted(harness) == []
    assert placements(harness.advance_to(20)) == [("high", node)]


def test_room_that_an_extender_refuses_is_none() -> None:
    harness = asking(JUDGE, VETO)
    harness.observe(*(a_pod(f"v{n}").needs(cpu=3).on(f"n{n}") for n in range(2)))
    harness.observe(a_node("n2").offers(cpu=4), a_pod("high").needs(cpu=4).with_priority(10))
    about_nodes = question(harness)
    assert about_nodes.nodes == ("n2",)
    effects = harness.settle(about_nodes, ExtenderDecision((), failed={"n2": "no"}))
    (asked,) = of_kind(QueryExtenderPreemption, effects)
    harness.settle(asked, ExtenderPreemptionDecision({"n1": asked.victims["n1"]}))
    assert evicted(harness) == ["v1"]


def test_a_node_that_extenders_have_not_judged_yet_is_asked_about_before_anybody_is_evicted() -> (
    None
):
    harness = asking(JUDGE, VETO)
    harness.observe(*(a_pod(f"v{n}").needs(cpu=3).on(f"n{n}") for n in range(2)))
    harness.observe(a_pod("high").needs(cpu=4).with_priority(10))
    asked = victims(harness)
    harness.observe(a_node("n2").offers(cpu=4))
    harness.settle(asked, ExtenderPreemptionDecision(asked.victims))
    assert evicted(harness) == []
    (about_nodes,) = of_kind(QueryExtenders, harness.advance_to(20))
    effects = harness.settle(about_nodes, ExtenderDecision((), failed={"n2": "no"}))
    (asked,) = of_kind(QueryExtenderPreemption, effects)
    harness.settle(asked, ExtenderPreemptionDecision({"n0": asked.victims["n0"]}))
    assert evicted(harness) == ["v0"]


def test_what_we_have_proposed_is_not_evicted_where_less_is_enough_by_now() -> None:
    harness = asking(VETO, count=1)
    harness.observe(
        a_pod("big").needs(cpu=3).on("n0").with_priority(1),
        a_pod("small").needs(cpu=1).on("n0"),
        a_pod("high").needs(cpu=4).with_priority(10),
    )
    asked = victims(harness)
    assert len(asked.victims["n0"].uids) == 2
    harness.observe(a_node("n0").offers(cpu=7))
    harness.settle(asked, ExtenderPreemptionDecision(asked.victims))
    assert evicted(harness) == []
    (again,) = of_kind(QueryExtenderPreemption, harness.advance_to(20))
    harness.settle(again, ExtenderPreemptionDecision(again.victims))
    assert evicted(harness) == ["small"] or evicted(harness) == ["big"]
    assert len(again.victims["n0"].uids) == 1


def test_a_node_that_they_were_not_asked_about_is_not_cleared() -> None:
    harness = full(VETO)
    asked = victims(harness)
    harness.observe(a_pod("v2").needs(cpu=4).on("n2"), a_node("n2").offers(cpu=4))
    harness.settle(asked, ExtenderPreemptionDecision({"n2": NodeVictims(("uid-default-v2",))}))
    assert evicted(harness) == []


def test_a_node_that_is_reserved_meanwhile_is_not_cleared() -> None:
    harness = full(VETO)
    asked = victims(harness)
    harness.engine.handlers.on_object_updated(reserved("r", 0, 500, "n0", "n1"), harness.now)
    harness.settle(asked, ExtenderPreemptionDecision(asked.victims))
    assert not any(d.eviction and d.eviction.taker for d in of_kind(DeletePod, harness.effects))


def test_an_answer_is_looked_through_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_limits, "MAX_WORK", 1)
    harness = asking(VETO, count=6)
    harness.observe(*(a_pod(f"v{n}").needs(cpu=4).on(f"n{n}") for n in range(6)))
    harness.observe(a_pod("high").needs(cpu=4).with_priority(10))
    asked = victims(harness)
    looks = []
    makes_room = preemption.AgreedVictims._makes_room

    def looked_at(*args: object) -> bool:
        looks.append(harness.engine.cluster.work.spent)
        return bool(makes_room(*args)) and len(looks) == 6  # type: ignore[arg-type]

    monkeypatch.setattr(preemption.AgreedVictims, "_makes_room", looked_at)
    harness.engine.on_outcome(asked, ExtenderPreemptionDecision(asked.victims), harness.now)
    steps = 0
    while harness.engine.ready:
        before = len(looks)
        harness.effects += harness.engine.run(harness.now, limit=1)
        harness.engine.check_consistent()
        assert len(looks) - before <= 1
        steps += 1
    assert steps > 6
    assert len(evicted(harness)) == 1


class World:
    """A few nodes, pods on them, one that fits nowhere, and an extender that says anything."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.harness = asking(VETO, count=0)
        self.sizes = {f"n{n}": self.rng.randint(2, 5) for n in range(self.rng.randint(1, 4))}
        self.harness.observe(*(a_node(name).offers(cpu=cpu) for name, cpu in self.sizes.items()))
        self.pods: dict[str, tuple[str, int, int]] = {}
        for node, cpu in self.sizes.items():
            left = cpu
            while left and self.rng.random() < 0.9:
                self.place(node, size := self.rng.randint(1, left))
                left -= size
        self.wanted, self.late = self.rng.randint(1, 5), 0

    def place(self, node: str, size: int) -> None:
        name, priority = f"v{len(self.pods)}", self.rng.choice((0, 0, 1, 9))
        pod = a_pod(name).needs(cpu=size).with_priority(priority).on(node)
        if self.rng.random() < 0.4:
            pod = pod.in_gang(f"g{self.rng.randint(0, 1)}", self.rng.randint(1, 2))
        self.harness.observe(pod)
        self.pods[f"uid-default-{name}"] = node, size, priority

    def free(self, node: str, without: Collection[str] = ()) -> int:
        used = (s for uid, (on, s, _) in self.pods.items() if on == node and uid not in without)
        return self.sizes[node] - sum(used)

    def something_happens(self) -> None:
        match self.rng.choice(("nothing", "node", "pod leaves", "node goes", "pod comes")):
            case "node":
                name = f"m{len(self.sizes)}"
                self.sizes[name] = self.rng.randint(1, 4)
                self.harness.observe(a_node(name).offers(cpu=self.sizes[name]))
            case "pod leaves" if self.pods:
                uid = self.rng.choice(sorted(self.pods))
                del self.pods[uid]
                self.harness.observe_deleted(a_pod(uid.removeprefix("uid-default-")))
            case "node goes":
                name = self.rng.choice(sorted(self.sizes))
                if all(on != name for on, _, _ in self.pods.values()):
                    del self.sizes[name]
                    self.harness.observe_deleted(a_node(name))
            case "pod comes":
                node = self.rng.choice(sorted(self.sizes))
                if (room := self.free(node)) > 0:
                    self.late += 1
                    name = f"late{self.late}"
                    self.harness.observe(a_pod(name).needs(cpu=room).on(node))
                    self.pods[f"uid-default-{name}"] = node, room, 0

    def answer(self, asked: QueryExtenderPreemption) -> ExtenderPreemptionDecision:
        rng = self.rng
        anybody = [*self.pods, "nobody", "uid-default-high", ""]
        said: dict[str, NodeVictims] = {}
        for node in [*asked.victims, *self.sizes, "nowhere"]:
            uids = [*asked.victims[node].uids] if node in asked.victims else []
            match rng.choice(("leave out", "as it is", "as it is", "fewer", "more", "anything")):
                case "leave out":
                    continue
                case "fewer":
                    uids = rng.sample(uids, rng.randint(0, len(uids)))
                case "more":
                    there = [uid for uid, (on, _, _) in self.pods.items() if on == node]
                    uids += rng.choices(there, k=2) if there else []
                case "anything":
                    uids = rng.choices(anybody, k=rng.randint(0, 4))
            violations = rng.choice((0, 0, 1, -(10**30), 10**30))
            said[node] = NodeVictims(tuple(uids), violations)
        return ExtenderPreemptionDecision(said)


def gangs_of(harness: EngineHarness, uids: set[str]) -> set[str]:
    registry = harness.engine.registry
    return {g.name for uid in uids if (g := registry.gang_of(uid)) is not None}


@pytest.mark.parametrize("seed", range(400))
def test_whatever_they_say_only_victims_that_make_room_are_evicted(seed: int) -> None:
    world = World(seed)
    harness = world.harness
    harness.observe(a_pod("high").needs(cpu=world.wanted).with_priority(5))
    said = of_kind(QueryExtenderPreemption, harness.run())
    if not said:
        return
    (asked,) = said
    for _ in range(world.rng.randint(0, 2)):
        world.something_happens()
    answer = world.answer(asked)
    fits = any(world.free(node) >= world.wanted for node in world.sizes)
    effects = harness.settle(asked, answer)
    gone = {delete.pod.uid for delete in of_kind(DeletePod, effects)}
    node = harness.engine._nominator.node_of("uid-default-high") if gone else ""
    assert not (gone and fits), "it had room"
    for uid in gone:
        on, _, priority = world.pods[uid]
        assert priority < 5
        assert on == node or gangs_of(harness, {uid}) & gangs_of(harness, gone - {uid})
    if gone:
        assert node in asked.victims
        assert world.free(node, gone) >= world.wanted
    else:
        state = harness.queue_state("high")
        assert state in (QueueState.UNSCHEDULABLE, QueueState.BACKOFF), state
        if fits:
            assert state is QueueState.BACKOFF
