"""Who waits is woken by what helps against all that keeps it off, not only against what rejected it
first: behind that there may be more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arranger.api.effects import Bind, DeletePod
from arranger.api.types.core import Namespace
from arranger.engine.context.queue_state import QueueState
from arranger.engine.gang.attempt import attempts
from arranger.engine.gang.preemption import plans
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind
from tests.unit.engine.reservations.test_reservations import reserved

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def harness() -> EngineHarness:
    return EngineHarness(default_profile())


def evicted(harness: EngineHarness) -> set[str]:
    return {effect.pod.name for effect in of_kind(DeletePod, harness.effects)}


def bound(harness: EngineHarness) -> set[str]:
    return {effect.pod.name for effect in of_kind(Bind, harness.effects)}


def show(harness: EngineHarness, stored: Any) -> None:
    harness.engine.handlers.on_object_updated(stored, harness.now)


def low(name: str, node: str, cpu: int) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).on(node)


def test_room_in_a_domain_that_was_too_small_to_be_tried(harness: EngineHarness) -> None:
    harness.observe(a_node("a").offers(cpu=2).in_zone("a").labelled(disk="ssd"))
    harness.observe(a_node("b").offers(cpu=4).in_zone("b"))
    other = a_pod("other").needs(cpu=1).on("a")
    gang = [a_pod(f"g-{n}").needs(cpu=1).in_gang("g", 2) for n in range(2)]
    gang[1] = gang[1].selects(disk="ssd")
    harness.observe(
        other, *(pod.annotated({"arranger.io/topology": f"required={ZONE}"}) for pod in gang)
    )
    harness.run()
    assert harness.entity("g-0").rejected_by >= {"NodeAffinity", "NodeResourcesFit"}
    harness.observe_deleted(other)
    harness.advance_to(20.0)
    assert bound(harness) == {"g-0", "g-1"}


def test_room_in_a_domain_that_was_tried_in_vain_before_the_best(harness: EngineHarness) -> None:
    """The best is the one in which most members fit; of the other nothing was told."""
    for zone in "ab":
        harness.observe(a_node(zone).offers(cpu=4).in_zone(zone).labelled(disk=zone))
    full = a_pod("full").needs(cpu=3).on("a")
    large = [a_pod(f"g-{n}").needs(cpu=1).selects(disk="a") for n in range(2)]
    small = [a_pod(f"g-{n}").needs(cpu="100m") for n in (2, 3)]
    inside = {"arranger.io/topology": f"required={ZONE}"}
    harness.observe(full, *(pod.in_gang("g", 4).annotated(inside) for pod in (*large, *small)))
    harness.run()
    harness.observe_deleted(full)
    harness.advance_to(20.0)
    assert bound(harness) == {f"g-{n}" for n in range(4)}


def test_room_on_a_node_where_a_port_was_taken(harness: EngineHarness) -> None:
    """Whom it might evict for the port has too little to give: then the node grows."""
    harness.observe(a_node("n").offers(cpu=2), low("has-port", "n", 1).host_port(80))
    harness.observe(low("high", "n", 1).with_priority(10))
    harness.observe(a_pod("p").needs(cpu=2).host_port(80).with_priority(10))
    harness.run()
    assert not evicted(harness)
    harness.observe(a_node("n").offers(cpu=3))
    harness.advance_to(20.0)
    assert evicted(harness) == {"has-port"}


def test_who_can_evict_nobody_is_not_told_of_room(harness: EngineHarness) -> None:
    taken = low("has-port", "n", 1).host_port(80)
    harness.observe(a_node("n").offers(cpu=4), taken, low("other", "n", 1))
    harness.observe(a_pod("p").needs(cpu=1).host_port(80))
    harness.run()
    harness.observe_deleted(low("other", "n", 1))
    assert harness.queue_state("p") is QueueState.UNSCHEDULABLE


@pytest.mark.parametrize("least", [0, 1], ids=["a pod", "a gang"])
def test_when_a_full_node_is_not_kept_for_others_any_more(
    harness: EngineHarness, least: int
) -> None:
    harness.observe(a_node("n").offers(cpu=1), low("low", "n", 1))
    show(harness, reserved("r", 0, 50, "n"))
    pod = a_pod("p").needs(cpu=1).with_priority(10)
    harness.observe(pod.in_gang("g", 1) if least else pod)
    harness.advance_to(49.0)
    assert not evicted(harness)
    harness.advance_to(61.0)
    assert evicted(harness) == {"low"}


@pytest.mark.parametrize("space", ["default", "other"])
def test_when_labels_of_a_namespace_say_that_nodes_are_kept_for_it(
    harness: EngineHarness, space: str
) -> None:
    """Of its own: others' namespaces concern nobody."""
    users = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    harness.observe(a_node("n").offers(cpu=1))
    show(harness, reserved("r", 0, 500, "n", users=users))
    harness.observe(a_pod("p").needs(cpu=1))
    harness.run()
    meta = {"name": space, "uid": "u", "labels": {"team": "x"}}
    show(harness, msgspec.convert({"metadata": meta}, Namespace))
    waits = harness.queue_state("p") is QueueState.UNSCHEDULABLE
    assert waits == (space == "other")


@pytest.mark.parametrize("steps", range(1, 12))
def test_pods_that_come_while_a_plan_is_made(
    harness: EngineHarness, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever one comes that takes free room and may be evicted: nobody is told of that."""
    monkeypatch.setattr(plans, "STEP_UNITS", 1)
    monkeypatch.setattr(attempts, "STEP_UNITS", 1)
    harness.observe(a_node("full").offers(cpu=4), a_node("free").offers(cpu=4))
    harness.observe(low("there", "full", 4))
    harness.run()
    gang = [a_pod(f"g-{n}").needs(cpu=4).in_gang("g", 2).with_priority(10) for n in range(2)]
    harness.observe(*gang)

    def step(seconds: float = 0.0) -> None:
        harness.now += seconds
        harness.effects += harness.engine.run(harness.now, limit=1, seconds=1e9)

    for _ in range(steps):
        step()
    assert not evicted(harness)
    harness.observe(low("comes", "free", 4))
    for n in range(400):
        step(0.12 * (n > 100))
    assert evicted(harness) == {"there", "comes"}
