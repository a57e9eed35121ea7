"""What a gang is promised while its victims leave, and when it loses that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from arranger.api.effects import DeletePod, Effect, PatchPodStatus
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group
from tests.unit.engine.harness import Core, of, placements

GROUP = a_pod_group("g", least=2)
OLD = a_pod("old").needs(cpu=4).on("n")


def member(name: str) -> PodBuilder:
    return a_pod(name).needs(cpu=2).with_priority(9).in_pod_group("g")


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


@pytest.fixture
def core() -> Core:
    """A node whose only pod is leaving for a gang of two."""
    core = Core(default_profile())
    core.see(a_node(), OLD, GROUP, member("a"), member("b"))
    assert [delete.pod.name for delete in of(DeletePod, core.run())] == ["old"]
    return core


#: What makes the gang incomplete before its victim has left.
BROKEN: dict[str, Callable[[Core], None]] = {
    "a member is deleted": lambda core: core.see_gone(member("a")),
    "its minimum is raised": lambda core: core.see(a_pod_group("g", least=3)),
    "its PodGroup is deleted": lambda core: core.see_gone(GROUP),
}


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN.keys())
def test_others_get_the_room_that_was_promised_to_a_gang_that_is_incomplete_now(
    breaks: Callable[[Core], None], core: Core
) -> None:
    breaks(core)
    core.at(1)
    core.see_gone(OLD)
    core.see(a_pod("other").needs(cpu=4))
    assert bound(core.run()) == set(), "for a moment it may be made whole again"
    effects = core.at(30)
    assert bound(effects) == {"other"}
    cleared = {patch.pod.name for patch in of(PatchPodStatus, core.effects) if not patch.condition}
    assert "b" in cleared, "its nomination is taken off the server, too"


def test_a_member_that_is_replaced_at_once_keeps_the_room_for_all(core: Core) -> None:
    core.see_gone(member("a"))
    core.at(1)
    core.see(member("c"))
    core.see_gone(OLD)
    core.see(a_pod("other").needs(cpu=4))
    core.at(30)
    assert bound(core.effects) == {"b", "c"}


def test_members_that_lose_the_nodes_they_held_to_others_are_woken_by_room() -> None:
    """Not only when all that rests is tried again, minutes later."""
    core = Core(default_profile())
    core.see(a_node("n"), a_node("m"))
    core.see(*(a_pod(f"w-{n}").needs(cpu=4).in_gang("w", 3, mode="NonStrict") for n in range(3)))
    core.run()
    core.see(a_pod("vip").needs(cpu=4).with_priority(9))
    core.at(20)
    core.settle_all(core.effects)
    core.see(a_node("o"), a_node("p"))
    assert bound(core.at(60)) == {"w-0", "w-1", "w-2"}
