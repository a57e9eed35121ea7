"""What happened while an entity was in flight, of which it is asked when it has been refused."""

from __future__ import annotations

import pytest

from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.queue.hints import HelpQuestions
from arranger.engine.queue.in_flight_events import MAX_KEPT, InFlightEvents
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod

ASK = HelpQuestions()
BIG = ClusterEvent(ActionType.NODE_ADDED, node=a_node().offers(cpu=8).build())
SMALL = ClusterEvent(ActionType.NODE_ADDED, node=a_node().offers(cpu=1).build())
SERVICE = ClusterEvent(ActionType.OTHER, resource="Service")


def has_room(event: ClusterEvent) -> ClusterEvent:
    """What the engine says of a node beside its object."""
    assert event.node is not None
    room = int(event.node.status.allocatable["cpu"])

    def could_fit(pod: PodInfo) -> bool:
        return pod.requests["cpu"] <= 1000 * room

    return ClusterEvent(event.action_type, node=event.node, could_fit=could_fit)


def refused(name: str = "p") -> QueuedEntity:
    """A pod for which no node has room."""
    pod = a_pod(name).needs(cpu=4).info()
    entity = QueuedEntity.from_pod(QueuedPod(pod, default_profile(), 0.0))
    entity.rejected_by = frozenset({"NodeResourcesFit"})
    return entity


#: What happens → whether it may have helped.
CASES: dict[str, tuple[list[ClusterEvent], bool]] = {
    "nothing happened": ([], False),
    "a node came on which it fits": ([has_room(BIG)], True),
    "a node came that is too small": ([has_room(SMALL)], False),
    "a Service came, of which it did not ask": ([SERVICE], False),
    "a node came on which it fits, and then much else": (
        [has_room(BIG), *([SERVICE] * 2 * MAX_KEPT)],
        True,
    ),
    "a small node came so long ago that nothing is known of it": (
        [has_room(SMALL), *([SERVICE] * MAX_KEPT)],
        True,
    ),
    "much happened of which it did not ask": ([SERVICE] * 3 * MAX_KEPT, False),
}


@pytest.mark.parametrize(("events", "expected"), CASES.values(), ids=CASES)
def test_it_may_have_been_helped_if(events: list[ClusterEvent], expected: bool) -> None:
    known, entity = InFlightEvents(), refused()
    known.begin(entity.key, 0)
    for number, event in enumerate(events, 1):
        known.note(ASK(event), number)
    assert known.missed_help(entity) is expected


def test_what_happened_before_it_was_in_flight_does_not_count() -> None:
    known, first, second = InFlightEvents(), refused("a"), refused("b")
    known.begin(first.key, 0)
    for number in range(1, 2 * MAX_KEPT):
        known.note(ASK(has_room(BIG)), number)
    known.begin(second.key, 2 * MAX_KEPT - 1)
    known.begin(first.key, 2 * MAX_KEPT - 1)  # another step
    assert (known.missed_help(first), known.missed_help(second)) == (True, False)


def test_nothing_is_kept_when_nobody_is_in_flight_any_more() -> None:
    known, entity = InFlightEvents(), refused()
    known.note(ASK(has_room(BIG)), 1)
    assert not known
    known.begin(entity.key, 1)
    for number in range(2, 2 * MAX_KEPT):
        known.note(ASK(has_room(BIG)), number)
    known.end(entity)
    assert (known._kept, known._types) == (type(known._kept)(), {})
    known.begin(entity.key, 2 * MAX_KEPT)
    assert not known.missed_help(entity)
