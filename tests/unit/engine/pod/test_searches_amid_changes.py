"""A search for victims over several steps, while budgets and nodes change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.effects import DeletePod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.engine.pod import attempt_limits
from tests.builders import PodBuilder, a_disruption_budget, a_node, a_pod
from tests.unit.engine.pod.test_unfinished_attempts import World

TAKER = a_pod("p").needs(cpu=2).with_priority(9)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_limits, "MAX_WORK", 100)


def a_budget(allowed: int, namespace: str, **labels: str) -> PodDisruptionBudget:
    return a_disruption_budget({"matchLabels": labels}, allowed, namespace=namespace)


@pytest.mark.parametrize("comes_and_goes", [False, True])
def test_it_comes_to_an_end_however_often_a_tenant_changes_a_budget(comes_and_goes: bool) -> None:
    few = World().place(TAKER)
    world = World()

    def change(step: int) -> None:
        handlers, budget = world.engine.handlers, a_budget(step % 3, "team-1", app="a1")
        if comes_and_goes and step % 2:
            handlers.on_disruption_budget_deleted(budget, 1.0)
        else:
            handlers.on_disruption_budget_updated(budget, 1.0)

    change(0)
    assert world.place(TAKER, between=change) <= few + 10
    assert [each for each in world.effects if isinstance(each, DeletePod)]


def test_it_comes_to_an_end_however_often_an_image_is_pulled() -> None:
    few = World().place(TAKER)
    world = World()

    def pull(step: int) -> None:
        node = a_node("n0").offers(cpu=4, pods=20).in_zone("z0").holding(f"i{step}", 10**6)
        world.engine.handlers.on_node_updated(node.build(), 1.0)

    assert world.place(TAKER, between=pull) <= few + 10


def with_least_important_pods(nodes: int = 1) -> World:
    """More nodes, whose pods are evicted before all others."""
    world = World()
    handlers = world.engine.handlers
    for node in range(nodes):
        handlers.on_node_updated(a_node(f"more{node}").offers(cpu=4, pods=20).build(), 0.0)
        for n in range(8):
            pod = a_pod(f"least-{node}-{n}").in_namespace("least").labelled(app="least")
            pod = pod.needs(cpu="450m").with_priority(-1).on(f"more{node}")
            handlers.on_pod_updated(pod.build(), 0.0)
    world.engine.run(0.0)
    return world


def protect(world: World, allowed: int | None) -> None:
    """A budget of the least important; None for no more of it."""
    budget, handlers = a_budget(allowed or 0, "least", app="least"), world.engine.handlers
    if allowed is None:
        handlers.on_disruption_budget_deleted(budget, 1.0)
    else:
        handlers.on_disruption_budget_updated(budget, 1.0)


def evicted(world: World) -> set[str]:
    """Which kinds of pods."""
    return {e.pod.name.split("-")[0] for e in world.effects if isinstance(e, DeletePod)}


def abandoned(world: World, steps: int) -> None:
    """A search of which the pod is deleted after so many steps."""
    world.engine.handlers.on_pod_updated(TAKER.build(), 1.0)
    for _ in range(steps):
        assert world.engine.run(1.0, limit=1) == []
    world.engine.handlers.on_pod_deleted("default/p", 1.0)
    world.engine.run(2.0)


def by_another(world: World, change: Callable[[], None], when: int) -> PodBuilder:
    """Another pod goes on with what was begun, after a change."""
    abandoned(world, when)
    change()
    return a_pod("q").needs(cpu=2).with_priority(9)


@pytest.mark.parametrize("abandon", [False, True])
@pytest.mark.parametrize("when", [3, 10, 18])
@pytest.mark.parametrize(
    ("nodes", "before", "after", "leave"),
    [
        pytest.param(1, None, 0, "low", id="a budget comes"),
        pytest.param(30, None, 0, "low", id="a budget comes that protects many nodes"),
        pytest.param(1, 0, None, "least", id="a budget goes"),
        pytest.param(1, 0, 8, "least", id="a budget lets more go"),
    ],
)
def test_a_change_of_a_budget_meanwhile_is_heeded(
    nodes: int, before: int | None, after: int | None, leave: str, when: int, abandon: bool
) -> None:
    world = with_least_important_pods(nodes)
    if before is not None:
        protect(world, before)

    def change(step: int = when) -> None:
        if step == when:
            protect(world, after)

    if abandon:
        world.place(by_another(world, change, when))
    else:
        world.place(TAKER, between=change)
    assert evicted(world) == {leave}


def test_nothing_is_left_of_a_budget_that_came_and_went_meanwhile() -> None:
    steps = with_least_important_pods(3).place(TAKER)
    world = with_least_important_pods(3)

    def comes_and_goes(step: int) -> None:
        if step in (steps // 2, steps - 2):
            protect(world, 0 if step == steps // 2 else None)

    world.place(TAKER, between=comes_and_goes)
    world.effects.clear()
    world.place(a_pod("q").needs(cpu=2).with_priority(9))
    assert evicted(world) == {"least"}
