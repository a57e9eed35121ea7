"""What may still go wrong between the choice of a node and its Binding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from arranger.api.effects import (
    Ambiguous,
    Applied,
    Bind,
    Effect,
    ObjectKey,
    PatchPodStatus,
    Refused,
)
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.framework.cluster_event import ActionType, QueueingHint
from arranger.framework.interface import Plugin, SpecOnlyPlugin, Wait
from arranger.framework.status import CycleState, Status
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import (
    EngineHarness,
    conditions,
    event_notes,
    of_kind,
    placements,
    small_profile,
)

MakeCore = Callable[..., EngineHarness]
POD = a_pod("p").needs(cpu=3)


class Door(Plugin):
    """A Permit plugin in the test's hand."""

    queueing_hints = (QueueingHint(ActionType.NODE_REMOVED),)
    answer: Status | Wait | None = Wait(60)
    asked = 0

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status | Wait | None:
        self.asked += 1
        return self.answer if pod.pod.metadata.name == "p" else None


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def waiting(make_harness: MakeCore, door: Door) -> EngineHarness:
    """A core in which ``p`` waits at the door with a reservation on n1."""
    harness = make_harness(small_profile(door))
    harness.observe(a_node("n1"), POD)
    assert harness.run() == []
    assert harness.phase("p") is Phase.WAITING
    assert harness.node_of(POD) == "n1"
    return harness


def test_the_reservation_of_a_waiting_pod_holds(waiting: EngineHarness) -> None:
    waiting.observe(a_pod("q").needs(cpu=3))

    assert placements(waiting.run()) == []
    assert waiting.engine.next_timer() == 60


def test_a_waiting_pod_goes_when_permit_changes_its_mind(
    waiting: EngineHarness, door: Door
) -> None:
    door.answer = None
    waiting.observe(a_node("n2"))

    assert waiting.engine.ready
    assert placements(waiting.run()) == [("p", "n1")]
    assert waiting.engine.next_timer() is None


def test_nothing_polls_a_waiting_pod(waiting: EngineHarness, door: Door) -> None:
    before = door.asked
    waiting.advance_to(59)

    assert door.asked == before
    assert not waiting.engine.ready


@pytest.mark.parametrize("how", ["refused", "timed out"])
def test_a_waiting_pod_that_is_not_let_through_frees_its_node(
    waiting: EngineHarness, door: Door, how: str
) -> None:
    waiting.observe(a_pod("q").needs(cpu=3))
    waiting.run()
    waiting.now = 20
    if how == "refused":
        door.answer = door.reject("the door is shut")
        waiting.observe(a_node("n2").offers(cpu=1))
        text = "0/1 nodes are available: 1 the door is shut."
        said = waiting.run()
    else:
        text = (
            "0/1 nodes are available: 1 rejected due to timeout after waiting 60s at plugin Door."
        )
        said = waiting.advance_to(60)

    assert event_notes(said) == [("FailedScheduling", text)]
    assert conditions(said) == [("Unschedulable", text)]
    assert placements(said) == [("q", "n1")]
    assert waiting.queue_state("p") is QueueState.UNSCHEDULABLE, "its own leaving must not wake it"
    waiting.observe_deleted(a_node("n2"))
    waiting.observe(a_node("n3"))


def test_a_pod_refused_at_the_door_is_woken_by_what_the_door_asks_for(
    waiting: EngineHarness, door: Door
) -> None:
    waiting.observe(a_node("n2"))
    waiting.advance_to(60)
    door.answer = None
    waiting.now = 90
    waiting.observe(a_pod("x").on("n1"))
    assert waiting.run() == []
    waiting.observe_deleted(a_node("n2"))

    assert placements(waiting.run()) == [("p", "n1")]


def test_a_waiting_pod_that_is_deleted_frees_its_node(waiting: EngineHarness) -> None:
    waiting.observe(a_pod("q").needs(cpu=3))
    waiting.run()
    waiting.observe(POD.deleting())

    assert placements(waiting.advance_to(1)) == [("q", "n1")]
    assert waiting.engine.next_timer() is None


def test_a_waiting_pod_bound_by_others_is_theirs(waiting: EngineHarness) -> None:
    waiting.observe(POD.on("n1"))

    assert waiting.advance_to(60) == []
    assert waiting.engine.pods() == []
    assert waiting.node_of(POD) == "n1"


def test_a_waiting_pod_whose_node_is_deleted_looks_for_another(
    waiting: EngineHarness, door: Door
) -> None:
    door.answer = None
    waiting.observe_deleted(a_node("n1"))
    waiting.observe(a_node("n2"))

    assert event_notes(waiting.run()) == [("FailedScheduling", 'node "n1" not found')]
    assert placements(waiting.advance_to(1)) == [("p", "n2")]


def test_the_shortest_patience_counts(make_harness: MakeCore) -> None:
    class Impatient(Door):
        answer = Wait(5)

    harness = make_harness(small_profile(Door(), Impatient()))
    harness.observe(a_node("n1"), POD)
    harness.run()

    assert event_notes(harness.advance_to(5)) == [
        (
            "FailedScheduling",
            "0/1 nodes are available: 1 rejected due to timeout after waiting 5s"
            " at plugin Impatient.",
        )
    ]


# --- Reserve ---------------------------------------------------------------------------------


class Ledger(SpecOnlyPlugin):
    """Writes down what it is told, and refuses when asked to."""

    def __init__(self, name: str, book: list[str], *, refuses: bool = False) -> None:
        type(self).name = name
        self._book = book
        self._refuses = refuses

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        self._book.append(f"{self.name} reserves {node}")
        return self.reject(f"{self.name} says no") if self._refuses else None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        self._book.append(f"{self.name} lets {node} go")


def ledgers(*, last_refuses: bool = False) -> tuple[list[Plugin], list[str]]:
    """Two of them, and their common book."""
    book: list[str] = []

    class First(Ledger):
        pass

    class Second(Ledger):
        pass

    return [First("First", book), Second("Second", book, refuses=last_refuses)], book


def test_a_refused_reservation_is_rolled_back_in_reverse_order(make_harness: MakeCore) -> None:
    plugins, book = ledgers(last_refuses=True)
    harness = make_harness(small_profile(*plugins))
    harness.observe(a_node("n1"), POD)
    said = harness.run()

    assert book == [
        "First reserves n1",
        "Second reserves n1",
        "Second lets n1 go",
        "First lets n1 go",
    ]
    assert event_notes(said) == [
        ("FailedScheduling", "0/1 nodes are available: 1 Second says no."),
    ]
    assert harness.node_of(POD) is None
    assert harness.queue_state("p") is QueueState.UNSCHEDULABLE


@pytest.mark.parametrize(
    "ending", ["the Binding is refused", "the pod is deleted", "others bind it elsewhere"]
)
def test_plugins_hear_that_a_reservation_has_ended(make_harness: MakeCore, ending: str) -> None:
    plugins, book = ledgers()
    harness = make_harness(small_profile(*plugins))
    harness.observe(a_node("n1"), POD)
    harness.run()
    del book[:]
    match ending:
        case "the Binding is refused":
            harness.settle(harness.binding("p"), Refused(409, "Conflict"))
        case "the pod is deleted":
            harness.observe_deleted(POD)
        case _:
            harness.observe(a_node("n2"), POD.on("n2"))

    assert book == ["Second lets n1 go", "First lets n1 go"]


def test_a_bound_pod_keeps_its_reservation(make_harness: MakeCore) -> None:
    plugins, book = ledgers()
    harness = make_harness(small_profile(*plugins))
    harness.observe(a_node("n1"), POD)
    harness.run()
    harness.settle(harness.binding("p"))
    harness.observe(POD.on("n1"))

    assert book == ["First reserves n1", "Second reserves n1"]


# --- PreBind ---------------------------------------------------------------------------------


class Prepares(SpecOnlyPlugin):
    """Wants two patches applied before a pod binds, or refuses."""

    refuses = False

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node: str
    ) -> Sequence[Effect] | Status | None:
        if self.refuses:
            return self.reject("not prepared")
        meta = pod.pod.metadata
        ref = ObjectKey(meta.namespace, meta.name, meta.uid)
        return [PatchPodStatus(ref, nominated_node=node) for _ in range(2)]


@pytest.fixture
def preparing(make_harness: MakeCore) -> EngineHarness:
    """A core in which both preparations for ``p`` are on their way."""
    harness = make_harness(small_profile(Prepares()))
    harness.observe(a_node("n1"), POD)
    harness.run()
    assert len(of_kind(PatchPodStatus, harness.effects)) == 2
    assert all(harness.engine.awaits(effect) for effect in harness.effects)
    return harness


def test_every_preparation_is_applied_before_the_binding_is_posted(
    preparing: EngineHarness,
) -> None:
    first, second = of_kind(PatchPodStatus, preparing.effects)

    assert preparing.settle(second) == []
    assert preparing.settle(first, Ambiguous("time-out")) == []
    assert placements(preparing.settle(first, Applied())) == [("p", "n1")]


def test_a_refused_preparation_rolls_back_and_the_other_is_ignored(
    preparing: EngineHarness,
) -> None:
    first, second = of_kind(PatchPodStatus, preparing.effects)
    said = preparing.settle(first, Refused(422, "Invalid", "no such field"))

    assert event_notes(said) == [("FailedScheduling", "preparing to bind: no such field")]
    assert preparing.node_of(POD) is None
    assert preparing.settle(second) == []
    assert preparing.queue_state("p") is QueueState.BACKOFF
    assert len(of_kind(PatchPodStatus, preparing.advance_to(1))) == 2


def test_a_pod_deleted_while_being_prepared_is_not_bound(preparing: EngineHarness) -> None:
    preparing.observe_deleted(POD)
    for effect in of_kind(PatchPodStatus, preparing.effects):
        preparing.settle(effect)

    assert of_kind(Bind, preparing.effects) == []


def test_a_node_deleted_while_being_prepared_is_not_bound_to(preparing: EngineHarness) -> None:
    preparing.observe_deleted(a_node("n1"))
    said = [e for patch in list(preparing.effects) for e in preparing.settle(patch)]

    assert event_notes(said) == [("FailedScheduling", 'node "n1" not found')]
    assert placements(preparing.effects) == []


def test_a_plugin_that_refuses_to_prepare_leaves_the_pod_unschedulable(
    make_harness: MakeCore,
) -> None:
    plugin = Prepares()
    plugin.refuses = True
    harness = make_harness(small_profile(plugin))
    harness.observe(a_node("n1"), POD)

    assert conditions(harness.run()) == [
        ("Unschedulable", "0/1 nodes are available: 1 not prepared."),
    ]
    assert harness.queue_state("p") is QueueState.UNSCHEDULABLE
    assert harness.node_of(POD) is None
