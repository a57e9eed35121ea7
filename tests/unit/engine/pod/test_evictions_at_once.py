"""Several pods or gangs at once that evict others: each for itself, and nobody in vain."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from arranger.api.effects import Bind, DeletePod, Effect
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import EngineHarness

#: Seconds between two victims that go.
GRACE = 7.0


def low(name: str, kind: str) -> PodBuilder:
    pod = a_pod(name).needs(cpu=1)
    if kind == "priority":
        return pod
    return pod.in_queue("q") if kind == "capability" else pod.in_queue("t").serving("training")


def high(name: str, kind: str) -> PodBuilder:
    pod = a_pod(name).needs(cpu=1).with_priority(9)
    if kind == "priority":
        return pod
    return pod.in_queue("q") if kind == "capability" else pod.in_queue("q").serving("inference")


class World:
    """Nodes of so many low pods each, which use up what the takers' queue may use.

    ``capability``: of their own queue, on nodes with room. ``guarantee``: all of the cluster, of
    which the takers' queue is guaranteed everything. ``priority``: all of the cluster, and there
    are no queues.
    """

    def __init__(self, kind: str, nodes: int, each: int, seed: int) -> None:
        self.harness, self.rng = EngineHarness(default_profile()), random.Random(seed)
        self.terminating: list[str] = []
        self.evicted: list[str] = []
        self.bound: dict[str, str] = {}
        count = nodes * each
        if kind == "capability":
            self.harness.observe(a_queue("q", capability={"cpu": str(count)}))
        elif kind == "guarantee":
            guarantee = {"resource": {"cpu": str(count)}}
            self.harness.observe(a_queue("q", guarantee=guarantee), a_queue("t"))
        cpu = 32 if kind == "capability" else each
        self.harness.observe(*(a_node(f"n{n}").offers(cpu=cpu) for n in range(nodes)))
        self.harness.observe(*(low(f"low{n}", kind).on(f"n{n // each}") for n in range(count)))
        self.follow(self.harness.run())

    def follow(self, effects: Iterable[Effect]) -> None:
        """Victims begin to terminate, and Bindings are written."""
        todo = list(effects)
        while todo:
            match effect := todo.pop(0):
                case DeletePod():
                    self.evicted.append(effect.pod.name)
                    self.terminating.append(effect.pod.name)
                    todo += self.harness.settle(effect)
                case Bind():
                    self.bound[effect.pod.name] = effect.node
                    todo += self.harness.settle(effect)

    def pass_time(self) -> None:
        """One victim goes, whichever."""
        if self.terminating:
            gone = self.terminating.pop(self.rng.randrange(len(self.terminating)))
            self.harness.observe_deleted(a_pod(gone))
        self.follow(self.harness.advance_to(self.harness.now + GRACE))


@pytest.mark.parametrize("kind", ["capability", "guarantee", "priority"])
@pytest.mark.parametrize(("nodes", "each"), [(2, 8), (8, 2), (16, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_takers_need_not_wait_for_each_others_victims(
    kind: str, nodes: int, each: int, seed: int
) -> None:
    world = World(kind, nodes, each, seed)
    takers = [f"high{n}" for n in range(6)]
    world.harness.observe(*(high(name, kind) for name in takers))
    world.follow(world.harness.run())
    assert len(world.evicted) == len(takers), "one for each, at once"
    for _ in range(30):
        world.pass_time()
    assert sorted(world.bound) == takers
    assert len(world.evicted) == len(takers), "nobody was evicted in vain"


@pytest.mark.parametrize("kind", ["capability", "guarantee", "priority"])
@pytest.mark.parametrize(("nodes", "each"), [(2, 8), (8, 2), (16, 1)])
@pytest.mark.parametrize("seed", range(2))
def test_gangs_need_not_wait_for_each_others_victims_nor_make_that_room_again(
    kind: str, nodes: int, each: int, seed: int
) -> None:
    world = World(kind, nodes, each, seed)
    takers = [high(f"g{g}-{n}", kind).in_gang(f"g{g}", 4) for g in range(3) for n in range(4)]
    world.harness.observe(*takers)
    world.follow(world.harness.run())
    assert len(world.evicted) == len(takers), "one for each, at once"
    for _ in range(40):
        world.pass_time()
    assert len(world.bound) == len(takers)
    assert len(world.evicted) == len(takers), "nobody was evicted in vain"
