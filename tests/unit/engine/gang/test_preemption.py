"""Whom a gang evicts, beside all sets of pods that would make room for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec
import pytest

from arranger.api.effects import DeletePod, PublishEvent
from arranger.api.event_reasons import FAILED_SCHEDULING
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.engine.gang.preemption import plan_search
from arranger.engine.gang.preemption.executor import BOUNDED_MESSAGE, PROTECTED_MESSAGE
from arranger.gangs.messages import TOO_MANY_WAYS
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.queueing import gpu_node, inference, training
from tests.unit.engine.harness import EngineHarness, of_kind, placements

TAKER = 9
BUDGET = msgspec.convert(
    {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    },
    PodDisruptionBudget,
)


@dataclass(frozen=True, order=True)
class Running:
    """A pod that runs; the more important is greater, and any protected one than all others."""

    protected: bool
    priority: int
    name: str
    node: int
    size: int


class RandomCluster:
    """A random cluster with room for some of a gang, or for none of it."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.harness = EngineHarness(default_profile())
        self.free = [rng.randint(2, 8) for _ in range(rng.randint(1, 4))]
        self.harness.observe(*(a_node(f"n{n}").offers(cpu=cpu) for n, cpu in enumerate(self.free)))
        self.harness.engine.handlers.on_disruption_budget_updated(BUDGET, 0.0)
        self.running: list[Running] = []
        for node, cpu in enumerate(self.free):
            for size in _parts(rng, cpu):
                name = f"low-{len(self.running)}"
                each = Running(rng.random() < 0.3, rng.randint(0, 11), name, node, size)
                self.running.append(each)
                self.free[node] -= size
                pod = a_pod(name).needs(cpu=size).with_priority(each.priority).on(f"n{node}")
                self.harness.observe(pod.labelled(app="db") if each.protected else pod)
        self.size, self.cpu = rng.randint(2, 5), rng.randint(1, 3)

    def fits(self, without: Iterable[Running]) -> bool:
        """Whether the gang would fit if these were gone; its members are all of one size."""
        free = list(self.free)
        for each in without:
            free[each.node] += each.size
        return sum(cpu // self.cpu for cpu in free) >= self.size

    def ask(self) -> list[Running]:
        """Let the gang come; whom it evicts."""
        member = (a_pod(f"g-{n}").needs(cpu=self.cpu) for n in range(self.size))
        self.harness.observe(*(m.with_priority(TAKER).in_gang("g", self.size) for m in member))
        gone = {delete.pod.name for delete in of_kind(DeletePod, self.harness.run())}
        return [each for each in self.running if each.name in gone]


def _parts(rng: random.Random, cpu: int) -> Iterator[int]:
    while cpu > 0:
        size = rng.randint(1, 3)
        cpu -= size
        if cpu >= 0 and rng.random() < 0.85:
            yield size


@pytest.mark.parametrize("seed", range(80))
def test_nobody_leaves_in_vain_and_the_least_important_leave(seed: int) -> None:
    cluster = RandomCluster(seed)
    weaker = sorted(each for each in cluster.running if each.priority < TAKER)
    victims = cluster.ask()
    if cluster.fits(()) or not cluster.fits(weaker):
        assert victims == []
        return
    assert cluster.fits(victims)
    for each in victims:
        assert not cluster.fits(v for v in victims if v is not each), f"{each} need not have left"
        assert each.priority < TAKER
    # Who is more important than this one stays: those below are enough.
    enough = next(n for n in range(1, len(weaker) + 1) if cluster.fits(weaker[:n]))
    highest = weaker[enough - 1]
    assert all((v.protected, v.priority) <= (highest.protected, highest.priority) for v in victims)
    for each in victims:
        cluster.harness.observe_deleted(a_pod(each.name))
    assert len(placements(cluster.harness.advance_to(30))) == cluster.size


def test_of_a_gang_only_as_many_leave_as_needed_and_as_it_can_spare() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=6))
    old = [a_pod(f"old-{n}").needs(cpu=1).in_gang("old", 2) for n in range(5)]
    harness.observe(*(pod.on("n") for pod in old))
    harness.observe(
        *(a_pod(f"g-{n}").needs(cpu=1).with_priority(9).in_gang("g", 3) for n in range(3))
    )
    # One place is free; of five it can spare three.
    assert len(of_kind(DeletePod, harness.run())) == 2


def test_a_gang_that_cannot_spare_enough_leaves_whole_and_others_stay() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=6))
    old = [a_pod(f"old-{n}").needs(cpu=1).in_gang("old", 3) for n in range(4)]
    harness.observe(*(pod.on("n") for pod in old))
    harness.observe(*(a_pod(f"lone-{n}").needs(cpu=1).with_priority(1).on("n") for n in range(2)))
    harness.observe(
        *(a_pod(f"g-{n}").needs(cpu=1).with_priority(9).in_gang("g", 3) for n in range(3))
    )
    gone = {delete.pod.name for delete in of_kind(DeletePod, harness.run())}
    assert gone == {f"old-{n}" for n in range(4)}


def test_a_gang_whose_room_another_took_evicts_again_as_soon_as_it_may() -> None:
    harness = EngineHarness(default_profile())
    old = [a_pod(f"old-{n}").needs(cpu=2).on("n") for n in range(2)]
    harness.observe(a_node("n").offers(cpu=4), *old)
    harness.observe(
        *(a_pod(f"g-{n}").needs(cpu=2).with_priority(9).in_gang("g", 2) for n in range(2))
    )
    assert len(of_kind(DeletePod, harness.run())) == 2
    harness.observe(a_pod("thief").needs(cpu=4).on("n"))
    for pod in old:
        harness.observe_deleted(pod)
    assert of_kind(DeletePod, harness.advance_to(19)) == [], "its last evictions were in vain"
    assert [delete.pod.name for delete in of_kind(DeletePod, harness.advance_to(21))] == ["thief"]


def test_only_a_group_that_may_evict_is_told_that_time_protects_others() -> None:
    """What is found out for one group is not said of the next, for which nobody has looked."""
    harness = EngineHarness(default_profile(), queues=QuotaConfig(reclaim_min_runtime=600))
    harness.observe(gpu_node(), a_queue("inference"), a_queue("training"))
    harness.observe(training("t", 8).created("1970-01-01T00:00:10Z").on("n"))
    harness.now = 20.0
    groups: dict[str, dict[str, str]] = {"g": {}, "h": {"preemptionPolicy": "Never"}}
    for name, spec in groups.items():
        pods = (inference(f"{name}-{n}", 4).in_gang(name, 2).with_spec(**spec) for n in range(2))
        harness.observe(*pods)
    events = [e for e in of_kind(PublishEvent, harness.run()) if e.reason == FAILED_SCHEDULING]
    told = {e.regarding.name: PROTECTED_MESSAGE in e.note for e in events}
    assert list(told.items()) == [("g-0", True), ("g-1", True), ("h-0", False), ("h-1", False)]


@pytest.mark.parametrize(
    ("most", "lows", "result"), [(2048, 4, "best"), (0, 4, "bounded"), (2048, 0, "none")]
)
def test_how_a_search_for_victims_ended_is_counted_and_told(
    most: int, lows: int, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_search, "MAX_SEARCH_COST", most)
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=4))
    priorities = [*[0] * lows, *[99] * (4 - lows)]
    there = (a_pod(f"p-{n}").with_priority(each) for n, each in enumerate(priorities))
    harness.observe(*(pod.needs(cpu=1).on("n") for pod in there))
    members = (a_pod(f"g-{n}").needs(cpu=2).with_priority(9).in_gang("g", 2) for n in range(2))
    harness.observe(*members)
    told = [e.note for e in of_kind(PublishEvent, harness.run()) if e.reason == FAILED_SCHEDULING]
    assert told
    assert all((BOUNDED_MESSAGE in note) == (result == "bounded") for note in told)
    assert harness.engine.take_stats().gang_plans == {result: 1}


def test_where_there_are_too_many_ways_to_place_the_members_that_is_counted_and_told() -> None:
    """Those of 3 belong on the nodes of 3, and go to those of 4, where a gang of 3 tries more."""
    harness = EngineHarness(default_profile())
    for n in range(5):
        harness.observe(a_node(f"four-{n}").offers(cpu=4), a_node(f"three-{n}").offers(cpu=3))
    members = [a_pod(f"g-{n}").needs(cpu=cpu) for n, cpu in enumerate([3] * 5 + [2] * 10)]
    harness.observe(*(pod.in_gang("g", 15) for pod in members))
    told = [e.note for e in of_kind(PublishEvent, harness.run()) if e.reason == FAILED_SCHEDULING]
    assert told
    assert all(TOO_MANY_WAYS in note for note in told)
    assert harness.engine.take_stats().bounded_gang_attempts == 1


@pytest.mark.parametrize("makers", [(inference, training), (training, inference)])
def test_one_member_that_may_evict_does_not_make_room_for_one_that_may_not(
    makers: tuple[Callable[..., PodBuilder], ...],
) -> None:
    harness = EngineHarness(default_profile())
    harness.observe(gpu_node(), a_queue("inference"), a_queue("training"), a_queue("other"))
    harness.observe(training("t", 8).in_queue("other").on("n"))
    members = [maker(f"g-{n}", 4, 80000).in_gang("g", 2) for n, maker in enumerate(makers)]
    harness.observe(*members)
    assert not of_kind(DeletePod, harness.run())
    harness.observe(*(inference(f"h-{n}", 4).in_gang("h", 2) for n in range(2)))
    assert of_kind(DeletePod, harness.run())
