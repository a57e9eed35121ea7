"""The order of queues, and reclaim between them (docs/design/queues.md)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from arranger.api.effects import DeletePod, Eviction, PublishEvent
from arranger.engine.gang.preemption import plan_search
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind
from tests.unit.engine.queue.test_queues import (
    CARD,
    GPU,
    bound,
    evicted,
    gang,
    gpu_node,
    inference,
    training,
    two_queues,
)

# --- order ---------------------------------------------------------------------------------------


def test_the_more_important_queue_comes_first(harness: EngineHarness) -> None:
    harness.observe(*two_queues(), training("a", 8, 90000), inference("b", 8, 1), gpu_node())
    assert bound(harness.run()) == {"b"}


def test_queues_of_one_priority_take_turns_by_share(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=4))
    harness.observe(a_queue("a", deserved={"cpu": 4}), a_queue("b", deserved={"cpu": 4}))
    harness.observe(*(a_pod(f"a{n}").needs(cpu=1).in_queue("a") for n in range(4)))
    harness.observe(*(a_pod(f"b{n}").needs(cpu=1).in_queue("b") for n in range(4)))
    assert bound(harness.run()) == {"a0", "a1", "b0", "b1"}


def test_by_weight(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=4))
    harness.observe(a_queue("a", deserved={"cpu": 4}, weight=3), a_queue("b", deserved={"cpu": 4}))
    harness.observe(*(a_pod(f"a{n}").needs(cpu=1).in_queue("a") for n in range(4)))
    harness.observe(*(a_pod(f"b{n}").needs(cpu=1).in_queue("b") for n in range(4)))
    assert len([name for name in bound(harness.run()) if name.startswith("a")]) == 3


def counted(pods: set[str]) -> dict[str, int]:
    """Queue (a letter) → pods."""
    return dict(Counter(name[0] for name in pods))


#: Queues, and how many pods each then has on a node for eight.
TURNS: dict[str, tuple[list[Any], dict[str, int]]] = {
    "by weight alone, of all there is": (
        [a_queue("a", weight=3), a_queue("b")],
        {"a": 6, "b": 2},
    ),
    "what one may not have others get": (
        [a_queue("a", weight=3, capability={"cpu": 1}, deserved={"cpu": 6}), a_queue("b")],
        {"a": 1, "b": 7},
    ),
    "the default queue has weight 1 without being made": (
        [a_queue("a", weight=3)],
        {"a": 6, "d": 2},
    ),
    "parts of one queue share what it has": (
        [a_queue("team"), *(a_queue(name, parent="team") for name in "abc"), a_queue("e")],
        {"a": 2, "b": 1, "c": 1, "e": 4},
    ),
}


@pytest.mark.parametrize(("queues", "expected"), TURNS.values(), ids=TURNS)
def test_queues_take_turns(
    queues: list[Any], expected: dict[str, int], harness: EngineHarness
) -> None:
    harness.observe(a_node("n").offers(cpu=8), *queues)
    for queue in expected:
        name = "default" if queue == "d" else queue
        harness.observe(*(a_pod(f"{queue}{n}").needs(cpu=1).in_queue(name) for n in range(8)))
    assert counted(bound(harness.run())) == expected


def test_in_back_off_too_the_more_important_queue_comes_first(harness: EngineHarness) -> None:
    harness.observe(*two_queues(), training("t", 8, 90000), inference("i", 8, 1))
    assert bound(harness.run()) == set()
    harness.now = 0.5
    harness.observe(gpu_node())
    assert bound(harness.run()) == {"i"}


# --- giving way ----------------------------------------------------------------------------------


def on_node(harness: EngineHarness, *pods: PodBuilder, node: str = "n") -> None:
    harness.observe(*(pod.on(node) for pod in pods))


#: Running, arriving, and who is evicted.
TAKES: dict[str, tuple[list[PodBuilder], PodBuilder, set[str]]] = {
    "inference takes from training": ([training("t", 8)], inference("i", 8), {"t"}),
    "training takes from nobody": ([inference("i", 8, 1)], training("t", 8, 90000), set()),
    "inference does not take from inference of another queue": (
        [inference("i", 8, 1).in_queue("training")],
        inference("j", 8),
        set(),
    ),
    "training takes from lower training of its own queue": (
        [training("t", 8, 1)],
        training("u", 8),
        {"t"},
    ),
    "low inference does not take from high training": (
        [training("t", 8, 60000)],
        inference("i", 8, 20000),
        set(),
    ),
    "nobody takes from those who tell no type": (
        [a_pod("t").needs({GPU: 8}).in_queue("training")],
        inference("i", 8),
        set(),
    ),
    "nor from those who may not be evicted": (
        [training("t", 8).annotated({"volcano.sh/preemptable": "false"})],
        inference("i", 8),
        set(),
    ),
    "the least important first, and no more than needed": (
        [training("a", 2, 20000), training("b", 2, 20000), training("c", 4, 60000)],
        inference("i", 4),
        {"a", "b"},
    ),
    "a gang leaves whole": (
        gang("g", (4, 4), training),
        inference("i", 4),
        {"g-0", "g-1"},
    ),
    "the type follows from the owner": (
        [a_pod("t").needs({GPU: 8}).in_queue("training").owned_by("Job", "j")],
        a_pod("i")
        .needs({GPU: 8})
        .with_priority(9)
        .in_queue("inference")
        .owned_by("ReplicaSet", "r"),
        {"t"},
    ),
}


@pytest.mark.parametrize("case", TAKES.values(), ids=TAKES.keys())
def test_who_gives_way(case: tuple[list[PodBuilder], PodBuilder, set[str]]) -> None:
    running, arriving, expected = case
    owners = {"ReplicaSet": "inference", "Job": "training"}
    harness = EngineHarness(default_profile(), queues=QuotaConfig(service_type_by_owner=owners))
    harness.observe(gpu_node(), *two_queues())
    on_node(harness, *running)
    harness.observe(arriving)
    assert evicted(harness.run()) == expected


@pytest.mark.parametrize(
    ("taker", "words", "eviction"),
    [
        pytest.param(
            [inference("i", 8)],
            "pod uid-default-i (default/i) of queue inference",
            Eviction("n", "reclaim", "default/i", "", "inference"),
            id="a pod",
        ),
        pytest.param(
            gang("g", (4, 4), inference),
            "gang default/g of queue inference",
            Eviction("n", "reclaim", "default/g-0", "default/g", "inference"),
            id="a gang",
        ),
        pytest.param(
            [training("other", 8, 90000)],
            "pod uid-default-other",
            Eviction("n", "preemption", "default/other"),
            id="a pod of its own queue",
        ),
    ],
)
def test_who_gives_way_is_told_to_whom(
    taker: list[PodBuilder], words: str, eviction: Eviction, harness: EngineHarness
) -> None:
    harness.observe(gpu_node(), *two_queues())
    on_node(harness, training("t", 8))
    harness.observe(*taker)
    effects = harness.run()
    told = [e.note for e in of_kind(PublishEvent, effects) if e.reason == "Preempted"]
    assert told == [f"Preempted by {words} on node n"]
    assert [delete.eviction for delete in of_kind(DeletePod, effects)] == [eviction]


def test_priority_can_be_left_out_of_it() -> None:
    harness = EngineHarness(default_profile(), queues=QuotaConfig(respect_priority=False))
    harness.observe(gpu_node(), *two_queues())
    on_node(harness, training("t", 8, 60000))
    harness.observe(inference("i", 8, 20000))
    assert evicted(harness.run()) == {"t"}


def test_a_queue_that_is_not_reclaimable_loses_nothing(harness: EngineHarness) -> None:
    harness.observe(gpu_node(), a_queue("inference"), a_queue("training", reclaimable=False))
    on_node(harness, training("t", 8))
    harness.observe(inference("i", 8))
    assert evicted(harness.run()) == set()


def test_nor_one_below_its_guarantee(harness: EngineHarness) -> None:
    harness.observe(gpu_node(), a_queue("inference"))
    harness.observe(a_queue("training", guarantee={"resource": {GPU: 4}}))
    on_node(harness, training("a", 4), training("b", 4))
    harness.observe(inference("i", 8))
    assert evicted(harness.run()) == set()
    harness.observe(inference("j", 4))
    assert len(evicted(harness.advance_to(20))) == 1


def test_a_taker_beyond_its_own_quota_takes_nothing(harness: EngineHarness) -> None:
    harness.observe(gpu_node(), *two_queues(4))
    on_node(harness, training("a", 4), training("b", 4))
    harness.observe(inference("i", 8))
    assert evicted(harness.run()) == set()


def test_inside_a_full_quota_the_important_take_from_the_others(harness: EngineHarness) -> None:
    harness.observe(gpu_node(), *two_queues(4))
    on_node(harness, training("a", 2, 1), training("b", 2, 2))
    harness.observe(training("c", 2, 3))
    assert evicted(harness.run()) == {"a"}


def test_what_is_freed_is_held_for_the_taker(harness: EngineHarness) -> None:
    harness.observe(gpu_node(), *two_queues())
    on_node(harness, training("t", 4), training("u", 4))
    harness.observe(inference("i", 8))
    assert evicted(harness.run()) == {"t", "u"}
    harness.observe(training("again", 4, 90000))
    harness.observe_deleted(training("t", 4))
    assert bound(harness.advance_to(20)) == set(), "four cards are free, and promised"
    harness.observe_deleted(training("u", 4))
    harness.advance_to(40)
    assert bound(harness.effects) == {"i"}


def test_a_gang_of_inference_takes_all_it_needs_or_nothing(harness: EngineHarness) -> None:
    harness.observe(gpu_node("n"), gpu_node("m"), *two_queues(16))
    on_node(harness, *(training(f"t{n}", 8) for n in range(1)), node="n")
    on_node(harness, training("u", 8), node="m")
    harness.observe(*gang("g", (8, 8), inference))
    assert evicted(harness.run()) == {"t0", "u"}


@pytest.mark.parametrize("sparing", [plan_search.MAX_SEARCH_COST, 0], ids=["few pods", "many"])
def test_a_gang_takes_from_its_own_queue_on_other_nodes_too(
    sparing: int, harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its quota lacks is given back wherever that is, however victims are looked for."""
    monkeypatch.setattr(plan_search, "MAX_SEARCH_COST", sparing)
    harness.observe(gpu_node("n", 2), gpu_node("m", 8), *two_queues(6))
    on_node(harness, inference("a", 1, 60000), training("t", 1, 80000), node="n")
    on_node(harness, inference("b", 1, 60000), inference("c", 1, 60000), node="m")
    harness.observe(*gang("g", (2, 2, 2), inference))
    assert evicted(harness.run()) == {"a", "b", "c"}


def test_use_is_counted_and_given_back(harness: EngineHarness) -> None:
    harness.observe(gpu_node(), *two_queues(), training("a", 3))
    harness.settle_all(harness.run())
    used = harness.engine.ledger.queues["training"].used
    assert (used[CARD], used["cpu"]) == (3, 100)
    harness.observe_deleted(training("a", 3))
    assert not +used
