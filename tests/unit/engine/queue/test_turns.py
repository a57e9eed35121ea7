"""Attempts in steps and everything else take turns."""

from __future__ import annotations

import pytest

from arranger.api.effects import Applied, Bind
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.gang.attempt import attempts
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod


class World:
    """Forty nodes, and gangs of which an attempt takes many steps and comes to nothing."""

    def __init__(self) -> None:
        self.engine, self.bound = Engine(EngineSettings([default_profile()])), list[str]()
        for n in range(40):
            self.engine.handlers.on_node_updated(
                a_node(f"n{n}").offers(cpu=4, pods=20).build(), 0.0
            )
        self.engine.run(0.0)

    def show(self, *pods: PodBuilder) -> None:
        for pod in pods:
            self.engine.handlers.on_pod_updated(pod.build(), 1.0)

    def steps_until(self, name: str, most: int = 200) -> int:
        """How many steps it takes until a pod is bound."""
        for step in range(most):
            if name in self.bound:
                return step
            for effect in self.engine.run(1.0, limit=1, seconds=1e9):
                if isinstance(effect, Bind):
                    self.bound.append(effect.pod.name)
                    self.engine.on_outcome(effect, Applied(), 1.0)
            self.engine.check_consistent()
        raise AssertionError(f"{name} is not bound after {most} steps")


def unfittable(name: str, namespace: str, priority: int = 0) -> list[PodBuilder]:
    """A gang for one more of whose members there is no room."""
    members = [a_pod(f"{name}-{n}").needs(cpu=3).in_gang(name, 41) for n in range(41)]
    return [pod.in_namespace(namespace).with_priority(priority) for pod in members]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(attempts, "STEP_UNITS", 100)
    return World()


def test_another_tenants_pod_waits_for_one_step(world: World) -> None:
    world.show(*unfittable("g", "greedy"))
    world.engine.run(1.0, limit=1, seconds=1e9)
    world.show(a_pod("p").in_namespace("other").needs(cpu=1))
    assert world.steps_until("p") <= 2


def test_however_many_a_tenant_has_tried_in_steps_another_waits_for_one(world: World) -> None:
    for n in range(30):
        world.show(*unfittable(f"g{n}", "greedy"))
    world.engine.run(1.0, limit=1, seconds=1e9)
    world.show(a_pod("p").in_namespace("other").needs(cpu=1))
    assert world.steps_until("p") <= 32  # those behind are put aside one a call at worst


def test_nobody_of_less_importance_takes_the_room_in_between(world: World) -> None:
    members = unfittable("g", "team", 5)[:40]
    world.show(*[pod.in_gang("g", 40) for pod in members])
    world.engine.run(1.0, limit=1, seconds=1e9)
    world.show(*[a_pod(f"low-{n}").in_namespace("other").needs(cpu=4) for n in range(3)])
    world.show(a_pod("small").in_namespace("other").needs(cpu=1))
    assert world.steps_until("small") > 10
    assert len(world.bound) == 41


def test_who_others_do_not_let_go_on_goes_on_all_the_same(world: World) -> None:
    members = [pod.in_gang("g", 40) for pod in unfittable("g", "team")[:40]]
    world.show(*members)
    world.engine.run(1.0, limit=1, seconds=1e9)
    world.show(*[a_pod(f"huge-{n}").in_namespace("other").needs(cpu=5) for n in range(300)])
    assert world.steps_until("g-0", 3000) < 3000


def test_who_is_bound_in_part_goes_on_before_who_is_more_important(world: World) -> None:
    first, *members = [pod.in_gang("g", 40) for pod in unfittable("g", "team")[:40]]
    world.show(first.on("n0"), *members)
    world.engine.run(1.0, limit=1, seconds=1e9)
    world.show(*[a_pod(f"high-{n}").needs(cpu=4).with_priority(10) for n in range(3)])
    world.show(a_pod("small").needs(cpu=1).with_priority(10))
    assert world.steps_until("small") > 10
    assert {f"g-{n}" for n in range(1, 40)} <= {*world.bound}
