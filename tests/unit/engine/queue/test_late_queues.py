"""Queues and PodGroups count however late they are seen, and whatever is waiting by then."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import msgspec
import pytest

from arranger.api.effects import Effect
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.engine.context.queue_state import QueueState
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, a_queue
from tests.queueing import CARD, gpu_node, training
from tests.unit.engine.harness import EngineHarness, event_notes, placements

GROUP = "scheduling.k8s.io/group-name"


@pytest.fixture
def harness() -> EngineHarness:
    return EngineHarness(default_profile())


def bound(effects: Sequence[Effect]) -> list[str]:
    return [name for name, _ in placements(effects)]


def a_group(name: str, cards: int, *, least: int = 1, queue: str = "training") -> VolcanoPodGroup:
    notes = {"volcano.sh/card.request": json.dumps({CARD: cards})}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": notes}
    return msgspec.convert(
        {"metadata": meta, "spec": {"queue": queue, "minMember": least}}, VolcanoPodGroup
    )


def show(harness: EngineHarness, *groups: VolcanoPodGroup) -> None:
    for group in groups:
        harness.engine.handlers.on_pod_group_updated(group, harness.now)


def member(group: str, number: int = 0, cards: int = 4) -> PodBuilder:
    return training(f"{group}-{number}", cards).annotated({GROUP: group})


def a_small_node() -> NodeBuilder:
    return a_node().offers(cpu=1)


LOW, HIGH = a_queue("low", priority=20000), a_queue("high", priority=80000)
OLDER = a_pod("older").needs(cpu=1).in_queue("low").created("2026-01-01T00:00:00Z")
YOUNGER = a_pod("younger").needs(cpu=1).in_queue("high").created("2026-01-02T00:00:00Z")


@pytest.mark.parametrize("order", [*itertools.permutations(range(5))])
def test_a_start_gives_the_room_to_the_queue_of_higher_priority(
    order: tuple[int, ...], harness: EngineHarness
) -> None:
    objects = [a_small_node(), LOW, HIGH, OLDER, YOUNGER]
    harness.observe(*(objects[n] for n in order))
    assert bound(harness.run()) == ["younger"]


def test_so_does_the_first_queue_that_is_seen_when_the_pods_wait_already(
    harness: EngineHarness,
) -> None:
    harness.observe(OLDER, YOUNGER)
    harness.start()
    harness.observe(LOW, HIGH, a_small_node())
    assert bound(harness.run()) == ["younger"]


def test_when_the_last_queue_is_gone_age_alone_counts_again(harness: EngineHarness) -> None:
    harness.observe(LOW, HIGH, OLDER, YOUNGER)
    harness.start()
    for queue in (LOW, HIGH):
        harness.engine.handlers.on_queue_deleted(queue, harness.now)
    harness.observe(a_small_node())
    assert bound(harness.run()) == ["older"]


def test_a_pod_moves_to_the_queue_of_its_pod_group_when_that_is_seen_or_edited(
    harness: EngineHarness,
) -> None:
    harness.observe(LOW, HIGH, OLDER)
    harness.observe(
        a_pod("g-0").needs(cpu=1).annotated({GROUP: "g"}).created("2026-01-03T00:00:00Z")
    )
    harness.start()
    show(harness, a_group("g", 0, queue="low"))
    harness.run()
    show(harness, a_group("g", 0, queue="high"))
    harness.observe(a_small_node())
    assert bound(harness.advance_to(20)) == ["g-0"]


@pytest.mark.parametrize("first", ["the queue", "the PodGroup", "its pod"])
def test_a_start_admits_no_pod_group_beyond_its_quota(first: str, harness: EngineHarness) -> None:
    shows = {
        "the queue": lambda: harness.observe(a_queue("training", cards={CARD: 8})),
        "the PodGroup": lambda: show(harness, a_group("g", 9)),
        "its pod": lambda: harness.observe(member("g", cards=1)),
    }
    shows.pop(first)()
    for others in shows.values():
        others()
    harness.observe(gpu_node())
    assert bound(harness.run()) == []
    assert "InsufficientScalarQuota" in dict(event_notes(harness.effects))


def test_nor_does_a_queue_that_is_seen_when_the_group_has_been_tried(
    harness: EngineHarness,
) -> None:
    show(harness, a_group("g", 9))
    harness.observe(member("g", cards=1))
    assert bound(harness.run()) == [], "there is no node"
    harness.observe(a_queue("training", cards={CARD: 8}))
    harness.run()
    harness.observe(gpu_node())
    assert bound(harness.advance_to(20)) == []
    assert harness.queue_state("g-0") is QueueState.GATED
    show(harness, a_group("g", 8))
    assert bound(harness.advance_to(40)) == ["g-0"]


def test_a_group_with_part_of_its_cards_gets_the_rest_after_a_restart(
    harness: EngineHarness,
) -> None:
    harness.observe(a_queue("training", cards={CARD: 8}), gpu_node())
    show(harness, a_group("g", 8, least=2))
    harness.observe(member("g", 0).on("n"), member("g", 1))
    assert bound(harness.run()) == ["g-1"]


def test_nothing_of_it_is_kept_twice(harness: EngineHarness) -> None:
    harness.observe(a_queue("training", cards={CARD: 8}), gpu_node())
    show(harness, a_group("g", 4, least=2), a_group("h", 4))
    harness.observe(member("g", 0, 2).on("n"), member("g", 1, 2).gated("later"), member("h"))
    assert bound(harness.run()) == ["h-0"]


def test_one_that_comes_first_in_the_queue_is_not_kept_out_by_one_that_waits_behind_it(
    harness: EngineHarness,
) -> None:
    harness.observe(a_queue("training", cards={CARD: 8}), gpu_node(count=4))
    show(harness, a_group("late", 8), a_group("early", 4))
    harness.observe(member("late", cards=8))
    assert bound(harness.run()) == [], "no node has as many"
    harness.observe(member("early").with_priority(80000))
    assert bound(harness.advance_to(20)) == ["early-0"]


def test_and_one_behind_it_takes_no_cards_that_are_kept_for_it(harness: EngineHarness) -> None:
    harness.observe(a_queue("training", cards={CARD: 8}), gpu_node(count=4))
    show(harness, a_group("early", 8), a_group("late", 4))
    harness.observe(member("early", cards=8).with_priority(80000), member("late"))
    assert bound(harness.run()) == []
    assert bound(harness.advance_to(400)) == []


def test_a_group_that_asks_for_cards_which_its_pods_do_not_is_admitted_when_cards_are_free(
    harness: EngineHarness,
) -> None:
    running = training("running", 8).on("n")
    harness.observe(gpu_node("n"), a_queue("training", cards={CARD: 8}), running)
    harness.start()
    show(harness, a_group("g", 4))
    large = a_pod("g-0").needs(cpu=100).in_queue("training").annotated({GROUP: "g"})
    harness.observe(large)
    harness.run()
    (entity,) = harness.engine.queue.entities()
    assert entity.state is QueueState.GATED
    harness.observe_deleted(running)
    harness.run()
    assert entity.state is QueueState.UNSCHEDULABLE
