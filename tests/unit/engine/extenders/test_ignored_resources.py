"""What an extender counts and the scheduler is told to ignore keeps no gang from anything.

Each story is told of pods that ask for it and of pods that do not: it ends alike. No node has it.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from arranger.api.effects import Bind, DeletePod, Effect, ExtenderDecision, QueryExtenders
from arranger.daemon.config.extenders import ordered_extenders
from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import Config
from arranger.engine.gang.state.policy import GangPolicy
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.gang.test_planned_starts import running, starts
from tests.unit.engine.harness import EngineHarness

MEMORY = "example.com/gpu-memory"
asks_or_not = pytest.mark.parametrize("asks", [True, False], ids=["asks", "does not"])


def harness(gangs: GangPolicy | None = None) -> EngineHarness:
    """With an extender for the resource, which lets all nodes pass."""
    ignored = {"name": MEMORY, "ignoredByScheduler": True}
    spec = {"urlPrefix": "http://gpu", "filterVerb": "filter", "managedResources": [ignored]}
    config = Config.model_validate({"extenders": [spec]})
    extenders = ordered_extenders(config.extenders)
    return EngineHarness(*build_profiles(config), extenders=extenders, gangs=gangs)


def follow(harness: EngineHarness, effects: Iterable[Effect]) -> tuple[dict[str, str], list[str]]:
    """Pod → node of the Bindings, and who is deleted."""
    todo, bound, deleted = [*effects], dict[str, str](), list[str]()
    while todo:
        match effect := todo.pop(0):
            case QueryExtenders():
                todo += harness.settle(effect, ExtenderDecision(effect.nodes))
            case Bind():
                bound[effect.pod.name] = effect.node
                todo += harness.settle(effect)
            case DeletePod():
                deleted.append(effect.pod.name)
    return bound, deleted


def member(n: int, cpu: int, *, asks: bool) -> PodBuilder:
    return a_pod(f"p{n}").needs({MEMORY: 5} if asks else {}, cpu=cpu).in_gang("g", 2)


def low(n: int, node: str) -> PodBuilder:
    return a_pod(f"low{n}").needs(cpu=2).on(node).in_phase("Running")


@asks_or_not
def test_a_gang_is_placed_in_the_domain_that_has_room(*, asks: bool) -> None:
    world = harness()
    rooms = {"a": 1, "b": 1, "c": 4}
    world.observe(*(a_node(n).labelled(zone=n).offers(cpu=cpu) for n, cpu in rooms.items()))
    world.start()
    zone = {"arranger.io/topology": "required=zone"}
    world.observe(*(member(n, 1, asks=asks).annotated(zone) for n in range(2)))
    assert follow(world, world.run())[0] == {"p0": "c", "p1": "c"}


@asks_or_not
def test_another_way_is_found_for_members_of_two_kinds(*, asks: bool) -> None:
    world = harness()
    world.observe(a_node("n0").labelled(x="1").offers(cpu=2), a_node("n1").offers(cpu=2))
    world.start()
    world.observe(member(0, 2, asks=asks), member(1, 2, asks=asks).selects(x="1"))
    assert follow(world, world.run())[0] == {"p0": "n1", "p1": "n0"}


@asks_or_not
def test_a_gang_evicts_in_the_domain_that_is_large_enough(*, asks: bool) -> None:
    world = harness()
    rooms = {"n0": 2, "n1": 4}
    world.observe(*(a_node(n).labelled(z=n).offers(cpu=cpu) for n, cpu in rooms.items()))
    world.observe(low(0, "n1"), low(1, "n1"))
    world.start()
    zone = {"arranger.io/topology": "required=z"}
    pods = (member(n, 2, asks=asks).annotated(zone).with_priority(10) for n in range(2))
    world.observe(*pods)
    assert sorted(follow(world, world.run())[1]) == ["low0", "low1"]


@asks_or_not
def test_the_start_of_a_gang_is_planned(*, asks: bool) -> None:
    policy = GangPolicy(
        starvation_after=10.0, reservation_seconds=1e6, reservation_max_nodes_percent=100
    )
    world = harness(policy)
    world.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(2)))
    world.observe(running("a", "n0", 4, 100), running("c", "n1", 4, 900))
    world.start()
    world.observe(*(member(n, 4, asks=asks) for n in range(2)))
    for effects in (world.run(), world.advance_to(11), world.advance_to(22)):
        follow(world, effects)
    assert starts(world) == {"g": (900.0, "KnownEnds")}


@asks_or_not
def test_nobody_is_told_that_it_can_never_be(*, asks: bool) -> None:
    world = harness()
    world.observe(a_node("n").offers(cpu=4), a_pod("busy").needs(cpu=4).on("n").in_phase("Running"))
    world.start()
    world.observe(*(member(n, 1, asks=asks) for n in range(2)))
    follow(world, world.run())
    told = [pod.entity.reason for pod in world.engine.pods() if pod.entity is not None]
    assert told
    assert not [text for text in told if "Unsatisfiable" in text or MEMORY in text]
