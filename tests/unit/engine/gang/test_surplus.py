"""Members beyond the minimum, and others that are placed by themselves: whom they evict."""

from __future__ import annotations

import pytest

from arranger.api.effects import DeletePod, ExtenderPreemptionDecision, NodeVictims
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group
from tests.unit.engine.extenders.test_extenders import VETO, victims
from tests.unit.engine.gang.surplus_worlds import World
from tests.unit.engine.harness import EngineHarness, of_kind, placements


def a_member(name: str) -> PodBuilder:
    return a_pod(name).needs(cpu=1).in_pod_group("g")


def running(least: int, count: int, *more: PodBuilder, cpu: int = 2) -> EngineHarness:
    """A gang that runs, on a node that is full."""
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=cpu), a_pod_group("g", least=least))
    harness.observe(*(a_member(f"m{n}").on("n") for n in range(count)), *more)
    harness.start()
    harness.run()
    return harness


def evicted(harness: EngineHarness) -> list[str]:
    return sorted(delete.pod.name for delete in of_kind(DeletePod, harness.effects))


#: Minimum, members that run, and how many of these leave for a more important one of theirs.
OWN = {
    "no surplus": (2, 2, 0),
    "less than the minimum by now": (3, 2, 0),
    "one beyond the minimum": (1, 2, 1),
    "no minimum": (0, 2, 1),
}


@pytest.mark.parametrize(("least", "count", "leave"), OWN.values(), ids=OWN.keys())
def test_a_member_takes_from_its_own_gang_what_that_can_do_without(
    least: int, count: int, leave: int
) -> None:
    harness = running(min(least, count), count)
    harness.observe(a_pod_group("g", least=least))
    harness.observe(a_member("high").with_priority(10))
    harness.run()
    assert len(evicted(harness)) == leave


def test_a_member_takes_from_others_what_its_own_gang_cannot_do_without() -> None:
    other = a_pod("other").needs(cpu=1).with_priority(5).on("n")
    harness = running(2, 2, other, cpu=3)
    harness.observe(a_member("high").with_priority(10))
    harness.run()
    assert evicted(harness) == ["other"]


def test_the_other_gang_leaves_as_a_whole_where_a_member_may_not_break_its_own() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(*(a_node(f"n{n}").offers(cpu=2) for n in range(2)))
    for n, gang in enumerate("ab"):
        harness.observe(a_pod_group(gang, least=2))
        pods = (a_pod(f"{gang}{k}").needs(cpu=1).in_pod_group(gang) for k in range(2))
        harness.observe(*(pod.on(f"n{n}") for pod in pods))
    harness.start()
    harness.run()
    harness.observe(a_pod("high").needs(cpu=1).in_pod_group("a").with_priority(10))
    harness.run()
    assert evicted(harness) == ["b0", "b1"]


def test_no_extender_makes_a_gang_leave_for_one_of_its_own() -> None:
    harness = EngineHarness(default_profile(), extenders=[VETO])
    harness.observe(a_node("n").offers(cpu=3), a_pod_group("g", least=2))
    harness.observe(*(a_member(f"m{n}").on("n") for n in range(2)))
    harness.observe(a_pod("other").needs(cpu=1).on("n"))
    harness.start()
    harness.observe(a_member("high").with_priority(10))
    asked = victims(harness)
    harness.settle(asked, ExtenderPreemptionDecision({"n": NodeVictims(("uid-default-m0",))}))
    assert evicted(harness) == []


def test_a_minimum_that_is_raised_is_no_reason_to_forget_that_it_was_reached() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=4), a_pod_group("g", least=1), a_member("m0"))
    harness.start()
    harness.settle_all(harness.run())
    harness.observe(a_member("m0").on("n"), a_pod_group("g", least=3))
    harness.run()
    harness.settle_gangs()
    assert harness.gang_server.status("default/g")["resourceSatisfied"], "no time has passed"
    again = EngineHarness(default_profile())
    again.observe(a_node("n").offers(cpu=4), a_pod_group("g", least=3), a_member("m0").on("n"))
    again.engine.handlers.on_gang_updated(harness.gang_server.get("default/g"), again.now)
    again.start()
    again.observe(a_member("m1"))
    assert placements(again.run()) == [("m1", "n")]


@pytest.mark.parametrize("seed", [*range(36, 48), 3275])
def test_in_random_worlds_nobody_breaks_a_gang_in_vain_or_its_own(seed: int) -> None:
    world = World(seed)
    world.play()
    assert not world.wrong
