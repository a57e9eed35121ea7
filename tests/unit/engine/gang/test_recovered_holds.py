"""What an incomplete gang held when a scheduler ended is held by the next one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from arranger.api.effects import AnnotatePod
from arranger.api.extenders import Extender
from arranger.engine.context.phases import Phase
from arranger.engine.gang.state.holds import RESTART_GRACE
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.unit.engine.gang.test_holds import bound, gang, nodes
from tests.unit.engine.harness import EngineHarness, of_kind

#: When the wait time began; the scheduler starts a minute later. A gang waits for 600 seconds.
SINCE, START = 1_000, 1_060.0


def a_start(*shown: NodeBuilder | PodBuilder, at: float = START) -> EngineHarness:
    """A scheduler that has just started, and has tried nothing; the Gang is ``default/g``."""
    harness = EngineHarness(default_profile())
    harness.now = at
    record(harness)
    harness.observe(*shown)
    harness.start()
    harness.engine.check_consistent()
    return harness


def record(harness: EngineHarness) -> None:
    """The Gang says since when its group waits."""
    stamp = datetime.fromtimestamp(SINCE, UTC).isoformat()
    gang_object = harness.gang_server.create("default/g", status={"waitingSince": stamp})
    harness.engine.handlers.on_gang_updated(gang_object, harness.now)


def half_held(**more: str) -> list[PodBuilder]:
    """Three of four members that a NonStrict gang needs; the first has a node."""
    first, *others = gang("g", 3, 4, **{"mode": "NonStrict", **more})
    return [first.nominated_to("n0"), *others]


def held(harness: EngineHarness) -> list[str]:
    return sorted(name for name in ("g-0", "g-1", "g-2") if harness.phase(name) is Phase.WAITING)


def test_members_keep_the_nodes_that_they_held_though_another_goes_before_them() -> None:
    vip = a_pod("vip").needs(cpu=1).with_priority(9).annotated({"volcano.sh/preemptable": "false"})
    harness = a_start(*nodes(1), *half_held(), vip)
    assert held(harness) == ["g-0"], "at the start, and not with its turn"


def test_the_wait_time_goes_on_from_its_beginning() -> None:
    harness = a_start(*nodes(1), *half_held())
    assert of_kind(AnnotatePod, harness.advance_to(SINCE + 599)) == []
    assert of_kind(AnnotatePod, harness.advance_to(SINCE + 600)) != []


def test_nothing_is_written_about_a_hold_that_goes_on() -> None:
    harness = a_start(*nodes(1), *half_held())
    harness.advance_to(START + 60)
    assert harness.settle_gangs() == []


def test_a_wait_time_that_ended_meanwhile_ends_when_the_gang_has_been_tried() -> None:
    late = SINCE + 5_000.0
    harness = a_start(*nodes(1), *half_held(), at=late)
    harness.run()
    assert held(harness) == ["g-0"]
    assert of_kind(AnnotatePod, harness.advance_to(late + RESTART_GRACE)) != []


def test_a_gang_that_became_complete_meanwhile_is_bound() -> None:
    whole = [*half_held(), a_pod("g-3").needs(cpu=1).in_gang("g", 4, mode="NonStrict")]
    harness = a_start(*nodes(4), *whole, at=SINCE + 5_000.0)
    harness.run()
    assert bound(harness) == {"g-0", "g-1", "g-2", "g-3"}


def test_members_that_are_enough_are_bound_at_the_start() -> None:
    first, *others = gang("g", 3, 1, mode="NonStrict")
    harness = a_start(*nodes(1), first.nominated_to("n0"), *others)
    harness.run()
    assert bound(harness) == {"g-0"}


def test_the_time_of_a_gang_that_is_bound_in_part_goes_on() -> None:
    first, *others = gang("g", 3, waiting_time="5m")
    harness = a_start(*nodes(1), first.on("n0"), *others)
    harness.run()
    (hold,) = harness.engine._gangs._holds
    assert (hold.since, hold.deadline) == (SINCE, SINCE + 300)


#: Why a member is only nominated, or not even that: what there is at the start.
NOT_HELD: dict[str, list[NodeBuilder | PodBuilder]] = {
    "its victims are there still": [
        *nodes(1),
        *half_held(),
        a_pod("victim").needs(cpu=1).on("n0").deleting(),
    ],
    "its node is gone": [a_node("other"), *half_held()],
    "its node is for others now": [
        a_node("n0").tainted("dedicated"),
        *half_held(),
    ],
    "its gang is Strict": [*nodes(1), *half_held(mode="Strict")],
    "its gang has run out of time": [
        *nodes(1),
        *(pod.annotated({"gang.scheduling.koordinator.sh/timeout": "true"}) for pod in half_held()),
    ],
    "its gang must stay in the domain of another member": [
        a_node("n0").in_zone("a"),
        a_node("n1").in_zone("b"),
        a_pod("g-9").needs(cpu=1).in_gang("g", 4, mode="NonStrict").on("n1"),
        *(
            pod.annotated({"arranger.io/topology": "required=topology.kubernetes.io/zone"})
            for pod in half_held()
        ),
    ],
}


@pytest.mark.parametrize("shown", NOT_HELD.values(), ids=NOT_HELD.keys())
def test_a_member_is_not_held_where(shown: list[NodeBuilder | PodBuilder]) -> None:
    assert held(a_start(*shown)) == []


def test_a_nomination_of_another_takes_nothing_from_what_was_held() -> None:
    vip = a_pod("vip").needs(cpu=1).with_priority(9).nominated_to("n0")
    harness = a_start(*nodes(1), vip, *half_held())
    assert held(harness) == ["g-0"]


def test_an_extender_is_asked_again_about_what_it_judges() -> None:
    judge = Extender("http://judge", filter_verb="filter")
    harness = EngineHarness(default_profile(), extenders=[judge])
    harness.now = START
    record(harness)
    harness.observe(*nodes(1), *half_held())
    harness.start()
    assert held(harness) == []


def test_without_a_record_members_are_placed_anew() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(*nodes(1), *half_held())
    harness.start()
    assert held(harness) == []
