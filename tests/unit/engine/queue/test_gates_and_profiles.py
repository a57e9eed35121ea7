"""Scheduling gates, profiles, and what a pod that waits is told."""

from __future__ import annotations

from collections.abc import Callable

from arranger.api.effects import PatchPodStatus
from arranger.api.types.core import Node
from arranger.cluster.nodes.node_view import NodeInfo
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.queue_state import QueueState
from arranger.framework.interface import Plugin
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import CycleState, Status
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import (
    EngineHarness,
    conditions,
    event_notes,
    placements,
    small_profile,
)

MakeCore = Callable[..., EngineHarness]


# --- gates -----------------------------------------------------------------------------------


def test_a_gated_pod_is_neither_tried_nor_spoken_of(harness: EngineHarness) -> None:
    harness.observe(a_node("n1"), a_pod("p").gated("quota"))
    harness.observe(a_node("n2"))

    assert harness.advance_to(1000) == []
    assert harness.queue_state("p") is QueueState.GATED
    assert harness.engine.next_timer() is None


def test_removing_the_last_gate_schedules_at_once(harness: EngineHarness) -> None:
    harness.observe(a_node("n1"), a_pod("p").gated("quota", "image"))
    harness.run()
    harness.observe(a_pod("p").gated("image"))
    assert harness.run() == []
    harness.observe(a_pod("p"))

    assert placements(harness.run()) == [("p", "n1")]


def test_a_gated_pod_that_is_deleted_is_gone(harness: EngineHarness) -> None:
    harness.observe(a_pod("p").gated("quota"))
    harness.observe_deleted(a_pod("p"))

    assert len(harness.engine.queue) == 0
    assert harness.engine.pods() == []


# --- texts -----------------------------------------------------------------------------------


def test_every_failed_attempt_has_an_event_and_the_condition_only_what_is_new(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n1"), a_pod("p").needs(cpu=5))
    first = harness.run()
    second = harness.advance_to(300)
    harness.now = 310
    harness.observe(a_node("n2").cordoned(), a_node("n3").offers(cpu=8).tainted("team", "a"))
    harness.observe(a_pod("p").needs(cpu=6))
    third = harness.run()

    unhelpful = "Preemption is not helpful for scheduling."
    text = (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: "
        f"0/1 nodes are available: 1 {unhelpful}"
    )
    longer = (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable. preemption: "
        f"0/3 nodes are available: 3 {unhelpful}"
    )
    assert event_notes(first) == event_notes(second) == [("FailedScheduling", text)]
    assert conditions(first) == [("Unschedulable", text)]
    assert conditions(second) == []
    assert event_notes(third) == [("FailedScheduling", longer)]
    assert conditions(third) == [("Unschedulable", longer)]


def test_a_plugin_that_was_not_asked_about_a_pod_says_nothing_about_it(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n1"), a_pod("p").with_claim("data"))
    text = '0/1 nodes are available: persistentvolumeclaim "data" not found.'
    assert conditions(harness.run()) == [("Unschedulable", text)]


def test_after_a_restart_a_condition_that_says_it_already_is_left_alone(
    harness: EngineHarness,
) -> None:
    text = "no nodes available to schedule pods"
    standing = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    harness.observe(a_pod("told").with_status(conditions=[{**standing, "message": text}]))
    harness.observe(
        a_pod("untold").with_status(conditions=[{**standing, "message": "something else"}])
    )

    assert conditions(harness.run()) == [("Unschedulable", text)]
    assert event_notes(harness.effects) == [("FailedScheduling", text)] * 2


# --- profiles --------------------------------------------------------------------------------


def test_each_pod_is_judged_by_the_plugins_of_its_own_scheduler_name(
    make_harness: MakeCore,
) -> None:
    lax = Profile("lax", [w for w in default_profile().plugins if w.plugin.name in LAX])
    harness = make_harness(default_profile(), lax)
    harness.observe(a_node("n1").cordoned())
    harness.observe(
        a_pod("strict"), a_pod("lax").for_scheduler("lax"), a_pod("else").for_scheduler("x")
    )

    assert placements(harness.run()) == [("lax", "n1")]
    assert harness.queue_state("strict") is QueueState.UNSCHEDULABLE
    assert len(harness.engine.pods()) == 2


LAX = ("PrioritySort", "NodeResourcesFit", "DefaultBinder")


def test_a_plugin_that_cannot_sign_has_every_pod_judged_alone(make_harness: MakeCore) -> None:
    class EvenNames(Plugin):
        def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            return self.reject("odd") if int(pod.pod.metadata.name[1:]) % 2 else None

    harness = make_harness(small_profile(EvenNames()))
    harness.observe(a_node("n1"), *[a_pod(f"p{n}").needs(cpu=1) for n in range(4)])

    assert placements(harness.run()) == [("p0", "n1"), ("p2", "n1")]


# --- objects nobody can read -----------------------------------------------------------------


def test_a_pod_with_an_unreadable_request_is_told_so_and_passed_over_until_it_is_gone(
    harness: EngineHarness,
) -> None:
    bad = a_pod("bad").needs(cpu="lots")
    harness.observe(a_node("n1"), bad, a_pod("good"))
    effects = harness.run()
    assert placements(effects) == [("good", "n1")]
    (told,) = [e for e in effects if isinstance(e, PatchPodStatus) and e.pod.name == "bad"]
    assert "resources: 'lots' is not a quantity" in told.condition.message
    harness.observe_deleted(bad)
    harness.observe(a_pod("bad").with_uid("uid-2"))

    assert placements(harness.run()) == [("bad", "n1")]


def test_a_node_with_an_unreadable_amount_keeps_its_last_good_state(harness: EngineHarness) -> None:
    good, bad = a_node("n1"), a_node("n1").offers(cpu="many")
    harness.observe(good)
    harness.start()
    harness.observe_unreadable(a_node("n2").offers(cpu="many"))
    harness.observe_unreadable(bad, before=good)
    harness.observe(a_pod("p").needs(cpu=4), a_pod("q").needs(cpu=4))

    assert placements(harness.run()) == [("p", "n1")]


def test_a_node_is_heard_of_again_when_its_kubelet_has_mended_what_it_offers(
    harness: EngineHarness,
) -> None:
    harness.expects_faults = True
    barrier, kind = harness.engine.barrier, harness.engine.handlers.kinds[Node]
    bad, now = a_node("n1").offers(cpu=-1).build(), harness.now
    barrier.on_update_fault(kind, bad, None, RuntimeError("a fault of ours"), now)
    assert barrier.is_left_out(kind, bad, now)
    assert not barrier.is_left_out(kind, a_node("n1").offers(cpu=1).build(), now)
