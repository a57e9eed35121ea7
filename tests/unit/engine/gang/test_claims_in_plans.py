"""Plans whom to evict for gangs with claims: the same as without what makes them cheap."""

from __future__ import annotations

import random
from typing import Any

import pytest

from arranger.api.effects import Applied, Bind, DeletePod
from arranger.cluster import NodeView, PodInfo
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.gang.attempt import attempts, scheduling_cycle
from arranger.engine.gang.preemption import plan_search, plans
from arranger.engine.gang.preemption.room_by_numbers import RoomByNumbers
from arranger.framework import FilterResult
from arranger.framework.status import CycleState
from arranger.plugins import default_profile
from arranger.plugins.dynamicresources.dynamic_resources import DynamicResources
from tests.builders import PodBuilder, a_node, a_pod
from tests.devices import a_claim, a_device_class, a_slice, claiming_from

SEEDS = range(40)


class World:
    """Nodes full of pods of three priorities, some of them with devices, and a gang with claims."""

    def __init__(self, seed: int, *, in_steps: bool) -> None:
        self.engine = Engine(EngineSettings([default_profile()]))
        self.steps, self.evicted, self._seconds = 0, set[str](), 1e9 if in_steps else float("inf")
        handlers, rng = self.engine.handlers, random.Random(seed)
        handlers.on_object_updated(a_device_class().build(), 0.0)
        self.nodes = rng.randrange(3, 9)
        for n in range(self.nodes):
            handlers.on_node_updated(a_node(f"n{n}").offers(cpu=4, pods=20).build(), 0.0)
            if devices := [f"d{k}" for k in range(rng.choice([0, 1, 2, 2]))]:
                handlers.on_object_updated(a_slice(f"n{n}", *devices).build(), 0.0)
        for n in range(rng.randrange(self.nodes, 4 * self.nodes)):
            pod = a_pod(f"low-{n}").needs(cpu=1).on(f"n{n % self.nodes}")
            handlers.on_pod_updated(pod.with_priority(rng.randrange(3)).build(), 0.0)
        self.engine.run(0.0)
        for pod in self._gang(rng):
            handlers.on_pod_updated(pod.build(), 1.0)

    def _gang(self, rng: random.Random) -> list[PodBuilder]:
        size, gang = rng.randrange(2, 9), list[PodBuilder]()
        least = rng.choice([size, size, max(1, size - 2)])
        for n in range(size):
            pod = a_pod(f"g-{n}").needs(cpu=rng.choice([1, 2, 2, 3])).with_priority(9)
            pod = pod.in_gang("g", least)
            if rng.random() < 0.8:
                claim = a_claim(f"g-{n}-gpu").asks().made_for(pod)
                self.engine.handlers.on_object_updated(claim.build(), 0.5)
                pod = claiming_from(pod, "gpu", f"g-{n}-gpu")
            gang.append(pod)
        return gang

    def decide(self) -> tuple[frozenset[str], str]:
        """Whom it evicts, and what is said of it."""
        while not self.evicted:
            self.steps += 1
            effects = self.engine.run(1.0, seconds=self._seconds, limit=1)
            self.engine.check_consistent()
            for effect in effects:
                if isinstance(effect, DeletePod):
                    self.evicted.add(effect.pod.name)
                if isinstance(effect, Bind):
                    self.engine.on_outcome(effect, Applied(), 1.0)
            if not (effects or self.engine.ready):
                break
            assert self.steps < 3000, "it never comes to an end"
        reasons = {pod.entity.reason for pod in self.engine.pods() if pod.entity is not None}
        return frozenset(self.evicted), "; ".join(sorted(reasons))


@pytest.fixture(params=[False, True], ids=["all sets", "as for many"])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(plan_search, "MAX_SEARCH_COST", 0)
        monkeypatch.setattr(plan_search, "MANY_MOVED", 0)


def test_the_same_pods_are_evicted_in_steps(many: None, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = [World(seed, in_steps=False).decide() for seed in SEEDS]
    monkeypatch.setattr(plans, "STEP_UNITS", 300)
    monkeypatch.setattr(attempts, "STEP_UNITS", 250)
    worlds = [World(seed, in_steps=True) for seed in SEEDS]
    assert [world.decide() for world in worlds] == at_once
    assert sum(bool(evicted) for evicted, _ in at_once) > 8
    assert sum(world.steps > 10 for world in worlds) > 8


def test_the_same_pods_are_evicted_as_if_all_were_tried(
    many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheaply = [World(seed, in_steps=False).decide() for seed in SEEDS]
    monkeypatch.setattr(RoomByNumbers, "decides", False)
    monkeypatch.setattr(scheduling_cycle, "_fits_nowhere_later", lambda member, answer: False)
    assert [World(seed, in_steps=False).decide() for seed in SEEDS] == cheaply


def test_a_member_that_fits_nowhere_ends_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    searches, original = list[str](), DynamicResources.filter

    def counted(plugin: Any, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        searches.append(pod.pod.metadata.name)
        return original(plugin, state, pod, nodes)

    def a_world(devices: int) -> Engine:
        """Enough room by numbers once all have left, and too few devices."""
        engine = Engine(EngineSettings([default_profile()]))
        engine.handlers.on_object_updated(a_device_class().build(), 0.0)
        for n in range(40):
            engine.handlers.on_node_updated(a_node(f"n{n}").offers(cpu=1).build(), 0.0)
            low = a_pod(f"low-{n}").needs(cpu=1).on(f"n{n}").with_priority(n % 3)
            engine.handlers.on_pod_updated(low.build(), 0.0)
            if n < devices:
                engine.handlers.on_object_updated(a_slice(f"n{n}", "d").build(), 0.0)
        for n in range(30):
            pod = a_pod(f"g-{n}").needs(cpu=1).with_priority(9).in_gang("g", 30)
            claim = a_claim(f"g-{n}-gpu").asks().made_for(pod)
            engine.handlers.on_object_updated(claim.build(), 0.0)
            engine.handlers.on_pod_updated(claiming_from(pod, "gpu", f"g-{n}-gpu").build(), 0.0)
        return engine

    monkeypatch.setattr(DynamicResources, "filter", counted)
    engine = a_world(devices=2)
    engine.run(1.0)
    engine.check_consistent()
    assert len(searches) < 30 + 5 * 10, "each once in the attempt, two and one more in each trial"
