"""Who was nominated for a node that is not for it any more looks elsewhere at once."""

from __future__ import annotations

from arranger.api.effects import DeletePod
from arranger.engine.context.queue_state import QueueState
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind, placements


def low(name: str, node: str, cpu: int = 2, priority: int = 0) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).with_priority(priority).on(node)


def taker(name: str, priority: int = 5, cpu: int = 2) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).with_priority(priority)


def evicted(harness: EngineHarness) -> list[str]:
    return [delete.pod.name for delete in of_kind(DeletePod, harness.effects)]


def test_one_whose_place_a_more_important_one_takes(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=3), low("a", "n"), low("b", "n", 1, 7))
    harness.observe(a_node("m").offers(cpu=2), low("c", "m", 2, 3))
    harness.start()
    harness.observe(taker("mid"))
    harness.run()
    assert evicted(harness) == ["a"]
    harness.observe(taker("high", 9, cpu=3))
    harness.run()
    assert sorted(evicted(harness)) == ["a", "b", "c"]
    nodes = {n: harness.engine._nominator.node_of(f"uid-default-{n}") for n in ("mid", "high")}
    assert nodes == {"mid": "m", "high": "n"}
    harness.observe_deleted(*(a_pod(name) for name in ("a", "b", "c")))
    harness.run()
    assert sorted(placements(harness.effects)) == [("high", "n"), ("mid", "m")]


def test_one_beside_a_gang_on_a_node_that_shrinks(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=4), low("a", "n"), low("b", "n"))
    harness.start()
    harness.observe(taker("g", 6).in_gang("g", 1))
    harness.run()
    harness.observe(taker("lone"))
    harness.run()
    assert sorted(evicted(harness)) == ["a", "b"]
    assert harness.queue_state("lone") is QueueState.UNSCHEDULABLE
    harness.observe(a_node("n").offers(cpu=1))
    assert harness.queue_state("lone") is QueueState.ACTIVE, "its room is there no more"


def test_who_is_kept_off_by_another_is_woken_when_that_one_leaves(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=9))
    other, near = (a_pod(name).labelled(app=name).on("n") for name in ("other", "near"))
    harness.observe(other, near)
    harness.observe(a_pod("waits").apart("kubernetes.io/hostname", {"app": "near"}))
    harness.run()
    harness.observe_deleted(other)
    assert harness.queue_state("waits") is QueueState.UNSCHEDULABLE
    harness.observe_deleted(near)
    assert harness.queue_state("waits") is QueueState.ACTIVE
