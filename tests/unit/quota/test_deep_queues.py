"""Queues below queues: so many levels count, and thousands cost a pod no more than those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from arranger.api.types.queue import Queue
from arranger.cli.queues import _tree_order
from arranger.cluster import Cluster, NodeTable
from arranger.controllers.queue.cache import QueueCache
from arranger.controllers.queue.entries import ObservedQueue
from arranger.controllers.queue.status import queue_status
from arranger.quota.ledger import QuotaLedger
from arranger.quota.queue_spec import MAX_LEVELS, TOO_DEEP, QueueQuota, validate
from tests.builders import a_node, a_pod, a_queue

LIMIT = {"cpu": 5}
THOUSANDS = 5_000


def a_chain(levels: int) -> list[Queue]:
    """``q0``, and each of the others part of the one before."""
    guarantee = {"resource": {"cpu": 1}}
    parents = ("", *(f"q{n}" for n in range(levels - 1)))
    return [
        a_queue(f"q{n}", parent=parent, capability=LIMIT, guarantee=guarantee)
        for n, parent in enumerate(parents)
    ]


def a_ring(size: int) -> list[Queue]:
    """Each is part of another."""
    return [a_queue(f"q{n}", parent=f"q{(n + 1) % size}", capability=LIMIT) for n in range(size)]


class Counted(dict[str, QueueQuota]):
    """Counts how often a queue is looked up."""

    looked_up = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.looked_up += 1
        return super().get(name, default)


def a_world(queues: list[Queue]) -> tuple[QuotaLedger, Cluster]:
    table = NodeTable()
    ledger = QuotaLedger(table)
    cluster = Cluster(table, ledger)
    cluster.set_node(a_node("n").offers(cpu=100, pods=100).build())
    for queue in queues:
        ledger.set_queue(queue)
    ledger.queues = Counted(ledger.queues)
    return ledger, cluster


@pytest.mark.parametrize("root", [True, False], ids=["with a root", "without"])
@pytest.mark.parametrize(("levels", "taken"), [(MAX_LEVELS, True), (MAX_LEVELS + 1, False)])
def test_so_many_levels_take_pods_and_no_more(levels: int, taken: bool, root: bool) -> None:
    queues = a_chain(levels - root) + [a_queue("root", capability={"cpu": 50})] * root
    ledger, cluster = a_world(queues)
    last = f"q{levels - root - 1}"
    pod = a_pod("p").needs(cpu=1).in_queue(last).on("n").info()
    ledger.refresh(cluster)
    assert bool(ledger.why_refused(pod)) is not taken
    problems = [] if taken else [f"spec.parent: the queue takes no pods, as it is {TOO_DEEP}"]
    assert validate(ledger.queues, last) == problems
    if taken:
        cluster.observe_pod(pod)
        assert {state.used["cpu"] for state in ledger.queues.values()} == {1000}
        ledger.check_consistent(cluster)


@pytest.mark.parametrize("made", [a_chain, a_ring], ids=["a chain", "a ring"])
def test_thousands_cost_a_pod_no_more_than_so_many(made: Callable[[int], list[Queue]]) -> None:
    ledger, cluster = a_world(made(THOUSANDS))
    queues = ledger.queues
    assert isinstance(queues, Counted)
    ledger.refresh(cluster)
    assert queues.looked_up <= 2 * MAX_LEVELS * THOUSANDS
    queues.looked_up = 0
    pod = a_pod("p").needs(cpu=1).in_queue(f"q{THOUSANDS - 1}").on("n").info()
    assert TOO_DEEP in ledger.why_refused(pod)
    cluster.observe_pod(pod)
    ledger.limits_of(pod)
    assert ledger.shortage(pod, ledger.charges_for(pod, {}), {}) is None
    assert queues.looked_up <= 20 * MAX_LEVELS
    ledger.check_consistent(cluster)


@pytest.mark.parametrize("made", [a_chain, a_ring], ids=["a chain", "a ring"])
def test_their_status_and_their_list_are_made(made: Callable[[int], list[Queue]]) -> None:
    cache = QueueCache()
    for queue in made(THOUSANDS):
        cache.on_queue_updated(ObservedQueue(queue.metadata, queue.spec))
    name = f"q{THOUSANDS - 1}"
    [valid] = queue_status(cache, name, "2026-01-01T00:00:00Z")["conditions"]
    assert (valid["type"], valid["status"]) == ("Valid", "False")
    assert TOO_DEEP in valid["message"]
    assert sum(1 for _ in cache.with_descendants("q0")) == MAX_LEVELS
    assert sorted(_tree_order(cache, set(cache.states))) == sorted(cache.states)
