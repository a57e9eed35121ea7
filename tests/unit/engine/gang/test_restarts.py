"""A gang that has lost all its nodes is placed as a whole again, and no sooner."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from arranger.api.effects import DeletePod, Effect
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group
from tests.unit.engine.harness import EngineHarness, of_kind, placements

NAMES = ("a", "b", "c")


def member(name: str, life: int = 1) -> PodBuilder:
    pod = a_pod(name).with_uid(f"uid-{name}-{life}")
    return pod.needs(cpu=2).in_pod_group("g")


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


@pytest.fixture
def harness() -> EngineHarness:
    """A gang of three runs on all of a node."""
    harness = EngineHarness(default_profile())
    harness.observe(a_node().offers(cpu=6), a_pod_group("g", least=3), *map(member, NAMES))
    harness.settle_all(harness.run())
    harness.observe(*(member(name).on("n") for name in NAMES))
    harness.effects.clear()
    return harness


def test_evicted_as_a_whole_it_does_not_come_back_in_pieces(harness: EngineHarness) -> None:
    harness.observe(a_pod("vip").needs(cpu=2).with_priority(9))
    assert {delete.pod.name for delete in of_kind(DeletePod, harness.run())} == set(NAMES)
    for name in NAMES:
        harness.observe_deleted(member(name))
        harness.observe(member(name, 2))  # by its owner, while others are still leaving
    harness.advance_to(400)
    assert bound(harness.effects) == {"vip"}, "there is room for two of three"
    harness.observe_deleted(a_pod("vip"))
    harness.advance_to(800)
    assert bound(harness.effects) == {"vip", *NAMES}


def test_while_one_member_runs_the_others_are_replaced_one_by_one(harness: EngineHarness) -> None:
    harness.observe_deleted(member("a"), member("b"))
    harness.observe(member("a", 2))
    harness.advance_to(30)
    assert bound(harness.effects) == {"a"}
