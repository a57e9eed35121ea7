"""A pod from observed to bound, and everything that may come between."""

from __future__ import annotations

import pytest

from arranger.api.effects import (
    Ambiguous,
    Applied,
    Bind,
    ObjectKey,
    Outcome,
    PublishEvent,
    Refused,
)
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import CONFLICT, EngineHarness, event_notes, of_kind, placements

POD = a_pod("p").needs(cpu=3)
NODE = a_node("n1")
SCHEDULED = [("Scheduled", "Successfully assigned default/p to n1")]


def bind_is_out(harness: EngineHarness) -> Bind:
    harness.observe(NODE, POD)
    harness.run()
    return harness.binding("p")


def free(harness: EngineHarness, node: str = "n1") -> int:
    table = harness.engine.cluster.table
    cpu = table.resource_column("cpu")
    row = table.index[node]
    return int(table.allocatable[cpu, row] - table.requested[cpu, row])


def test_a_pod_that_arrives_is_bound_and_its_uid_is_the_precondition(
    harness: EngineHarness,
) -> None:
    harness.observe(NODE, POD)

    assert harness.run() == [Bind(ObjectKey("default", "p", "uid-default-p"), "n1")]


def test_a_binding_applied_is_told_once(harness: EngineHarness) -> None:
    bind = bind_is_out(harness)

    assert event_notes(harness.settle(bind)) == SCHEDULED
    harness.observe(POD.on("n1"))
    assert harness.run() == []
    assert harness.engine.pods() == []


def test_the_watch_may_show_the_pod_bound_before_the_outcome_comes(harness: EngineHarness) -> None:
    bind = bind_is_out(harness)
    harness.observe(POD.on("n1"))

    assert harness.run() == []
    assert event_notes(harness.settle(bind)) == SCHEDULED
    assert harness.engine.pods() == []


def test_an_old_pending_state_does_not_queue_a_bound_pod_again(harness: EngineHarness) -> None:
    harness.settle(bind_is_out(harness))
    harness.observe(POD.labelled(late="yes"))

    assert harness.run() == []
    assert harness.engine.pods() == []
    assert harness.node_of(POD) == "n1"


def test_room_reserved_is_not_given_twice(harness: EngineHarness) -> None:
    harness.observe(NODE, POD, a_pod("q").needs(cpu=3))

    assert placements(harness.run()) == [("p", "n1")]
    assert harness.queue_state("q") is QueueState.UNSCHEDULABLE


@pytest.mark.parametrize("doubt", [False, True], ids=["while binding", "while in doubt"])
def test_a_deleted_pod_gives_its_room_back_and_its_outcome_is_ignored(
    harness: EngineHarness, doubt: bool
) -> None:
    bind = bind_is_out(harness)
    harness.observe(a_pod("q").needs(cpu=3))
    harness.run()
    if doubt:
        harness.settle(bind, Ambiguous("time-out"))
    harness.observe_deleted(POD)

    assert harness.advance_to(1) == [Bind(ObjectKey("default", "q", "uid-default-q"), "n1")]
    assert harness.settle(bind) == []
    assert harness.node_of(POD) is None


def test_a_pod_deleted_in_the_queue_is_not_tried_again(harness: EngineHarness) -> None:
    harness.observe(POD)
    harness.run()
    harness.observe_deleted(POD)
    harness.observe(NODE)

    assert harness.advance_to(1000) == []
    assert len(harness.engine.queue) == 0


def test_a_pod_being_deleted_leaves_the_queue(harness: EngineHarness) -> None:
    harness.observe(POD)
    harness.run()
    harness.observe(POD.deleting(), NODE)

    assert event_notes(harness.advance_to(1000)) == [
        ("FailedScheduling", "skip schedule deleting pod: default/p")
    ]
    assert placements(harness.effects) == []
    assert len(harness.engine.queue) == 0


def test_a_pod_being_deleted_is_not_requeued_when_its_binding_is_refused(
    harness: EngineHarness,
) -> None:
    bind = bind_is_out(harness)
    harness.observe(POD.deleting())

    assert harness.settle(bind, CONFLICT) == []
    assert harness.engine.pods() == []
    assert free(harness) == 4000


@pytest.mark.parametrize("binding", [False, True], ids=["queued", "being bound"])
def test_a_pod_recreated_in_one_event_is_another_pod(harness: EngineHarness, binding: bool) -> None:
    if binding:
        harness.observe(NODE)
    harness.observe(POD)
    harness.run()
    harness.observe(POD.with_uid("uid-2"), NODE)

    assert harness.advance_to(1) == [Bind(ObjectKey("default", "p", "uid-2"), "n1")]
    if binding:
        first = next(b for b in of_kind(Bind, harness.effects) if b.pod.uid == "uid-default-p")
        assert harness.settle(first, Refused(409, "Replaced")) == []
    assert harness.phase("p") is Phase.BINDING
    assert free(harness) == 1000


def test_a_pod_bound_by_others_while_queued_is_theirs(harness: EngineHarness) -> None:
    harness.observe(POD)
    harness.run()
    harness.observe(NODE, POD.on("n1"))

    assert harness.run() == []
    assert harness.engine.pods() == []
    assert free(harness) == 1000


@pytest.mark.parametrize(
    "outcome", [Refused(409, "AlreadyBound", "the pod is bound to n2"), Ambiguous("time-out")]
)
def test_a_pod_bound_elsewhere_while_we_bind_frees_what_we_had_reserved(
    harness: EngineHarness, outcome: Outcome
) -> None:
    bind = bind_is_out(harness)
    harness.observe(a_pod("q").needs(cpu=3).selects({"kubernetes.io/hostname": "n1"}))
    harness.run()
    harness.observe(a_node("n2"), POD.on("n2"))

    assert placements(harness.advance_to(1)) == [("q", "n1")]
    assert harness.settle(bind, outcome) == []
    assert (free(harness, "n1"), free(harness, "n2")) == (1000, 1000)


def test_already_bound_elsewhere_says_nothing_on_the_pod_of_another_scheduler(
    harness: EngineHarness,
) -> None:
    bind = bind_is_out(harness)

    assert harness.settle(bind, Refused(409, "AlreadyBound", "the pod is bound to n2")) == []
    harness.observe(POD.on("n2"))
    assert harness.advance_to(1000) == []
    assert harness.engine.pods() == []


def test_a_refusal_does_not_take_back_what_the_watch_has_shown(harness: EngineHarness) -> None:
    bind = bind_is_out(harness)
    harness.observe(POD.on("n1"))

    assert harness.settle(bind, Refused(0, "NotLeader")) == []
    assert harness.node_of(POD) == "n1"
    assert free(harness) == 1000
    assert harness.engine.pods() == []


def test_a_refused_binding_frees_the_node_wakes_others_and_is_tried_again(
    harness: EngineHarness,
) -> None:
    bind = bind_is_out(harness)
    harness.observe(a_pod("q").needs(cpu=3))
    harness.run()
    harness.advance_to(5)

    said = harness.settle(bind, CONFLICT)

    assert event_notes(said) == [
        ("FailedScheduling", "binding rejected: the object has been modified"),
    ]
    assert placements(said) == [("q", "n1")]
    assert harness.queue_state("p") is QueueState.BACKOFF
    assert harness.engine.next_timer() == 6


def test_a_binding_not_sent_for_want_of_the_lease_says_nothing_to_the_user(
    harness: EngineHarness,
) -> None:
    bind = bind_is_out(harness)

    assert harness.settle(bind, Refused(0, "NotLeader")) == []
    assert harness.queue_state("p") is QueueState.BACKOFF
    assert free(harness) == 4000


@pytest.mark.parametrize("then", [Applied(), CONFLICT], ids=["applied", "refused"])
def test_in_doubt_the_reservation_holds_until_the_outcome_is_known(
    harness: EngineHarness, then: Outcome
) -> None:
    bind = bind_is_out(harness)
    harness.observe(a_pod("q").needs(cpu=3))

    harness.settle(bind, Ambiguous("time-out"))
    harness.settle(bind, Ambiguous("time-out"))
    harness.advance_to(200)
    assert harness.phase("p") is Phase.UNKNOWN
    assert free(harness) == 1000
    assert placements(harness.effects) == [("p", "n1")]

    said = harness.settle(bind, then)
    if isinstance(then, Applied):
        assert event_notes(said) == SCHEDULED
        assert free(harness) == 1000
    else:
        assert placements(said) == [("q", "n1")]
        assert harness.queue_state("p") is QueueState.BACKOFF


def test_a_late_outcome_of_an_earlier_binding_does_not_end_the_newer_one(
    harness: EngineHarness,
) -> None:
    """A list from the past lacks the pod and the next shows it again: the same uid starts over."""
    first = bind_is_out(harness)
    harness.observe_deleted(POD)
    harness.observe(a_node("n1").cordoned(), a_node("n2"), POD)
    harness.run()
    second = harness.binding("p")
    assert second.node == "n2"

    harness.settle(first)
    assert harness.phase("p") is Phase.BINDING

    harness.observe(POD.on("n1"))
    assert harness.settle(second, Refused(409, "AlreadyBound")) == []
    assert harness.node_of(POD) == "n1"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_takes_no_room(harness: EngineHarness, phase: str) -> None:
    harness.observe(NODE, a_pod("old").needs(cpu=3).on("n1"), POD)
    harness.run()
    harness.observe(a_pod("old").needs(cpu=3).on("n1").in_phase(phase))

    assert placements(harness.advance_to(1)) == [("p", "n1")]


def test_a_pod_that_ends_before_the_outcome_comes_is_over(harness: EngineHarness) -> None:
    bind = bind_is_out(harness)
    harness.observe(POD.on("n1").in_phase("Succeeded"))

    harness.settle(bind)
    assert harness.engine.pods() == []
    assert free(harness) == 4000


def test_pods_of_other_schedulers_are_counted_but_not_touched(harness: EngineHarness) -> None:
    other = a_pod("other").for_scheduler("default-scheduler").needs(cpu=3)
    harness.observe(NODE, other)
    assert harness.run() == []

    harness.observe(other.on("n1"), POD)
    assert placements(harness.run()) == []
    assert free(harness) == 1000


def test_what_is_ignored_of_its_annotations_is_told_once_and_again_when_it_is_another() -> None:
    harness = EngineHarness(default_profile())
    unknown = "Ignored: arranger.io/placement: {!r} is no plugin of this profile"

    def told() -> list[str]:
        return [
            e.note for e in of_kind(PublishEvent, harness.run()) if e.reason == "InvalidAnnotation"
        ]

    pod = POD.annotated({"arranger.io/placement": "binpack"})
    harness.observe(pod)
    assert told() == [unknown.format("binpack")]
    harness.observe(pod.labelled(more="yes"))
    assert told() == []
    harness.observe(pod.annotated(note="of no interest"))
    assert told() == []
    harness.observe(pod.annotated({"arranger.io/placement": "bin-pack"}))
    assert told() == [unknown.format("bin-pack")]
    harness.observe(pod.annotated({"arranger.io/placement": "BinPack"}))
    assert told() == []


HOURS = "Ignored: arranger.io/max-run-time: "


@pytest.mark.parametrize("on_node", ["by us", "before we came", "is being bound"])
def test_an_edit_that_cannot_be_read_is_told_of_a_pod_that_has_its_node(on_node: str) -> None:
    harness = EngineHarness(default_profile())
    limit = "arranger.io/max-run-time"
    pod = POD.annotated({limit: "1h"})
    harness.observe(NODE, pod.on("n1") if on_node == "before we came" else pod)
    effects = harness.run()
    if on_node == "by us":
        harness.settle_all(effects)
    if on_node != "is being bound":
        pod = pod.on("n1")
    told: list[list[str]] = []
    for text in ("1h", "2 hours", "2 hours", "never", "2h"):
        harness.observe(pod.annotated({limit: text}).labelled(seen=str(len(told))))
        said = of_kind(PublishEvent, harness.run())
        told.append([e.note[: len(HOURS)] for e in said if e.reason == "InvalidAnnotation"])
        harness.engine.check_consistent()
    assert told == [[], [HOURS], [], [HOURS], []]


def test_pods_of_others_and_those_that_leave_are_told_nothing_of_their_annotations() -> None:
    harness = EngineHarness(default_profile())
    unread = {"arranger.io/max-run-time": "2 hours"}
    theirs, leaving = a_pod("theirs").on("n1").for_scheduler("other"), a_pod("leaving").on("n1")
    harness.observe(NODE, theirs, leaving)
    harness.run()
    harness.observe(theirs.annotated(unread), leaving.annotated(unread).deleting())
    said = of_kind(PublishEvent, harness.run())
    assert not [event for event in said if event.reason == "InvalidAnnotation"]
    harness.engine.check_consistent()
