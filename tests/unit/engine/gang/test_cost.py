"""What gangs cost must grow with their pods, not with the square of them.

Counted are calls, not seconds: the same on every machine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from arranger.api.effects import Applied, Bind, DeletePod, PatchPodStatus
from arranger.api.settings.gang_settings import GangSettings
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.gang import notifier
from arranger.engine.gang.attempt.group_attempt import GangScheduleResult
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.manager import GangManager
from arranger.engine.gang.preemption.dry_placement import DryPlacement
from arranger.engine.gang.preemption.trial import PlanSteps, Trial
from arranger.gangs.gang import Gang
from arranger.gangs.group import GangGroup
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind, small_profile

SIZE = 5000


@pytest.fixture
def harness() -> EngineHarness:
    harness = EngineHarness(small_profile())
    harness.start()
    return harness


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often has been asked what a gang lacks, and how many members have been looked at."""
    counts: Counter[str] = Counter()

    def count(owner: type, name: str, amount: Callable[..., int]) -> None:
        original = getattr(owner, name)

        def counted(self, *args):  # type: ignore[no-untyped-def]
            args = tuple(list(arg) if name == "count_by_bundle" else arg for arg in args)
            counts[name] += amount(self, *args)
            return original(self, *args)

        monkeypatch.setattr(owner, name, counted)

    count(Gang, "missing_members", lambda gang, have: 1)
    count(GangGroup, "count_by_bundle", lambda group, uids: len(uids))
    count(GangManager, "_members_of", lambda work, names: sum_of_claims(work, names))
    count(GangEntityIndex, "_is_stale", lambda work, entity: 1)
    return counts


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> Counter[str]:
    """Counts how often a method is called from now on."""
    calls, original = Counter[str](), getattr(owner, name)

    def counting(*args: Any, **named: Any) -> Any:
        calls[name] += 1
        return original(*args, **named)

    monkeypatch.setattr(owner, name, counting)
    return calls


def sum_of_claims(work: GangManager, names: set[str]) -> int:
    gangs = [work._registry.gangs.get(name) for name in names]
    return sum(len(gang.memberships) for gang in gangs if gang is not None)


def arrive(harness: EngineHarness, pods: list[PodBuilder]) -> None:
    for pod in pods:
        harness.engine.handlers.on_pod_updated(pod.build(), harness.now)


def room(harness: EngineHarness, cpus: int) -> None:
    for n in range(50):
        harness.engine.handlers.on_node_updated(
            a_node(f"n{n}").offers(cpu=cpus // 50, pods=cpus).build(), harness.now
        )


def members(least: int) -> list[PodBuilder]:
    return [a_pod(f"g-{n}").needs(cpu=1).in_gang("g", least) for n in range(SIZE)]


def run(harness: EngineHarness) -> list[Bind]:
    """As the daemon does, without the checks of the harness."""
    binds: list[Bind] = []
    while harness.engine.ready:
        binds += of_kind(Bind, harness.engine.run(harness.now))
    return binds


def settle(harness: EngineHarness, binds: list[Bind]) -> None:
    for bind in binds:
        harness.engine.on_outcome(bind, Applied(), harness.now)
    run(harness)


@pytest.mark.parametrize("least", [SIZE, 50], ids=["all are needed", "most are surplus"])
def test_a_large_gang_arrives_and_is_bound(
    least: int, harness: EngineHarness, calls: Counter[str]
) -> None:
    arrive(harness, members(least))
    assert max(calls.values()) <= 3 * SIZE
    room(harness, SIZE)
    binds = run(harness)
    assert len(binds) == SIZE
    settle(harness, binds)
    assert harness.engine.registry.gangs["default/g"].satisfied
    assert max(calls.values()) <= 12 * SIZE, calls


def test_members_of_a_large_gang_that_does_not_fit_arrive(
    harness: EngineHarness, calls: Counter[str]
) -> None:
    pods = members(50)
    room(harness, 0)
    arrive(harness, pods[:50])
    assert run(harness) == []
    calls.clear()
    arrive(harness, pods[50:])
    assert max(calls.values()) <= 3 * SIZE


def test_surplus_of_a_bundle_arrives(harness: EngineHarness, calls: Counter[str]) -> None:
    pods = [a_pod(f"g-{n}").in_bundle("g", "worker", 50) for n in range(1000)]
    arrive(harness, [a_pod("ps").in_bundle("g", "ps", 1), *pods])
    assert max(calls.values()) <= 10_000


def test_a_gang_of_which_each_member_is_a_bundle_is_bound(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it lacks is not asked of each bundle again for each member that is placed or bound."""
    size = 400
    room(harness, size)
    arrive(harness, [a_pod(f"g-{n}").needs(cpu=1).in_bundle("g", f"b{n}", 1) for n in range(size)])
    asked = count_calls(monkeypatch, Gang, "count")
    binds = run(harness)
    assert len(binds) == size
    settle(harness, binds)
    assert harness.engine.registry.gangs["default/g"].satisfied
    assert size < asked.total() <= 60 * size


def test_members_beyond_the_minimum_of_bundles_do_not_look_at_all_of_these(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 300
    room(harness, 3 * size)
    pods = [a_pod(f"g-{n:03}").in_bundle("g", f"b{n:03}", 1) for n in range(size)]
    pods += [a_pod(f"h-{n:03}").in_bundle("g", "b000", 1) for n in range(size)]
    pods.append(a_pod("last").in_bundle("g", "z", 1))
    for pod in pods[:-1]:
        arrive(harness, [pod.needs(cpu=1)])
    asked = count_calls(monkeypatch, Gang, "count")
    arrive(harness, [pods[-1].needs(cpu=1)])
    assert len(run(harness)) == len(pods)
    assert 0 < asked.total() <= 60 * size


def test_of_members_that_stay_where_they_are_none_is_assigned_anew(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each that comes with a bundle of its own changes the settings of all."""
    size, assigned = 60, count_calls(monkeypatch, GangEntityIndex, "entity_for")
    arrive(harness, [a_pod(f"g-{n}").in_bundle("g", f"b{n}", 1) for n in range(size)])
    for n in range(size // 2):
        harness.engine.handlers.on_pod_deleted(f"default/g-{n}", 0.0)
    harness.engine.check_consistent()
    (entity,) = {pod.entity for pod in harness.engine.pods()}
    assert entity is not None
    assert len(entity.members) == size // 2
    assert assigned.total() <= 3 * size


def test_a_restart_lists_the_pods_of_a_large_gang_that_runs(
    harness: EngineHarness, calls: Counter[str]
) -> None:
    pods = members(SIZE)
    shown = [pod.on("n0") if n % 3 else pod for n, pod in enumerate(pods)]
    restarted = EngineHarness(small_profile())
    arrive(restarted, shown)
    restarted.start()
    assert len(restarted.engine.pods()) == len(range(0, SIZE, 3))
    assert max(calls.values()) <= 6 * SIZE


def test_a_large_gang_is_deleted(harness: EngineHarness, calls: Counter[str]) -> None:
    arrive(harness, members(SIZE))
    calls.clear()
    for n in range(SIZE):
        harness.engine.handlers.on_pod_deleted(f"default/g-{n}", 0.0)
    assert max(calls.values()) <= 3 * SIZE
    assert not harness.engine.registry.gangs


def test_a_gang_that_comes_does_not_look_at_all_others(
    harness: EngineHarness, calls: Counter[str]
) -> None:
    many = 300
    room(harness, 4 * many)
    for n in range(many):
        arrive(harness, [a_pod(f"g{n}-{m}").needs(cpu=1).in_gang(f"g{n}", 2) for m in range(2)])
        settle(harness, run(harness))
    assert max(calls.values()) <= 40 * many, calls


@pytest.mark.parametrize("free", [0, 2])
def test_where_all_victims_are_needed_fewer_are_not_tried(
    free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each trial places all members anew; what sums and single nodes rule out needs none."""
    trials = Counter[str]()
    place = DryPlacement._place

    def counted(group: DryPlacement, trial: Trial) -> PlanSteps[GangScheduleResult]:
        trials["placed"] += 1
        return place(group, trial)

    monkeypatch.setattr(DryPlacement, "_place", counted)
    harness = EngineHarness(default_profile())
    for n in range(40):
        harness.observe(a_node(f"n{n}").offers(cpu=8 + free, pods=20))
        harness.observe(*(a_pod(f"p{n}-{k}").needs(cpu=1).on(f"n{n}") for k in range(8)))
    gang = [a_pod(f"g-{n}").in_gang("g", 40) for n in range(40)]
    harness.observe(*(pod.needs(cpu=8 + free).with_priority(9) for pod in gang))
    harness.start()
    effects = harness.run()
    assert len(of_kind(DeletePod, effects)) == 320
    assert trials["placed"] <= 4
    harness.engine.check_consistent()


def test_gangs_that_name_each_other_cost_no_more_for_each_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queued, enqueue = 0, GangEntityIndex.enqueue

    def counting(self: GangEntityIndex, entity: QueuedEntity, now: float) -> None:
        nonlocal queued
        queued += 1
        enqueue(self, entity, now)

    monkeypatch.setattr(GangEntityIndex, "enqueue", counting)
    harness, gangs = EngineHarness(small_profile()), 40
    names = json.dumps([f"default/g{n}" for n in range(gangs)])
    harness.engine.run(0.0)
    for n in range(gangs):
        for i in range(2):
            harness.observe(a_pod(f"g{n}-{i}").in_gang(f"g{n}", 2, groups=names))
    harness.engine.check_consistent()
    assert 2 * gangs <= queued <= 4 * 2 * gangs


def test_settings_of_members_that_all_differ_are_put_together_in_one_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, make = 0, GangSettings.__init__

    def counting(self: GangSettings, *args: Any, **values: Any) -> None:
        nonlocal made
        made += 1
        make(self, *args, **values)

    harness, size = EngineHarness(small_profile()), 60
    pods = [a_pod(f"p{n}").in_bundle("g", f"b{n}", 1).build() for n in range(size)]
    harness.engine.run(0.0)
    monkeypatch.setattr(GangSettings, "__init__", counting)
    for pod in pods:
        harness.engine.handlers.on_pod_updated(pod, 0.0)
    harness.engine.check_consistent()
    (gang,) = harness.engine.registry.gangs.values()
    assert gang.total_minimum == size
    assert made <= 10 * size


def test_the_members_of_a_large_gang_are_told_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "MOST_TOLD", 10)
    harness, size = EngineHarness(small_profile()), 45
    harness.observe(a_node("n").offers(cpu=1))
    harness.observe(*(a_pod(f"p{n}").needs(cpu=2).in_gang("g", size) for n in range(size)))
    told = list[int]()
    for n in range(10):
        effects = harness.engine.run(harness.now + n / 100)
        told.append(len(of_kind(PatchPodStatus, effects)))
        harness.engine.check_consistent()
    assert sum(told) == size
    assert max(told) <= 10


def test_who_has_left_before_its_turn_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "MOST_TOLD", 10)
    harness = EngineHarness(small_profile())
    harness.observe(a_node("n").offers(cpu=1))
    pods = [a_pod(f"p{n}").needs(cpu=2).in_gang("g", 20) for n in range(20)]
    harness.observe(*pods)
    first = set[str]()
    for n in range(5):
        if not first:
            effects = harness.engine.run(n / 100)
            first = {patch.pod.name for patch in of_kind(PatchPodStatus, effects)}
    assert len(first) == 10
    harness.observe_deleted(*(pod for pod in pods if pod.build().metadata.name not in first))
    for n in range(5):
        effects = harness.engine.run(1 + n / 100)
        assert {patch.pod.name for patch in of_kind(PatchPodStatus, effects)} <= first
