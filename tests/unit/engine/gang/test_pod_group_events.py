"""What the owner of a PodGroup is told, as Volcano tells it."""

from __future__ import annotations

from collections.abc import Iterable

from arranger.api.effects import Effect, PublishEvent
from arranger.api.types.pod_groups import VolcanoPodGroup
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, a_pod_group
from tests.unit.engine.harness import EngineHarness, of_kind

READY = ("Scheduled", "Normal", "pod group is ready")


def a_group(uid: str = "uid-group-g") -> VolcanoPodGroup:
    group = a_pod_group(least=2).with_uid(uid).build(VolcanoPodGroup)
    assert isinstance(group, VolcanoPodGroup)
    return group


def observe(
    harness: EngineHarness, group: VolcanoPodGroup, *others: NodeBuilder | PodBuilder
) -> None:
    harness.engine.handlers.on_pod_group_updated(group, harness.now)
    harness.observe(*others)


def a_member(n: int) -> PodBuilder:
    return a_pod(f"g-{n}").needs(cpu=1).annotated({"scheduling.k8s.io/group-name": "g"})


def told(effects: Iterable[Effect]) -> list[tuple[str, str, str]]:
    """The events about PodGroups: reason, type, note."""
    events = (e for e in of_kind(PublishEvent, effects) if e.regarding.kind == "PodGroup")
    return [(e.reason, e.type, e.note) for e in events]


def conditions(effects: Iterable[Effect]) -> set[str]:
    """The notes of the events about pods."""
    events = (e for e in of_kind(PublishEvent, effects) if e.regarding.kind == "Pod")
    return {e.note for e in events}


def test_a_gang_that_cannot_be_placed_is_told_what_its_pods_are_told_and_once(
    harness: EngineHarness,
) -> None:
    observe(harness, a_group(), a_node("n0").offers(cpu=1), a_member(0), a_member(1))
    effects = harness.run()
    [(reason, kind, note)] = told(effects)
    assert (reason, kind) == ("Unschedulable", "Warning")
    assert conditions(effects) == {note}
    harness.advance_to(600)
    assert len(told(harness.effects)) == 1
    harness.observe(a_node("n1").offers(cpu=0))
    harness.advance_to(1200)
    notes = [note for _, _, note in told(harness.effects)]
    assert len(notes) == len(set(notes)) == 2


def test_a_gang_that_is_placed_is_told_when_it_has_its_minimum(harness: EngineHarness) -> None:
    observe(harness, a_group(), a_node("n0").offers(cpu=8), *map(a_member, range(3)))
    effects = harness.run()
    assert told(effects) == []
    harness.settle_all(effects)
    assert told(harness.effects) == [READY]


def test_a_member_that_has_no_place_any_more_makes_the_gang_unschedulable_and_ready_again(
    harness: EngineHarness,
) -> None:
    observe(harness, a_group(), a_node("n0").offers(cpu=2), a_member(0), a_member(1))
    harness.settle_all(harness.run())
    harness.observe(*(a_member(n).on("n0") for n in range(2)))
    harness.observe_deleted(a_member(1).on("n0"))
    harness.observe(a_pod("other").needs(cpu=1).on("n0"), a_member(2))
    [(reason, _, note)] = told(harness.run())
    assert (reason, "Insufficient cpu" in note) == ("Unschedulable", True)
    harness.observe(a_node("n1").offers(cpu=1))
    harness.settle_all(harness.advance_to(60))
    assert [each[0] for each in told(harness.effects)] == [
        "Scheduled",
        "Unschedulable",
        "Scheduled",
    ]


def test_a_member_beyond_the_minimum_is_no_matter_of_the_gang(harness: EngineHarness) -> None:
    observe(harness, a_group(), a_node("n0").offers(cpu=2), a_member(0), a_member(1))
    harness.settle_all(harness.run())
    harness.observe(a_member(2))
    assert told(harness.run()) == []


def test_a_pod_group_that_is_made_anew_is_told_anew(harness: EngineHarness) -> None:
    observe(harness, a_group(), a_node("n0").offers(cpu=1), a_member(0), a_member(1))
    [first] = told(harness.run())
    harness.engine.handlers.on_pod_group_deleted(a_group(), harness.now)
    observe(harness, a_group("another"))
    assert first in told(harness.advance_to(600))


def test_owners_of_other_pod_groups_look_at_their_pods(harness: EngineHarness) -> None:
    pods = [a_pod(f"p-{n}").needs(cpu=1).in_pod_group("g") for n in range(2)]
    harness.observe(a_pod_group(least=2), a_node("n0").offers(cpu=1), *pods)
    harness.run()
    harness.observe(a_node("n1").offers(cpu=4))
    harness.settle_all(harness.advance_to(60))
    assert told(harness.effects) == []
