"""Gangs that preempt, and gangs that are preempted (docs/design/preemption.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from arranger.api.effects import (
    Applied,
    Bind,
    DeletePod,
    Effect,
    PatchObject,
    PatchPodStatus,
    PublishEvent,
)
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.queue_state import QueueState
from arranger.framework.interface import SpecOnlyPlugin, Wait
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.framework.status import CycleState
from arranger.plugins import DEFAULT_PLUGINS
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind
from tests.unit.engine.pod.test_preemption import bound, evicted, gang, pod_group, running

# --- gangs that preempt ------------------------------------------------------------------------


def test_a_gang_evicts_what_it_needs_and_is_bound_whole(harness: EngineHarness) -> None:
    for n in range(3):
        harness.observe(a_node(f"n{n}").offers(cpu=1), running(f"low-{n}", f"n{n}"))
    harness.observe(*gang("g", 2, 10))
    effects = harness.run()
    victims = evicted(effects)
    assert len(victims) == 2
    notes = {e.note for e in of_kind(PublishEvent, effects) if e.reason == "Preempted"}
    assert all(note.startswith("Preempted by gang default/g on node n") for note in notes)
    for delete in of_kind(DeletePod, effects):
        assert delete.condition is not None
        assert delete.condition.message.endswith("a higher priority podgroup")
        assert delete.eviction is not None
        assert (delete.eviction.reason, delete.eviction.gang) == ("preemption", "default/g")
        assert delete.eviction.node == f"n{delete.pod.name.removeprefix('low-')}"
    nominated = {p.pod.name for p in of_kind(PatchPodStatus, effects) if p.nominated_node}
    assert nominated == {"g-0", "g-1"}
    harness.observe(a_pod("thief").needs(cpu=1).with_priority(5))
    first, second = sorted(victims)
    harness.observe_deleted(running(first, "n0"))
    harness.advance_to(20)
    assert bound(harness.effects) == set(), "not before all of it fits"
    harness.observe_deleted(running(second, "n1"))
    harness.advance_to(40)
    assert bound(harness.effects) == {"g-0", "g-1"}


def test_a_gang_that_would_not_fit_even_then_evicts_nobody(harness: EngineHarness) -> None:
    for n in range(2):
        harness.observe(a_node(f"n{n}").offers(cpu=1), running(f"low-{n}", f"n{n}"))
    harness.observe(*gang("g", 3, 10))
    harness.run()
    harness.advance_to(1000)
    assert evicted(harness.effects) == set()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"priority": 10}, {"low"}),
        ({"priority": 10, "preemptionPolicy": "Never"}, set()),
        ({}, set()),
    ],
    ids=["its own", "its own, and evicts nobody", "none: its pods' counts"],
)
def test_a_gang_evicts_by_the_priority_of_its_pod_group(
    spec: dict[str, object], expected: set[str], harness: EngineHarness
) -> None:
    harness.observe(a_node("n").offers(cpu=1), running("low", "n", priority=5))
    member = a_pod("g-0").needs(cpu=1).with_spec(schedulingGroup={"podGroupName": "g"})
    harness.observe(member)  # pods may come before their PodGroup
    harness.run()
    harness.engine.handlers.on_pod_group_updated(pod_group(1, **spec), harness.now)
    assert evicted(harness.run()) == expected


def test_when_the_pod_group_of_running_pods_changes_their_priority_does(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n").offers(cpu=1))
    harness.observe(running("g-0", "n").with_spec(schedulingGroup={"podGroupName": "g"}))
    harness.engine.handlers.on_pod_group_updated(pod_group(1, priority=50), harness.now)
    harness.observe(a_pod("high").needs(cpu=1).with_priority(10))
    assert evicted(harness.run()) == set()
    harness.engine.handlers.on_pod_group_deleted(pod_group(1, priority=50), harness.now)
    harness.advance_to(400)
    assert evicted(harness.effects) == {"g-0"}


def test_a_priority_that_changes_while_the_pod_is_bound_leaves_it_where_it_is(
    harness: EngineHarness,
) -> None:
    pod = a_pod("g-0").needs(cpu=1).with_spec(schedulingGroup={"podGroupName": "g"})
    harness.observe(a_node("n").offers(cpu=1))
    harness.engine.handlers.on_pod_group_updated(pod_group(1, priority=1), harness.now)
    harness.observe(pod)
    (bind,) = of_kind(Bind, harness.run())
    harness.engine.handlers.on_pod_group_updated(pod_group(1, priority=2), harness.now)
    harness.observe(pod.on("n"))  # the watch is ahead of the answer
    harness.engine.handlers.on_pod_group_updated(pod_group(1, priority=50), harness.now)
    harness.settle(bind)
    harness.observe(a_pod("high").needs(cpu=1).with_priority(10))
    assert evicted(harness.run()) == set()
    assert harness.node_of(pod) == "n"
    harness.engine.check_consistent()


def test_gang_against_gang_the_loser_leaves_whole(harness: EngineHarness) -> None:
    harness.observe(*(a_node(f"n{n}").offers(cpu=1) for n in range(4)))
    harness.observe(*gang("old", 3, 1))
    harness.settle_all(harness.run())
    for n, pod in enumerate(gang("old", 3, 1)):
        harness.observe(pod.on(harness.node_of(pod) or f"n{n}"))
    harness.observe(*gang("new", 2, 5))
    assert evicted(harness.run()) == {"old-0", "old-1", "old-2"}


def test_who_is_leaving_is_not_evicted_again_with_the_rest_of_its_gang(
    harness: EngineHarness,
) -> None:
    harness.observe(*(a_node(f"n{n}").offers(cpu=1) for n in range(3)))
    harness.observe(*gang("old", 3, least=2))
    harness.settle_all(harness.run())
    for pod in gang("old", 3, least=2):
        harness.observe(pod.on(harness.node_of(pod)))
    times: Counter[str] = Counter()
    for taker in ("first", "second"):
        harness.observe(a_pod(taker).needs(cpu=1).with_priority(5))
        times.update(delete.pod.name for delete in of_kind(DeletePod, harness.run()))
        if taker == "first":
            assert times.total() == 1, "the gang has one to spare"
    assert times == {"old-0": 1, "old-1": 1, "old-2": 1}


def test_a_gang_puts_back_whom_it_can_do_without(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=4))
    harness.observe(*(running(f"low-{n}", "n", priority=n) for n in range(4)))
    harness.observe(*gang("g", 2, 10))
    assert evicted(harness.run()) == {"low-0", "low-1"}


def test_a_gang_evicts_again_and_again_ever_more_rarely(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=1), running("low-0", "n"))
    harness.observe(*gang("g", 1, 10))
    times = []
    for second in range(2000):
        harness.now = float(second)
        if evicted(harness.run()):
            times.append(second)
            # The victim's owner is quicker than the gang: another is there at once.
            harness.observe_deleted(running(f"low-{len(times) - 1}", "n"))
            harness.observe(running(f"low-{len(times)}", "n"))
    assert 2 <= len(times) <= 12


def test_nothing_is_left_of_promises(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=2), running("low", "n", 2))
    pods = gang("g", 2, 10)
    harness.observe(*pods)
    harness.run()
    harness.observe_deleted(*pods, running("low", "n", 2))
    harness.advance_to(5000)
    nominations = harness.engine._nominator
    assert not nominations
    assert not nominations.terminating_victims
    assert len(harness.engine.cluster) == 0
    assert harness.engine.next_timer() is None


class Holding(SpecOnlyPlugin):
    """Makes ``low`` wait, in Permit or in PreBind."""

    def __init__(self, where: str) -> None:
        self._where = where

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Wait | None:
        return Wait(600) if self._holds(pod, "permit") else None

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Sequence[Effect]:
        path = "/api/v1/persistentvolumes/v"
        return [PatchObject(path, {})] if self._holds(pod, "pre_bind") else []

    def wait_pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Wait | None:
        return Wait(600, "late") if self._holds(pod, "wait_pre_bind") else None

    def _holds(self, pod: PodInfo, where: str) -> bool:
        return pod.pod.metadata.name == "low" and self._where == where


@pytest.mark.parametrize("where", ["permit", "pre_bind", "wait_pre_bind"])
def test_who_is_not_bound_yet_only_loses_the_node(where: str) -> None:
    harness = with_holding(where)
    harness.observe(a_node("n").offers(cpu=1), a_pod("low").needs(cpu=1))
    harness.run()
    harness.observe(a_pod("high").needs(cpu=1).with_priority(10))
    effects = harness.run()
    assert evicted(effects) == set()
    told = [e.note for e in of_kind(PublishEvent, effects) if e.reason == "Preempted"]
    assert told == ["Preempted by pod uid-default-high on node n (in arranger memory)."]
    of_low = [e for e in of_kind(PublishEvent, effects) if e.regarding.name == "low"]
    (failed,) = [e.note for e in of_low if e.reason == "FailedScheduling"]
    assert "preempted by pod uid-default-high of higher priority" in failed
    (patch,) = [e for e in of_kind(PatchPodStatus, effects) if e.pod.name == "low"]
    assert patch.condition is not None
    assert patch.condition.reason == "Unschedulable"
    harness.advance_to(1)
    assert bound(harness.effects) == {"high"}
    assert harness.node_of(a_pod("low")) is None
    assert harness.queue_state("low") is not QueueState.NOT_QUEUED


def with_holding(where: str) -> EngineHarness:
    plugins = [PluginWeight(plugin(), weight) for plugin, weight in DEFAULT_PLUGINS]
    return EngineHarness(Profile("arranger", [*plugins, PluginWeight(Holding(where))]))


@pytest.mark.parametrize("how", ["is not bound yet", "leaves already"])
def test_beside_one_who_need_not_be_deleted_the_others_are(how: str) -> None:
    harness = with_holding("permit")
    others = [running("less", "n", priority=1), running("more", "n", priority=3)]
    low = a_pod("low").needs(cpu=1).with_priority(2)
    harness.observe(a_node("n").offers(cpu=3), *others)
    harness.observe(low if how == "is not bound yet" else low.on("n").deleting())
    harness.run()
    harness.observe(*gang("g", 3, 10))
    effects = harness.run()
    assert evicted(effects) == {"less", "more"}
    told = [e for e in of_kind(PublishEvent, effects) if e.reason == "Preempted"]
    notes = {e.regarding.name: e.note for e in told}
    by = "Preempted by gang default/g on node n"
    if how == "is not bound yet":
        assert notes.pop("low") == f"{by} (in arranger memory)."
    assert notes == {"less": by, "more": by}


def test_a_binding_pod_can_be_a_victim(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=1), a_pod("low").needs(cpu=1))
    (bind,) = of_kind(Bind, harness.run())
    harness.observe(a_pod("high").needs(cpu=1).with_priority(10))
    assert evicted(harness.run()) == {"low"}
    harness.settle(bind, Applied())
    harness.observe_deleted(a_pod("low"))
    assert bound(harness.advance_to(20)) == {"high"}
