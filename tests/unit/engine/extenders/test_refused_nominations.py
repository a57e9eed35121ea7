"""An extender that refuses a node that others have left does not have them evicted without end."""

from __future__ import annotations

from itertools import pairwise

import pytest

from arranger.api.effects import (
    Bind,
    DeletePod,
    Effect,
    ExtenderDecision,
    PatchPodStatus,
    QueryExtenders,
)
from arranger.api.extenders import Extender
from arranger.engine.context.refused_nominations import FIRST_WAIT, MAX_WAIT
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness

MINDED = "example.com/gpu"
GPU = Extender("http://gpu", filter_verb="filter", managed_resources=frozenset({MINDED}))


def taker(name: str = "high", cpu: int = 4) -> PodBuilder:
    """Minded by the extender, and more important than who comes again and again."""
    return a_pod(name).needs({MINDED: 1}, cpu=cpu).with_priority(10)


class PingPong:
    """A node that is full of one low pod, another of which comes whenever that is evicted.

    Attributes:
        evicted_at: when one was.
        placed: who has got a node, of those that the extender minds.
        agrees: whether the extender lets them have it.
    """

    def __init__(self, *takers: PodBuilder) -> None:
        self.harness = EngineHarness(default_profile(), extenders=(GPU,))
        self.harness.observe(a_node("n0").offers({MINDED: 8}, cpu=4))
        self.evicted_at: list[float] = []
        self.placed: set[str] = set()
        self.agrees = False
        self._come()
        self._follow(self.harness.run())
        self.harness.observe(*takers)

    def _come(self) -> None:
        self.harness.observe(a_pod(f"low{len(self.evicted_at)}").needs(cpu=4))

    def until(self, end: int) -> None:
        """Let time pass, second by second."""
        while self.harness.now < end:
            self._follow(self.harness.advance_to(self.harness.now + 1.0))

    def _follow(self, effects: list[Effect]) -> None:
        todo = [*effects]
        while todo:
            effect = todo.pop(0)
            match effect:
                case QueryExtenders():
                    answer = ExtenderDecision(("n0",) if self.agrees else ())
                    todo += self.harness.settle(effect, answer)
                case Bind():
                    self.placed |= {effect.pod.name} - {f"low{len(self.evicted_at)}"}
                    todo += self.harness.settle(effect)
                case DeletePod():
                    self.evicted_at.append(self.harness.now)
                    self.harness.observe_deleted(a_pod(effect.pod.name))
                    todo += self.harness.run()
                    self._come()
                    todo += self.harness.run()


TAKERS = {
    "a lone pod": [taker()],
    "a gang": [taker(f"w{n}", 2).in_gang("g", 2) for n in range(2)],
}


@pytest.mark.parametrize("takers", TAKERS.values(), ids=TAKERS.keys())
def test_evictions_for_a_pod_that_extenders_refuse_become_rare(takers: list[PodBuilder]) -> None:
    world = PingPong(*takers)
    world.until(3600)
    assert not world.placed
    waits = [later - earlier for earlier, later in pairwise(world.evicted_at)]
    assert 3 <= len(world.evicted_at) <= 8
    assert all(wait >= min(FIRST_WAIT * 2.0**n, MAX_WAIT) for n, wait in enumerate(waits))
    assert waits[-1] >= 8 * FIRST_WAIT


@pytest.mark.parametrize("takers", TAKERS.values(), ids=TAKERS.keys())
def test_an_extender_that_changes_its_mind_is_heard(takers: list[PodBuilder]) -> None:
    world = PingPong(*takers)
    world.until(200)
    assert not world.placed
    world.agrees = True
    world.until(200 + int(MAX_WAIT))
    assert len(world.placed) == len(takers)


def test_a_gang_that_is_refused_one_of_its_nodes_gives_all_of_them_up() -> None:
    harness = EngineHarness(default_profile(), extenders=(GPU,))
    evicted: list[str] = []
    shown: dict[str, str] = {}

    def follow(effects: list[Effect]) -> None:
        todo = [*effects]
        while todo:
            effect = todo.pop(0)
            match effect:
                case QueryExtenders():
                    agreed = tuple(node for node in effect.nodes if node != "n1")
                    todo += harness.settle(effect, ExtenderDecision(agreed))
                case Bind():
                    todo += harness.settle(effect)
                case DeletePod():
                    evicted.append(effect.pod.name)
                    harness.observe_deleted(a_pod(effect.pod.name))
                    todo += harness.run()
                case PatchPodStatus() if effect.nominated_node is not None:
                    shown[effect.pod.name] = effect.nominated_node

    harness.observe(*(a_node(f"n{n}").offers({MINDED: 8}, cpu=4) for n in range(2)))
    harness.observe(*(a_pod(f"low{n}").needs(cpu=4) for n in range(2)))
    follow(harness.run())
    harness.observe(*(taker(f"w{n}").in_gang("g", 2) for n in range(2)))
    follow(harness.run())
    follow(harness.advance_to(1.0))
    assert sorted(evicted) == ["low0", "low1"]
    assert shown == {"w0": "", "w1": ""}
    # Whoever comes next gets the room, and is not evicted for the gang soon.
    harness.observe(*(a_pod(f"later{n}").needs(cpu=4) for n in range(2)))
    follow(harness.run())
    while harness.now < FIRST_WAIT / 2:
        follow(harness.advance_to(harness.now + 1.0))
    assert len(evicted) == 2


@pytest.mark.parametrize("asks_first", [True, False])
def test_members_alike_of_which_one_may_go_nowhere_do_not_keep_each_other_back(
    asks_first: bool,
) -> None:
    """They are of one class, about which extenders are asked once."""
    harness = EngineHarness(default_profile(), extenders=(GPU,))
    harness.observe(a_node("n0").offers({MINDED: 8}, cpu=4))
    for name in "ab":
        pod = taker(name, 2).in_gang("g", 1)
        asks = (name == "a") is asks_first
        harness.observe(pod.annotated({"arranger.io/reservation": "none"}) if asks else pod)
    placed: list[str] = []
    for now in range(30):
        todo = [*harness.advance_to(float(now))]
        while todo:
            match effect := todo.pop(0):
                case QueryExtenders():
                    todo += harness.settle(effect, ExtenderDecision(effect.nodes))
                case Bind():
                    placed.append(effect.pod.name)
                    todo += harness.settle(effect)
    assert placed == ["b" if asks_first else "a"]
    harness.engine.check_consistent()


@pytest.mark.parametrize("in_gang", [False, True])
def test_when_the_time_is_over_it_is_tried_again_though_nothing_happens(in_gang: bool) -> None:
    pod = taker().in_gang("g", 1) if in_gang else taker()
    world = PingPong(pod)
    world.until(2)
    world.agrees = True
    world.until(int(FIRST_WAIT) + 5)
    first, second, *_ = world.evicted_at
    assert FIRST_WAIT <= second - first <= FIRST_WAIT + 2
    assert "high" in world.placed
