"""A pod on a node counts to the queue that it was charged to until another one takes it.

Else whoever may edit his pods has a queue's limit anew as often as he likes.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from arranger.api.effects import DeletePod, PublishEvent
from arranger.api.types.core import Namespace
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.builders.workloads import an_owner, job_pods
from tests.unit.engine.gang.workload_engine import WITH_JOBS, WorkloadEngine, kind_of
from tests.unit.engine.harness import EngineHarness, of_kind, placements

QUEUE = "scheduling.volcano.sh/queue-name"
NOBODY: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"no": "one"}}}
OURS: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "a"}}}

# sentence: the queue that a pod on a node names now, why it stays where it was
REFUSED: dict[str, tuple[str, str]] = {
    "one that does not exist": ("nowhere", "Queue <nowhere> does not exist"),
    "the queue of another team": ("theirs", "Queue <theirs> is not for namespace <default>"),
    "the root of all": ("root", "Queue <root> takes no pods: it is the root of all queues"),
    "one that others are part of": (
        "parent",
        "Queue <parent> takes no pods: 3 other queues are part of it",
    ),
    "one that is full": ("full", "Queue <full> is full"),
    "one below a queue that is full": ("below", "Queue <full-parent> is full"),
    "one that is closed": ("closed", "Queue <closed> is not open"),
    "none, where the default queue is for nobody": (
        "",
        "Queue <default> is not for namespace <default>",
    ),
}


class World(WorkloadEngine):
    """Two pods of two in the queue ``a``, and one that waits there."""

    def __init__(self) -> None:
        super().__init__(WITH_JOBS)
        team = {"metadata": {"name": "default", "labels": {"team": "a"}}}
        self.engine.handlers.on_object_updated(msgspec.convert(team, Namespace), self.now)
        self.observe(a_node("n").offers(cpu=16))
        self.observe(
            a_queue("root"),
            a_queue("parent"),
            a_queue("a", parent="parent", capability={"cpu": "2"}, **OURS),
            a_queue("b", parent="parent", capability={"cpu": "4"}, **OURS),
            a_queue("theirs", **NOBODY),
            a_queue("default", **NOBODY),
            a_queue("full", parent="parent", capability={"cpu": "0"}),
            a_queue("full-parent", capability={"cpu": "0"}),
            a_queue("below", parent="full-parent"),
            a_queue("closed", state="Closed"),
        )
        self.observe(*(of_a(name).on("n") for name in ("one", "two")), of_a("waits"))
        self.run()

    def used(self, *names: str) -> list[int]:
        self.run()
        return [self.engine.ledger.queues[name].used["cpu"] // 1000 for name in names]

    def priority_of(self, name: str) -> int | None:
        placed = self.engine.cluster.pod(f"uid-default-{name}")
        return None if placed is None else placed.priority

    def stays(self) -> list[tuple[str, str]]:
        found = of_kind(PublishEvent, self.effects)
        return [(e.regarding.name, e.note) for e in found if e.reason == "StaysInQueue"]


def of_a(name: str) -> PodBuilder:
    return a_pod(name).needs(cpu=1).in_queue("a")


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(("queue", "why"), REFUSED.values(), ids=REFUSED)
def test_a_pod_on_a_node_that_names_another_queue_stays_where_it_counts(
    world: World, queue: str, why: str
) -> None:
    for name in ("one", "two"):
        world.observe(of_a(name).in_queue(queue).on("n"))
    assert world.used("a") == [2]
    assert not placements(world.effects)
    assert world.stays() == [(name, f"it stays in Queue <a>: {why}") for name in ("one", "two")]


def test_it_is_told_once_that_it_stays(world: World) -> None:
    for n in range(3):
        world.observe(of_a("one").in_queue("nowhere").labelled(seen=str(n)).on("n"))
        world.run()
    assert len(world.stays()) == 1


def test_it_moves_to_a_queue_with_room_and_others_have_its_place(world: World) -> None:
    world.observe(of_a("one").in_queue("b").on("n"))
    assert world.used("a", "b") == [2, 1]
    assert [name for name, _ in placements(world.effects)] == ["waits"]
    assert not world.stays()


def test_who_waits_in_a_queue_is_not_judged_by_one_like_him_who_stays_in_another(
    world: World,
) -> None:
    world.observe(a_pod("first").needs(cpu=1).in_queue("below"))
    world.run()
    world.observe(a_pod("first").needs(cpu=1).in_queue("b"))
    assert [name for name, _ in placements(world.run())] == ["first"]
    world.observe(a_pod("first").needs(cpu=1).in_queue("below").on("n"))
    world.run()
    world.observe(a_pod("second").needs(cpu=1).in_queue("below"))
    assert not placements(world.run())


def test_its_own_use_of_what_both_queues_are_part_of_does_not_keep_it(world: World) -> None:
    world.observe(a_queue("parent", capability={"cpu": "2"}))
    world.observe(of_a("one").in_queue("b").on("n"))
    assert world.used("a", "b") == [1, 1]


def test_the_label_is_no_other_way(world: World) -> None:
    world.observe(a_pod("one").needs(cpu=1).labelled({QUEUE: "nowhere"}).on("n"))
    assert world.used("a") == [2]


def test_nor_is_the_owner(world: World) -> None:
    job = an_owner("Job", parallelism=2)
    world.observe(a_queue("c", parent="parent", capability={"cpu": "1"}, **OURS))
    world.see(job.annotated({QUEUE: "c"}))
    world.observe(*(pod.needs(cpu=1).on("n") for pod in job_pods(job, 1)))
    assert world.used("c") == [1]
    world.engine.workload_handlers.on_updated(
        kind_of(job), job.annotated({QUEUE: "nowhere"}).build(), world.now
    )
    assert world.used("c") == [1]
    world.see(job.annotated({QUEUE: "b"}))
    assert world.used("c", "b") == [0, 1]


def test_it_is_in_its_queue_again_when_it_names_that_again(world: World) -> None:
    world.observe(of_a("one").in_queue("nowhere").on("n"))
    world.run()
    world.observe(of_a("one").on("n"))
    world.run()
    assert not world.engine.ledger.kept
    assert world.used("a") == [2]


def test_it_moves_when_the_queue_that_it_names_is_made(world: World) -> None:
    world.observe(of_a("one").in_queue("later").on("n"))
    assert world.used("a") == [2]
    world.observe(a_queue("later", **OURS))
    assert world.used("a", "later") == [2, 1]
    assert [name for name, _ in placements(world.effects)] == ["waits"]


def test_nothing_is_kept_of_pods_that_are_gone(world: World) -> None:
    world.observe(of_a("one").in_queue("nowhere").on("n"))
    world.run()
    world.observe_deleted(of_a("one").on("n"))
    assert world.used("a") == [2]
    assert [name for name, _ in placements(world.effects)] == ["waits"]
    assert not world.engine.ledger.kept


def test_a_pod_whose_queue_was_deleted_counts_to_the_default_queue(world: World) -> None:
    world.engine.handlers.on_queue_deleted(a_queue("a"), world.now)
    assert world.used("default") == [2]


def test_a_pod_that_names_no_queue_that_there_is_can_be_evicted() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=2), a_queue("b", deserved={"cpu": "2"}))
    harness.observe(*(of_a(name).in_queue("nowhere").on("n") for name in ("one", "two")))
    harness.observe(a_pod("ours").needs(cpu=1).in_queue("b"))
    deleted = of_kind(DeletePod, harness.run())
    assert len(deleted) == 1


def test_who_cannot_be_counted_and_names_no_queue_that_there_is_closes_the_default_queue(
    world: World,
) -> None:
    ledger = world.engine.ledger
    world.observe(a_queue("default"))
    ledger.uncharged.set("uid", "nowhere", "default")
    assert "cannot be counted" in ledger.why_no_pods("default")
    world.observe(a_queue("nowhere"))
    world.run()
    assert not ledger.why_no_pods("default")
    assert "cannot be counted" in ledger.why_no_pods("nowhere")


def test_its_priority_is_the_one_that_the_queue_believes_in_which_it_stays(world: World) -> None:
    world.observe(
        a_queue("a", parent="parent", capability={"cpu": "2"}, maxPriority=5, **OURS),
        a_queue("b", parent="parent", capability={"cpu": "0"}, maxPriority=9, **OURS),
    )
    world.observe(of_a("one").with_priority(9).on("n"))
    world.run()
    world.observe(of_a("one").with_priority(9).in_queue("b").on("n"))
    world.run()
    assert world.priority_of("one") == 5
    world.observe(a_queue("b", parent="parent", capability={"cpu": "1"}, maxPriority=9, **OURS))
    world.run()
    assert world.priority_of("one") == 9


@pytest.mark.parametrize("seed", range(20))
def test_no_edits_of_placed_pods_bring_a_queue_above_its_limit(seed: int) -> None:
    """Nor more pods onto nodes, than the queues that take them allow in all."""
    chance, world = random.Random(seed), World()
    limits = {"a": 2, "b": 4}
    queues, pods = ["a", "b", "theirs", "nowhere", "root", "full", "closed", "below", ""], {}
    for n in range(60):
        name = chance.choice([*pods, f"p{n}"]) if pods else f"p{n}"
        queue = chance.choice(queues if name in pods else ["a", "b"])
        pod = a_pod(name).needs(cpu=1).in_queue(queue)
        if name in pods and chance.random() < 0.1:
            world.observe_deleted(pods.pop(name))
        else:
            node = pods[name].build().spec.node_name if name in pods else ""
            pods[name] = pod.on(node) if node else pod
            world.observe(pods[name])
        if chance.random() < 0.1:
            world.observe(a_queue("b", parent="parent", capability={"cpu": "4"}, **OURS))
        for bound, node in placements(world.run()):
            if bound in pods:
                pods[bound] = pods[bound].on(node)
                world.observe(pods[bound])
        assert all(n <= most for n, most in zip(world.used(*limits), limits.values(), strict=True))
        placed = list(world.engine.cluster.placed_pods())
        assert len(placed) <= sum(limits.values())
