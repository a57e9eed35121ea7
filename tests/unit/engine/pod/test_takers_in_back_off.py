"""Takers whose last attempt broke off wait a moment, but not once their room is there."""

from __future__ import annotations

import pytest

from arranger.api.effects import DeletePod
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.queue_state import QueueState
from arranger.framework.interface import SpecOnlyPlugin
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.framework.status import CycleState
from arranger.plugins import DEFAULT_PLUGINS
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind, placements


class Fickle(SpecOnlyPlugin):
    """Lets all pods pass; while it is ill it raises about those with a label."""

    ill = False

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> None:
        if self.ill and pod.pod.metadata.labels:
            raise ValueError("boom")


@pytest.fixture
def fickle() -> Fickle:
    return Fickle()


@pytest.fixture
def harness(fickle: Fickle) -> EngineHarness:
    plugins = [PluginWeight(plugin(), weight) for plugin, weight in DEFAULT_PLUGINS]
    return EngineHarness(Profile("arranger", [*plugins, PluginWeight(fickle)]))


def low(name: str, node: str = "n") -> PodBuilder:
    return a_pod(name).needs(cpu=2).on(node)


def taker(name: str) -> PodBuilder:
    return a_pod(name).needs(cpu=2).with_priority(5)


def evicted(harness: EngineHarness) -> set[str]:
    return {delete.pod.name for delete in of_kind(DeletePod, harness.effects)}


def test_each_is_tried_the_moment_its_own_room_is_there(
    harness: EngineHarness, fickle: Fickle
) -> None:
    harness.observe(a_node("n").offers(cpu=4), low("low-0"), low("low-1"))
    harness.observe(taker("a"), taker("b"))
    harness.run()
    assert evicted(harness) == {"low-0", "low-1"}
    fickle.ill = True
    harness.observe(taker("b").labelled(new="yes"), a_node("n").offers(cpu=4).labelled(new="yes"))
    harness.run()
    fickle.ill = False
    states = [harness.queue_state(name) for name in ("a", "b")]
    assert states == [QueueState.UNSCHEDULABLE, QueueState.BACKOFF]
    harness.observe_deleted(low("low-0"), low("low-1"))
    assert [harness.queue_state(name) for name in ("a", "b")] == [QueueState.ACTIVE] * 2
    harness.run()
    assert sorted(placements(harness.effects)) == [("a", "n"), ("b", "n")]


def test_a_gang_is_tried_the_moment_its_last_victim_has_left(
    harness: EngineHarness, fickle: Fickle
) -> None:
    harness.observe(a_node("n").offers(cpu=4), low("low-0"), low("low-1"))
    members = [taker(f"g-{n}").in_gang("g", 2).labelled(app="g") for n in range(2)]
    harness.observe(*members)
    harness.run()
    harness.observe(a_node("o").offers(cpu=2), low("other", "o"), taker("lone"))
    harness.run()
    assert evicted(harness) == {"low-0", "low-1", "other"}
    fickle.ill = True
    harness.observe(a_node("n").offers(cpu=9))
    harness.run()
    fickle.ill = False
    harness.observe(a_node("n").offers(cpu=4))
    assert harness.queue_state("g-0") is QueueState.BACKOFF
    harness.observe_deleted(low("low-0"))
    assert harness.queue_state("g-0") is QueueState.BACKOFF
    harness.observe_deleted(low("low-1"))
    assert harness.queue_state("g-0") is QueueState.ACTIVE
    harness.run()
    assert sorted(placements(harness.effects)) == [("g-0", "n"), ("g-1", "n")]
