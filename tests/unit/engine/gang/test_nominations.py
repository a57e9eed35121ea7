"""What a gang is promised while its victims leave, and when it loses that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from arranger.api.effects import DeletePod, Effect, PatchPodStatus
from arranger.engine.context.queue_state import QueueState
from arranger.plugins import default_profile
from tests.builders import PodBuilder, StoredBuilder, a_node, a_pod, a_pod_group
from tests.storage import ZONE, a_claim, a_class, a_volume
from tests.unit.engine.harness import EngineHarness, of_kind, placements

GROUP = a_pod_group("g", least=2)
OLD = a_pod("old").needs(cpu=4).on("n")


def member(name: str) -> PodBuilder:
    return a_pod(name).needs(cpu=2).with_priority(9).in_pod_group("g")


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


@pytest.fixture
def harness() -> EngineHarness:
    """A node whose only pod is leaving for a gang of two."""
    harness = EngineHarness(default_profile())
    harness.observe(a_node(), OLD, GROUP, member("a"), member("b"))
    assert [delete.pod.name for delete in of_kind(DeletePod, harness.run())] == ["old"]
    return harness


#: What makes the gang incomplete before its victim has left.
BROKEN: dict[str, Callable[[EngineHarness], None]] = {
    "a member is deleted": lambda harness: harness.observe_deleted(member("a")),
    "its minimum is raised": lambda harness: harness.observe(a_pod_group("g", least=3)),
    "its PodGroup is deleted": lambda harness: harness.observe_deleted(GROUP),
}


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN.keys())
def test_others_get_the_room_that_was_promised_to_a_gang_that_is_incomplete_now(
    breaks: Callable[[EngineHarness], None], harness: EngineHarness
) -> None:
    breaks(harness)
    harness.advance_to(1)
    harness.observe_deleted(OLD)
    harness.observe(a_pod("other").needs(cpu=4))
    assert bound(harness.run()) == set(), "for a moment it may be made whole again"
    effects = harness.advance_to(30)
    assert bound(effects) == {"other"}
    cleared = {
        patch.pod.name for patch in of_kind(PatchPodStatus, harness.effects) if not patch.condition
    }
    assert "b" in cleared, "its nomination is taken off the server, too"


def test_a_member_that_is_replaced_at_once_keeps_the_room_for_all(harness: EngineHarness) -> None:
    harness.observe_deleted(member("a"))
    harness.advance_to(1)
    harness.observe(member("c"))
    harness.observe_deleted(OLD)
    harness.observe(a_pod("other").needs(cpu=4))
    harness.advance_to(30)
    assert bound(harness.effects) == {"b", "c"}


def test_members_that_lose_the_nodes_they_held_to_others_are_woken_by_room() -> None:
    """Not only when all that rests is tried again, minutes later."""
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n"), a_node("m"))
    harness.observe(
        *(a_pod(f"w-{n}").needs(cpu=4).in_gang("w", 3, mode="NonStrict") for n in range(3))
    )
    harness.run()
    harness.observe(a_pod("vip").needs(cpu=4).with_priority(9))
    harness.advance_to(20)
    harness.settle_all(harness.effects)
    harness.observe(a_node("o"), a_node("p"))
    assert bound(harness.advance_to(60)) == {"w-0", "w-1", "w-2"}


def test_a_gang_whose_victims_have_gone_waits_for_those_of_another_on_its_node() -> None:
    """Both fit then; until then the room of the other, which is as important, is not there."""
    harness = EngineHarness(default_profile())
    harness.observe(a_node("m").offers(cpu=2), a_node("n").offers(cpu=4))
    harness.observe(a_pod("slow").needs(cpu=2).on("m"), a_pod("fast").needs(cpu=2).on("n"))
    harness.observe(*(a_pod(name).needs(cpu=1).with_priority(5).on("n") for name in ("x", "y")))

    def come(gang: str, count: int) -> None:
        pods = (a_pod(f"{gang}-{n}").needs(cpu=1).with_priority(9) for n in range(count))
        harness.observe(*(pod.in_gang(gang, count) for pod in pods))
        harness.run()

    come("g", 4)
    assert evicted(harness) == {"slow", "fast"}
    harness.observe_deleted(a_pod("fast"), a_pod("x"))
    harness.advance_to(5)
    come("h", 2)
    assert evicted(harness) == {"slow", "fast", "y"}
    harness.observe(*(a_pod(f"low-{n}").needs(cpu=1) for n in range(4)))
    harness.advance_to(40)
    harness.observe_deleted(a_pod("slow"))
    harness.advance_to(60)
    harness.observe_deleted(a_pod("y"))
    harness.advance_to(100)
    assert bound(harness.effects) == {*(f"g-{n}" for n in range(4)), "h-0", "h-1"}
    assert evicted(harness) == {"slow", "fast", "y"}, "nobody leaves for the same gang again"


def test_members_do_not_insist_on_nodes_that_they_cannot_all_have_any_more() -> None:
    """Nobody leaves for a gang that fits where none of its members is nominated.

    The volume of its claim could be used from both nodes. Somebody else has got it, so that one is
    to be made for a single node: that is another one than those that were freed.
    """
    harness = EngineHarness(default_profile())
    for name, cpu in (("n", 4), ("m", 2), ("o", 4)):
        harness.observe(a_node(name).labelled({ZONE: "b"}).offers(cpu=cpu))
    store(harness, a_class(), a_claim("data"), a_volume("v").usable_in("b"))
    harness.observe(a_pod("x").needs(cpu=2).with_priority(5).on("n"))
    harness.observe(a_pod("y").needs(cpu=2).on("n"), a_pod("z").needs(cpu=2).on("m"))
    stays = a_pod("stays").needs(cpu=4).with_priority(9).on("o")
    harness.observe(stays, GROUP, *(member(name).with_claim("data") for name in ("a", "b")))
    harness.run()
    assert evicted(harness) == {"y", "z"}
    store(harness, a_claim("theirs"), a_volume("v").usable_in("b").held_by("theirs"))
    harness.observe_deleted(a_pod("y"), a_pod("z"), stays)
    harness.advance_to(5)
    assert {harness.queued_pod(name).node for name in ("a", "b")} == {"o"}
    assert evicted(harness) == {"y", "z"}


def test_a_member_that_the_others_do_without_loses_its_node_to_who_waits_for_that() -> None:
    """The gang needs one member less by now, and its volume is where there is room for two."""
    harness = EngineHarness(default_profile())
    for name in ("n", "m", "q"):
        harness.observe(
            a_node(name).labelled({ZONE: "b"}).offers({f"example.com/{name}": 1}, cpu=2)
        )
    harness.observe(a_node("o").labelled({ZONE: "b"}).offers(cpu=4))
    store(harness, a_class(), a_claim("data"), a_volume("v").usable_in("b"))
    low = [a_pod(f"low-{name}").needs(cpu=2).on(name) for name in ("n", "m", "q")]
    stays = a_pod("stays").needs(cpu=4).with_priority(9).on("o")
    harness.observe(*low, stays, a_pod_group("g", least=3))
    harness.observe(*(member(name).with_claim("data") for name in ("a", "b", "c")))
    harness.run()
    assert evicted(harness) == {"low-n", "low-m", "low-q"}
    lost = harness.engine._nominator.node_of("uid-default-c")
    waits = a_pod("waits").needs({f"example.com/{lost}": 1}, cpu=2)
    harness.observe(waits, GROUP)
    store(harness, a_claim("theirs"), a_volume("v").usable_in("b").held_by("theirs"))
    harness.run()
    harness.effects.clear()
    harness.observe_deleted(*low, stays)
    assert harness.queue_state("waits") is QueueState.UNSCHEDULABLE
    harness.advance_to(5)
    assert {name: harness.queued_pod(name).node for name in ("a", "b")} == {"a": "o", "b": "o"}
    assert bound(harness.effects) == {"waits"}
    written = [p for p in of_kind(PatchPodStatus, harness.effects) if p.nominated_node is not None]
    assert [(patch.pod.name, patch.nominated_node) for patch in written] == [("c", "")]


def store(harness: EngineHarness, *objects: StoredBuilder) -> None:
    """The watch shows these."""
    for each in objects:
        built = each.build()
        harness.engine.handlers.kinds[type(built)].updated(built, harness.now)
        harness.engine.check_consistent()


def evicted(harness: EngineHarness) -> set[str]:
    return {delete.pod.name for delete in of_kind(DeletePod, harness.effects)}
