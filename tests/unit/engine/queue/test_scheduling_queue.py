"""Who is tried when: order, back-off, and what wakes whom."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.effects import PublishEvent
from arranger.cluster.node_view import NodeInfo
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import QueueState
from arranger.framework.cluster_event import ActionType, QueueingHint
from arranger.framework.interface import Plugin, SpecOnlyPlugin
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import CycleState, Status
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.unit.engine.harness import (
    CONFLICT,
    EngineHarness,
    conditions,
    event_notes,
    of_kind,
    placements,
    small_profile,
)

MakeCore = Callable[..., EngineHarness]


def test_higher_priority_goes_first_and_equals_in_order_of_arrival(harness: EngineHarness) -> None:
    harness.observe(a_node("n1"))
    harness.observe(a_pod("early").with_priority(5))
    harness.now = 1
    harness.observe(a_pod("late").with_priority(5), a_pod("later").with_priority(5))
    harness.observe(
        a_pod("low"), a_pod("high").with_priority(1000), a_pod("below").with_priority(-1)
    )

    tried = [pod for pod, _ in placements(harness.run())]

    assert tried == ["high", "early", "late", "later", "low", "below"]


def test_a_pod_that_cannot_be_placed_does_not_hold_up_those_behind_it(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n1"), a_pod("big").needs(cpu=5).with_priority(9), a_pod("small"))

    assert placements(harness.run()) == [("small", "n1")]


def test_only_as_many_are_tried_in_one_run_as_asked(harness: EngineHarness) -> None:
    harness.observe(a_node("n1"), *[a_pod(f"p{n}") for n in range(5)])

    sizes = []
    while harness.engine.ready:
        sizes.append(len(harness.engine.run(0, limit=2)))

    assert sizes == [2, 2, 1]


# --- back-off --------------------------------------------------------------------------------


def test_back_off_doubles_from_one_second_to_ten(harness: EngineHarness) -> None:
    harness.observe(a_node("n1"), a_pod("p"))
    harness.run()
    waits = []
    for _ in range(6):
        harness.settle(harness.binding("p"), CONFLICT)
        due = harness.engine.next_timer()
        assert due is not None
        waits.append(due - harness.now)
        assert harness.advance_to(due - 0.01) == []
        assert placements(harness.advance_to(due)) == [("p", "n1")]

    assert waits == [1, 2, 4, 8, 10, 10]


def test_a_woken_pod_does_not_wait_for_its_back_off_while_there_is_nothing_else(
    harness: EngineHarness,
) -> None:
    harness.observe(a_pod("p"))
    harness.run()
    harness.now = 0.4
    harness.observe(a_node("n1"))

    assert placements(harness.run()) == [("p", "n1")]


def test_but_whoever_has_no_back_off_goes_first(harness: EngineHarness) -> None:
    harness.observe(a_pod("p").needs(cpu=1).with_priority(9))
    harness.run()
    harness.now = 0.4
    harness.observe(a_pod("new").needs(cpu=1), a_node("n1").offers(cpu=1))

    assert placements(harness.run()) == [("new", "n1")]


def test_of_those_in_back_off_the_most_important_goes_first(harness: EngineHarness) -> None:
    harness.observe(*(a_pod(f"p{n}").needs(cpu=1).with_priority(n) for n in range(3)))
    harness.run()
    harness.now = 0.4
    harness.observe(a_node("n1").offers(cpu=2))

    assert placements(harness.run()) == [("p2", "n1"), ("p1", "n1")]


class Never(SpecOnlyPlugin):
    """Hopes for every new node, and likes none."""

    queueing_hints = (QueueingHint(ActionType.NODE_ADDED),)

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return self.reject("never")


def test_only_every_second_back_off_is_cut_short() -> None:
    harness = EngineHarness(small_profile(Never()))
    harness.observe(a_pod("p"))
    tried = []
    for tick in range(60):
        harness.now = tick / 2
        harness.observe(a_node(f"n{tick}"))
        if of_kind(PublishEvent, harness.run()):
            tried.append(harness.now)

    # Its back-offs are of 1, 2, 4, 8, 10, 10, and 10 seconds.
    assert tried == [0, 0.5, 2, 2.5, 10, 10.5, 20, 20.5]


def test_an_edit_of_the_pod_cuts_its_back_off_short(harness: EngineHarness) -> None:
    harness.observe(a_node("n1"), a_pod("p").needs(cpu=5))
    harness.run()
    harness.now = 0.4
    harness.observe(a_pod("p").needs(cpu=1))

    assert placements(harness.run()) == [("p", "n1")]


def test_a_back_off_from_an_error_is_waited_for(harness: EngineHarness) -> None:
    harness.observe(a_node("n1"), a_pod("p"))
    harness.run()
    harness.settle(harness.binding("p"), CONFLICT)
    harness.now = 0.4
    harness.observe(a_node("n2"))

    assert harness.run() == []
    assert harness.queue_state("p") is QueueState.BACKOFF


def test_of_back_offs_that_end_within_a_second_the_most_important_comes_first(
    harness: EngineHarness,
) -> None:
    harness.now = 10.1
    harness.observe(a_node("n1"), a_pod("low"), a_pod("high").with_priority(9))
    harness.run()
    harness.settle(harness.binding("low"), CONFLICT)
    harness.now = 10.9
    harness.settle(harness.binding("high"), CONFLICT)

    assert harness.advance_to(10.99) == []
    assert [name for name, _ in placements(harness.advance_to(11))] == ["high", "low"]


def test_what_has_left_the_queue_leaves_nothing_behind_in_it(harness: EngineHarness) -> None:
    harness.observe(a_pod("busy"))
    for tick in range(1000):
        harness.now = float(tick)
        harness.observe(a_pod("p").with_priority(tick))
        harness.observe(a_pod("p").with_priority(tick).labelled(a=str(tick)))

    assert len(harness.engine.queue._active) < 200


def test_a_pod_woken_after_its_back_off_is_tried_at_once(harness: EngineHarness) -> None:
    harness.observe(a_pod("p"))
    harness.run()
    harness.now = 3
    harness.observe(a_node("n1"))

    assert placements(harness.run()) == [("p", "n1")]


# --- what wakes an unschedulable pod ---------------------------------------------------------

N1 = a_node("n1")
TAINTED = N1.tainted("team", "a")
FULL = a_pod("full").needs(cpu=3).on("n1")

WAKES: dict[str, tuple[list[NodeBuilder | PodBuilder], PodBuilder, NodeBuilder | PodBuilder]] = {
    "a node with room arrives": ([N1, FULL], a_pod("p").needs(cpu=2), a_node("n2")),
    "its node grows": ([N1], a_pod("p").needs(cpu=5), N1.offers(cpu=6)),
    "its node is uncordoned": ([N1.cordoned()], a_pod("p"), N1),
    "its node loses a taint": ([TAINTED], a_pod("p"), N1),
    "its node gets the label": ([N1], a_pod("p").selects(disk="ssd"), N1.labelled(disk="ssd")),
    "a pod on its node ends": (
        [N1, FULL],
        a_pod("p").needs(cpu=2),
        FULL.in_phase("Succeeded"),
    ),
    "a pod on its node is shrunk": (
        [N1, FULL],
        a_pod("p").needs(cpu=2),
        a_pod("full").needs(cpu=1).on("n1"),
    ),
    "it gets a toleration": ([TAINTED], a_pod("p"), a_pod("p").tolerates("team", "a")),
    "it is resized": ([N1], a_pod("p").needs(cpu=5), a_pod("p").needs(cpu=1)),
}


@pytest.mark.parametrize(("before", "pod", "change"), WAKES.values(), ids=WAKES.keys())
def test_wakes(
    harness: EngineHarness,
    before: list[NodeBuilder | PodBuilder],
    pod: PodBuilder,
    change: NodeBuilder | PodBuilder,
) -> None:
    harness.observe(*before, pod)
    assert placements(harness.run()) == []
    harness.now = 20
    harness.observe(change)

    assert [name for name, _ in placements(harness.run())] == ["p"]


SLEEPS: dict[str, tuple[list[NodeBuilder | PodBuilder], PodBuilder, NodeBuilder | PodBuilder]] = {
    "a node arrives that is too small": (
        [N1],
        a_pod("p").needs(cpu=5),
        a_node("n2").offers(cpu=4),
    ),
    "its node only reports in": ([N1], a_pod("p").needs(cpu=5), N1.with_status(phase="Running")),
    "a pod takes room": ([N1], a_pod("p").needs(cpu=5), a_pod("q").on("n1")),
    "a node arrives with the same taint": (
        [TAINTED],
        a_pod("p"),
        a_node("n2").tainted("team", "a"),
    ),
    "a label changes that it does not ask for": (
        [N1],
        a_pod("p").selects(disk="ssd"),
        N1.labelled(colour="red"),
    ),
    "only its status changes": (
        [N1],
        a_pod("p").needs(cpu=5),
        a_pod("p").needs(cpu=5).with_status(message="still waiting"),
    ),
    "our own condition comes back": (
        [N1],
        a_pod("p").needs(cpu=5),
        a_pod("p")
        .needs(cpu=5)
        .with_status(
            conditions=[
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 Insufficient cpu.",
                }
            ]
        ),
    ),
    "the same pod is listed again": ([N1], a_pod("p").needs(cpu=5), a_pod("p").needs(cpu=5)),
}


@pytest.mark.parametrize(("before", "pod", "change"), SLEEPS.values(), ids=SLEEPS.keys())
def test_sleeps_on_when(
    harness: EngineHarness,
    before: list[NodeBuilder | PodBuilder],
    pod: PodBuilder,
    change: NodeBuilder | PodBuilder,
) -> None:
    harness.observe(*before, pod)
    harness.run()
    harness.now = 20
    harness.observe(change)

    assert harness.run() == []
    assert harness.queue_state("p") is QueueState.UNSCHEDULABLE
    assert harness.engine.next_timer() == 300


def test_what_nothing_woke_is_tried_again_after_five_minutes(harness: EngineHarness) -> None:
    harness.observe(a_node("n1"), a_pod("p").needs(cpu=5))
    harness.run()

    assert harness.advance_to(299.9) == []
    assert len(event_notes(harness.advance_to(300))) == 1
    assert harness.engine.next_timer() == 600


def test_a_pod_edited_all_the_time_is_still_tried_every_five_minutes(
    harness: EngineHarness,
) -> None:
    pod = a_pod("p").needs(cpu=5)
    harness.observe(a_node("n1"), pod)
    harness.run()
    for minute in range(1, 5):
        harness.now = minute * 60
        harness.observe(pod.annotated(seen=str(minute)))
        assert harness.run() == []

    assert len(event_notes(harness.advance_to(300))) == 1


def test_pods_of_one_class_wake_together_and_are_judged_each(harness: EngineHarness) -> None:
    harness.observe(a_node("n1").offers(cpu=1), *[a_pod(f"p{n}").needs(cpu=2) for n in range(3)])
    harness.run()
    harness.now = 20
    harness.observe(a_node("n1").offers(cpu=5))

    assert placements(harness.run()) == [("p0", "n1"), ("p1", "n1")]
    assert harness.queue_state("p2") is QueueState.UNSCHEDULABLE


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
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        f"0/1 nodes are available: 1 {unhelpful}"
    )
    longer = (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable. no new claims to deallocate, preemption: "
        f"0/3 nodes are available: 3 {unhelpful}"
    )
    assert event_notes(first) == event_notes(second) == [("FailedScheduling", text)]
    assert conditions(first) == [("Unschedulable", text)]
    assert conditions(second) == []
    assert event_notes(third) == [("FailedScheduling", longer)]
    assert conditions(third) == [("Unschedulable", longer)]


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


def test_a_pod_with_an_unreadable_request_is_passed_over_until_it_is_gone(
    harness: EngineHarness,
) -> None:
    bad = a_pod("bad").needs(cpu="lots")
    harness.observe(a_node("n1"), bad, a_pod("good"))
    assert placements(harness.run()) == [("good", "n1")]
    harness.observe_deleted(bad)
    harness.observe(a_pod("bad").with_uid("uid-2"))

    assert placements(harness.run()) == [("bad", "n1")]


def test_a_node_with_an_unreadable_amount_keeps_its_last_good_state(harness: EngineHarness) -> None:
    harness.observe(a_node("n1"), a_node("n2").offers(cpu="many"))
    harness.observe(
        a_node("n1").offers(cpu="many"), a_pod("p").needs(cpu=4), a_pod("q").needs(cpu=4)
    )

    assert placements(harness.run()) == [("p", "n1")]
