"""What one tenant has asked of extenders keeps others waiting no longer than needed, and goes on in
steps; the answers count until the attempt is over."""

from __future__ import annotations

from collections import deque

import pytest

from arranger.api.effects import Bind, Effect, ExtenderDecision, QueryExtenders, Refused
from arranger.api.extenders import Extender
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.context.queue_state import QueueState
from arranger.engine.engine import Engine
from arranger.engine.extenders.coordinator import MAX_CLASSES_PER_RUN, MAX_PENDING
from arranger.engine.gang.attempt import attempts
from arranger.plugins import default_profile
from arranger.plugins.dynamicresources import allocation_cache
from tests.builders import PodBuilder, StoredBuilder, a_node, a_pod
from tests.devices import ATTRIBUTES, a_claim, a_device, a_device_class, a_slice, cel, claiming
from tests.unit.engine.harness import EngineHarness, conditions, of_kind

JUDGE = Extender("http://judge", filter_verb="filter", timeout=5)
NODES = 4


class Asked:
    """An engine in the daemon's steps, and an extender that is asked one thing at a time."""

    def __init__(self, *objects: StoredBuilder, nodes: int = NODES) -> None:
        self.engine = Engine(EngineSettings([default_profile()], extenders=(JUDGE,)))
        for n in range(nodes):
            self.engine.handlers.on_node_updated(a_node(f"n{n}").offers(cpu=64).build(), 0.0)
        for each in objects:
            self.engine.handlers.on_object_updated(each.build(), 0.0)
        self.engine.run(0.0)
        self.questions: deque[QueryExtenders] = deque()
        self.asked: list[str] = []
        self.bound: dict[str, str] = {}
        self.most_out = 0

    def show(self, *pods: PodBuilder) -> None:
        for pod in pods:
            self.engine.handlers.on_pod_updated(pod.build(), 0.0)

    def step(self) -> list[Effect]:
        effects = self.engine.run(0.0, limit=1, seconds=1e9)
        self.engine.check_consistent()
        for effect in effects:
            if isinstance(effect, QueryExtenders):
                self.questions.append(effect)
                self.asked.append(effect.pod.name)
            elif isinstance(effect, Bind):
                self.bound[effect.pod.name] = effect.node
        self.most_out = max(self.most_out, len(self.questions))
        return effects

    def answer(self) -> None:
        """The extender allows all nodes that it was asked about first."""
        question = self.questions.popleft()
        self.engine.on_outcome(question, ExtenderDecision(question.nodes), 0.0)
        self.engine.check_consistent()

    def follow(self) -> int:
        """Go on until nothing is left to be done; returns how many steps that took."""
        steps = 0
        while self.engine.ready or self.questions:
            steps += 1
            self.step()
            if not self.engine.ready and self.questions:
                self.answer()
        return steps


def gang_of_kinds(count: int) -> list[PodBuilder]:
    kinds = (a_pod(f"w{n:02}").needs(cpu=1, memory=f"{n + 1}Mi") for n in range(count))
    return [pod.in_gang("g", count) for pod in kinds]


def test_namespaces_take_turns_with_their_questions() -> None:
    world = Asked()
    world.show(*(a_pod(f"many{n:02}").needs(cpu=1) for n in range(40)))
    for _ in range(50):
        world.step()
    world.show(a_pod("one").in_namespace("other").needs(cpu=1))
    world.follow()
    assert world.asked.index("one") <= 4
    assert len(world.bound) == 41


def test_the_important_go_first_whoever_takes_turns() -> None:
    world = Asked()
    world.show(*(a_pod(f"many{n:02}").needs(cpu=1).with_priority(5) for n in range(10)))
    for _ in range(20):
        world.step()
    world.show(a_pod("low").in_namespace("other").needs(cpu=1))
    world.follow()
    assert world.asked[-1] == "low"


def test_a_gang_of_many_kinds_is_asked_about_bit_by_bit() -> None:
    world = Asked()
    world.show(*gang_of_kinds(50))
    assert len(of_kind(QueryExtenders, world.step())) <= MAX_CLASSES_PER_RUN
    world.follow()
    assert world.most_out <= MAX_PENDING
    assert len(world.asked) == len(world.bound) == 50


def test_a_question_that_fails_ends_the_others_about_the_gang() -> None:
    world = Asked()
    world.show(*gang_of_kinds(50))
    while not world.questions:
        world.step()
    question = world.questions.popleft()
    world.engine.on_outcome(question, Refused(0, "Extender", "boom"), 0.0)
    (first, *_) = conditions(world.step())
    assert first == ("SchedulerError", "boom")
    for late in world.questions:
        world.engine.on_outcome(late, ExtenderDecision(late.nodes), 0.0)
    assert len(world.asked) <= MAX_PENDING
    assert world.step() == []


@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_an_attempt_goes_on_with_the_answers(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nodes come meanwhile, of which the extender knows nothing."""
    world = a_gang_that_is_asked_about(monkeypatch)
    world.answer()
    for n in range(nodes):
        assert not world.bound
        world.step()
        node = a_node(f"more{n}").offers(cpu=64)
        world.engine.handlers.on_node_updated(node.build(), 0.0)
    assert world.follow() > 3
    assert len(world.bound) == 32
    assert len(world.asked) == 1
    assert {node[0] for node in world.bound.values()} == {"n"}


def test_a_gang_that_is_edited_between_two_steps_is_asked_about_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempts, "STEP_UNITS", 100)
    world = Asked()
    pods = [a_pod(f"p{n:02}").needs(cpu=4).in_gang("g", 32) for n in range(32)]
    world.show(*pods)
    world.step()
    world.answer()
    world.step()
    world.show(pods[7].labelled(app="x").at_version("2"))
    world.follow()
    assert len(world.asked) == 3, "once for all, and then for the edited one and the others"
    assert len(world.bound) == 32


def a_gang_that_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """One of 32, whose attempt takes several steps once there is an answer."""
    monkeypatch.setattr(attempts, "STEP_UNITS", 100)
    world = Asked()
    world.show(*(a_pod(f"p{n:02}").needs(cpu=4).in_gang("g", 32) for n in range(32)))
    world.step()
    return world


def test_nobody_is_asked_about_another_before_the_attempt_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = a_gang_that_is_asked_about(monkeypatch)
    world.show(a_pod("other").in_namespace("other").needs(cpu=1))
    world.answer()
    while not world.bound:
        assert len(world.asked) == 1
        world.step()
    world.follow()
    assert world.asked[1:] == ["other"]


def test_a_gang_that_goes_between_two_steps_keeps_nobody_from_asking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = a_gang_that_is_asked_about(monkeypatch)
    world.answer()
    world.step()
    for n in range(32):
        world.engine.handlers.on_pod_deleted(f"default/p{n:02}", 0.0)
    world.show(a_pod("other").in_namespace("other").needs(cpu=1))
    world.follow()
    assert "other" in world.bound


def test_devices_that_are_looked_for_in_several_steps_are_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The nodes were not known when the extender was to be asked, and told as new ones."""
    monkeypatch.setattr(allocation_cache, "MAX_EFFORT", 600)
    slices = [a_slice(f"n{n}", a_device("g", index=n)) for n in range(40)]
    claim = a_claim("c").asks(selectors=[cel(f"{ATTRIBUTES}.index > 36")])
    world = Asked(a_device_class(), claim, *slices, nodes=40)
    world.show(claiming(a_pod("p").needs(cpu=1), "c"))
    steps = 0
    while not world.questions:
        assert world.engine.ready
        assert conditions(world.step()) == []
        steps += 1
    assert steps > 1
    (question,) = world.questions
    assert {*question.nodes} & {"n37", "n38", "n39"}


def test_answers_are_forgotten_with_the_pod() -> None:
    harness = EngineHarness(default_profile(), extenders=[JUDGE])
    harness.observe(a_node("n").offers(cpu=4), a_pod("p").needs(cpu=1))
    (asked,) = of_kind(QueryExtenders, harness.run())
    harness.observe_deleted(a_pod("p"))
    harness.settle(asked, ExtenderDecision(("n",)))
    harness.observe(a_pod("q").needs(cpu=1))
    assert [each.pod.name for each in of_kind(QueryExtenders, harness.run())] == ["q"]
    assert harness.queue_state("q") is QueueState.WAITING_FOR_EXTENDERS
