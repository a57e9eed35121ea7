"""Where many of one priority wait, their namespaces take turns (docs/design/queue-order.md)."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest

from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.queue_state import QueueState
from arranger.engine.queue.order.heap import MultiQueueHeap
from arranger.engine.queue.order.namespace_turns import PODS_A_TURN, NamespaceTurns
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, placements


@dataclass
class Model:
    """A list that is searched from end to end: level, round, rank."""

    waiting: list[tuple[int, str, int]] = field(default_factory=list)
    tried: dict[tuple[int, str], int] = field(default_factory=dict)
    rounds: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def push(self, level: int, namespace: str, rank: int) -> None:
        lane = level, namespace
        if all(each[:2] != lane for each in self.waiting):
            begun = self.rounds[level] * PODS_A_TURN
            self.tried[lane] = max(self.tried.get(lane, 0), begun)
        self.waiting.append((level, namespace, rank))

    def pop(self) -> tuple[int, str, int] | None:
        if not self.waiting:
            return None
        first = min(self.waiting, key=lambda each: (each[0], self._round(each), each[2]))
        self.rounds[first[0]] = self._round(first)
        self.take(first)
        if self.waiting:
            self.tried[first[:2]] += 1
        return first

    def take(self, each: tuple[int, str, int]) -> None:
        self.waiting.remove(each)
        if not self.waiting:
            self.tried.clear()
            self.rounds.clear()

    def _round(self, each: tuple[int, str, int]) -> int:
        return self.tried[each[:2]] // PODS_A_TURN


def an_entity(level: int, namespace: str, rank: int) -> QueuedEntity:
    pod = a_pod(f"p{rank}").in_namespace(namespace).info()
    entity = QueuedEntity.from_pod(QueuedPod(pod, default_profile(), 0.0))
    entity.rank, entity.lane = (level, rank), ((level,), namespace)
    entity.state, entity.heap_version = QueueState.ACTIVE, rank + 1
    return entity


@dataclass
class QueueByNamespace:
    """The quota queue of a pod is that of its namespace, and all have the same rank."""

    def queue_of(self, pod: PodInfo) -> str:
        return pod.namespace

    def queue_rank(self, queue: str) -> int:
        return 0


@pytest.mark.parametrize("namespaces", [1, 3], ids=["one queue", "several queues"])
def test_entities_that_went_while_they_waited_are_not_counted_for_ever(namespaces: int) -> None:
    order: Any = QueueByNamespace()
    heap = MultiQueueHeap(QueueState.ACTIVE, order)
    for n in range(30):
        entity = an_entity(0, f"team{n % namespaces}", n)
        heap.push(entity)
        entity.state = None  # it is deleted
    assert heap.first_queue() is None
    assert len(heap) == 0


@pytest.mark.parametrize("seed", range(8))
def test_the_order_is_that_of_a_plain_list(seed: int) -> None:
    rng = random.Random(seed)
    turns, model, waiting = NamespaceTurns(QueueState.ACTIVE), Model(), dict[int, QueuedEntity]()
    ranks = list(range(1500))
    rng.shuffle(ranks)
    while ranks or waiting:
        what = rng.choice(("push", "push", "push", "pop", "pop", "void", "compact"))
        if what == "push" and ranks:
            rank, level = ranks.pop(), rng.choice((0, 0, 0, 1))
            namespace = rng.choice("aaaaaabbc")
            waiting[rank] = an_entity(level, namespace, rank)
            turns.push(waiting[rank])
            model.push(level, namespace, rank)
        elif what == "pop":
            expected = model.pop()
            assert (turns.first() is None) == (expected is None)
            if expected is not None:
                entity = turns.pop()
                turns.on_tried(entity)
                assert entity is waiting.pop(expected[2])
                entity.heap_version = 0
        elif what == "compact" and rng.random() < 0.1:
            assert turns.compact() == len(model.waiting) == len(turns.entities())


def in_one_go(harness: EngineHarness) -> list[str]:
    return [pod for pod, _ in placements(harness.run())]


def burst(count: int, namespace: str = "busy", priority: int = 0) -> list[PodBuilder]:
    pods = [a_pod(f"{namespace}-{n}").in_namespace(namespace) for n in range(count)]
    return [pod.with_priority(priority) for pod in pods]


def test_who_comes_after_a_thousand_pods_of_another_waits_for_one_turn(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n1").offers(cpu=1000, pods=2000), *burst(1000))
    harness.now = 1
    harness.observe(a_pod("late").in_namespace("other"))

    assert in_one_go(harness).index("late") == PODS_A_TURN


def test_ten_namespaces_with_much_to_try_keep_another_waiting_for_one_turn_each(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n1").offers(cpu=1000, pods=2000))
    for n in range(10):
        harness.observe(*burst(100, f"busy{n}"))
    harness.now = 1
    harness.observe(a_pod("late").in_namespace("other"))

    assert in_one_go(harness).index("late") <= 10 * PODS_A_TURN


def test_a_job_priority_gives_no_turns_of_other_namespaces(harness: EngineHarness) -> None:
    first = [pod.of_tyjob().annotated({"arranger.io/job-priority": "10"}) for pod in burst(100)]
    harness.observe(a_node("n1").offers(cpu=1000, pods=2000), *first)
    harness.observe(a_pod("late").in_namespace("other"))

    assert in_one_go(harness).index("late") == PODS_A_TURN


@pytest.mark.parametrize(
    ("busy", "late", "place"),
    [(100, 0, 200), (0, 100, 0)],
    ids=["all of higher priority go first", "one of higher priority goes first"],
)
def test_priorities_of_pods_go_before_turns(
    harness: EngineHarness, busy: int, late: int, place: int
) -> None:
    harness.observe(a_node("n1").offers(cpu=1000, pods=2000), *burst(200, priority=busy))
    harness.observe(a_pod("late").in_namespace("other").with_priority(late))

    assert in_one_go(harness).index("late") == place


def test_while_nobody_has_used_up_a_turn_all_go_by_age(harness: EngineHarness) -> None:
    harness.observe(a_node("n1").offers(cpu=1000, pods=2000))
    harness.run()
    order = []
    for n in range(PODS_A_TURN):
        for namespace in ("a", "b", "c"):
            order.append(f"{namespace}-{n}")
            harness.observe(a_pod(order[-1]).in_namespace(namespace))
            harness.now += 1

    assert in_one_go(harness) == order
