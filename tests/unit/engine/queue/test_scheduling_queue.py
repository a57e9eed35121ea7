"""Who is tried when: order, back-off, and what wakes whom."""

from __future__ import annotations

import pytest

from arranger.api.effects import PublishEvent
from arranger.cluster.nodes.node_view import NodeInfo
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.queue_state import QueueState
from arranger.framework.cluster_event import ActionType, QueueingHint
from arranger.framework.interface import SpecOnlyPlugin
from arranger.framework.status import CycleState, Status
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.unit.engine.harness import (
    CONFLICT,
    EngineHarness,
    event_notes,
    of_kind,
    placements,
    small_profile,
)


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
    harness.start()

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


def test_nobody_who_comes_later_gets_the_room_that_has_woken_a_higher_one(
    harness: EngineHarness,
) -> None:
    harness.observe(a_pod("p").needs(cpu=1).with_priority(9))
    harness.run()
    harness.now = 0.4
    harness.observe(a_pod("new").needs(cpu=1), a_node("n1").offers(cpu=1))

    assert placements(harness.run()) == [("p", "n1")]


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


def test_one_that_found_no_node_is_tried_after_each_event_that_may_help_and_at_no_other_time() -> (
    None
):
    harness = EngineHarness(small_profile(Never()))
    harness.observe(a_pod("p"))
    tried = []
    for tick in range(60):
        harness.now = tick / 2
        if tick % 7 == 0:
            harness.observe(a_node(f"n{tick}"))
        if of_kind(PublishEvent, harness.run()):
            tried.append(tick)

    assert tried == list(range(0, 60, 7))


class RefusesBeforeBinding(SpecOnlyPlugin):
    """Likes every node until it is time to bind, and hopes for whatever happens."""

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return self.reject("changed its mind")


def test_two_whose_refused_attempts_wake_each_other_wait_out_their_back_offs() -> None:
    harness = EngineHarness(small_profile(RefusesBeforeBinding()))
    harness.observe(a_node("n1"), a_pod("p"), a_pod("q"))
    harness.run()
    while (due := harness.engine.next_timer()) is not None and due < 60:
        harness.advance_to(due)

    assert {entity.attempts for entity in harness.engine.queue.entities()} == {9}


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
