"""What a gang keeps while it is incomplete, and what makes it give that back or go."""

from __future__ import annotations

import pytest

from arranger.api.effects import AnnotatePod, Bind, PatchPodStatus
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import QueueState
from arranger.engine.gang.policy import GangPolicy
from arranger.engine.phases import Phase
from arranger.framework.cluster_event import ActionType, QueueingHint
from arranger.framework.interface import Plugin, Wait
from arranger.framework.status import CycleState, Status
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, PodGroupBuilder, a_node, a_pod, a_pod_group
from tests.unit.engine.harness import (
    CONFLICT,
    EngineHarness,
    conditions,
    of_kind,
    placements,
    small_profile,
)
from tests.unit.engine.stateful.gang_model import gang_object


def gang(name: str, size: int, least: int | None = None, **more: str) -> list[PodBuilder]:
    """Pods ``name-0`` … of one CPU each."""
    return [
        a_pod(f"{name}-{n}").needs(cpu=1).in_gang(name, size if least is None else least, **more)
        for n in range(size)
    ]


def nodes(*cpus: int) -> list[NodeBuilder]:
    return [a_node(f"n{n}").offers(cpu=cpu) for n, cpu in enumerate(cpus)]


def bound(harness: EngineHarness) -> set[str]:
    return {name for name, _ in placements(harness.effects)}


class Doors(Plugin):
    """Makes the pods of some names wait, and refuses those of others."""

    queueing_hints = (QueueingHint(ActionType.NODE_ADDED),)

    def __init__(self, *shut: str) -> None:
        self.shut = set(shut)
        self.refused: set[str] = set()

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status | Wait | None:
        name = pod.pod.metadata.name
        if name in self.refused:
            return self.reject("not you")
        return Wait(30.0) if name in self.shut else None


@pytest.fixture
def harness() -> EngineHarness:
    return EngineHarness(default_profile())


# --- after a restart, and with other schedulers ----------------------------------------------


def test_a_bound_member_may_be_listed_after_those_that_wait_for_it(harness: EngineHarness) -> None:
    one, two, three = gang("g", 3)
    harness.observe(*nodes(3), one, two)
    harness.run()
    assert harness.queue_state("g-0") is QueueState.GATED
    harness.observe(three.on("n0"))
    harness.run()
    assert bound(harness) == {"g-0", "g-1"}


def test_another_scheduler_may_bind_the_member_that_the_others_hold_nodes_for(
    harness: EngineHarness,
) -> None:
    one, two, foreign = gang("g", 3, mode="NonStrict")
    foreign = foreign.for_scheduler("another").needs(cpu=9)
    harness.observe(*nodes(2), one, two, foreign)
    harness.run()
    assert bound(harness) == set()
    harness.observe(foreign.on("elsewhere"))
    harness.run()
    assert bound(harness) == {"g-0", "g-1"}


def test_a_bound_member_that_is_lost_keeps_the_others_back(harness: EngineHarness) -> None:
    one, two = gang("g", 2)
    harness.observe(*nodes(1), one.on("n0"), two)
    harness.run()
    harness.observe_deleted(one)
    assert harness.queue_state("g-1") is QueueState.GATED
    harness.run()
    assert bound(harness) == set()


def test_old_news_of_a_member_we_have_bound_does_not_make_the_gang_incomplete(
    harness: EngineHarness,
) -> None:
    one, two = gang("g", 2)
    harness.observe(*nodes(2), one, two)
    first, second = of_kind(Bind, harness.run())
    harness.settle(first)
    harness.observe(one.labelled(older="news"))
    harness.settle(second)
    assert harness.engine.registry.gangs["default/g"].satisfied


def bundles() -> tuple[PodBuilder, list[PodBuilder]]:
    """A parameter server and its workers, of which three are a gang."""
    server = a_pod("ps").needs(cpu=1).in_bundle("job", "ps", 1)
    return server, [a_pod(f"w-{n}").needs(cpu=1).in_bundle("job", "worker", 2) for n in range(2)]


def test_a_bundle_whose_only_pod_has_gone_is_waited_for(harness: EngineHarness) -> None:
    server, workers = bundles()
    harness.observe(*nodes(2), server, *workers)
    harness.run()
    harness.observe_deleted(server)
    harness.advance_to(10)
    assert bound(harness) == set()
    message = "gang default/job waits for members: ps 0 of 1 arrived, worker 2 of 2 arrived"
    assert conditions(harness.effects)[-1][1] == message
    harness.observe(*nodes(3), server.with_uid("another"))
    harness.advance_to(20)
    assert bound(harness) == {"ps", "w-0", "w-1"}


def test_after_a_restart_its_gang_object_tells_of_it(harness: EngineHarness) -> None:
    server, workers = bundles()
    harness.engine.handlers.on_gang_updated(
        gang_object("default/job", {"ps": 1, "worker": 2}), harness.now
    )
    harness.observe(*nodes(3), *workers)
    harness.run()
    assert bound(harness) == set()
    harness.engine.handlers.on_gang_updated(gang_object("default/job", {"master": 1}), harness.now)
    harness.observe(server)
    harness.run()
    assert bound(harness) == {"ps", "w-0", "w-1"}, "later the object is only an echo"


# --- Permit ----------------------------------------------------------------------------------


def test_who_completes_a_gang_does_not_bind_those_that_wait_at_permit() -> None:
    doors = Doors("g-0")
    harness = EngineHarness(small_profile(doors))
    harness.observe(*nodes(1), *gang("g", 2, mode="NonStrict"))
    harness.run()
    harness.now = 20
    harness.observe(a_node("n9").offers(cpu=1))
    harness.run()
    assert harness.phase("g-0") is harness.phase("g-1") is Phase.WAITING
    assert bound(harness) == set()
    doors.shut.clear()
    harness.observe(a_node("event"))
    harness.run()
    assert bound(harness) == {"g-0", "g-1"}


def test_a_gang_does_not_wait_for_surplus_that_waits_at_permit() -> None:
    doors = Doors("g-2")
    harness = EngineHarness(small_profile(doors))
    harness.observe(*nodes(3), *gang("g", 3, 2))
    harness.run()
    assert bound(harness) == {"g-0", "g-1"}
    assert harness.phase("g-2") is Phase.WAITING
    doors.refused.add("g-2")
    harness.observe(a_node("event").offers(cpu=0))
    harness.run()
    assert harness.phase("g-2") is Phase.QUEUED
    assert harness.phase("g-0") is Phase.BINDING


def test_a_strict_gang_gives_its_nodes_back_when_a_member_is_deleted_at_permit() -> None:
    harness = EngineHarness(small_profile(Doors("g-0", "g-1")))
    pods = gang("g", 2)
    harness.observe(*nodes(2), *pods)
    harness.run()
    harness.observe_deleted(pods[0])
    assert len(harness.engine.cluster) == 0
    assert harness.queue_state("g-1") is QueueState.GATED


def test_it_keeps_them_when_it_has_enough_without_the_member() -> None:
    harness = EngineHarness(small_profile(Doors("g-0", "g-1", "g-2")))
    pods = gang("g", 3, 2)
    harness.observe(*nodes(3), *pods)
    harness.run()
    harness.observe_deleted(pods[0])
    assert harness.phase("g-1") is harness.phase("g-2") is Phase.WAITING


def test_it_gives_them_back_when_a_bound_member_is_lost_on_which_it_counted() -> None:
    harness = EngineHarness(small_profile(Doors("g-1")))
    pods = gang("g", 2)
    harness.observe(*nodes(2), pods[0].on("n0"), pods[1])
    harness.run()
    assert harness.phase("g-1") is Phase.WAITING
    harness.observe_deleted(pods[0])
    assert len(harness.engine.cluster) == 0
    assert harness.queue_state("g-1") is QueueState.GATED


# --- nodes that are lost ---------------------------------------------------------------------


def test_no_gang_is_bound_in_part_because_the_node_of_a_held_member_is_gone(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("lost").offers(cpu=1), *gang("g", 2, mode="NonStrict"))
    harness.run()
    assert harness.phase("g-0") is Phase.WAITING
    harness.observe_deleted(a_node("lost"))
    harness.now = 20
    harness.observe(a_node("small").offers(cpu=1))
    harness.run()
    assert bound(harness) == set()
    harness.observe(a_node("large").offers(cpu=1))
    harness.advance_to(40)
    assert bound(harness) == {"g-0", "g-1"}


def test_nor_when_a_permit_plugin_lets_the_last_member_go() -> None:
    doors = Doors("g-1")
    harness = EngineHarness(small_profile(doors))
    harness.observe(a_node("lost").offers(cpu=1), *nodes(1), *gang("g", 2))
    harness.run()
    assert harness.phase("g-0") is harness.phase("g-1") is Phase.WAITING
    doors.shut.clear()
    harness.observe_deleted(a_node("lost"))
    harness.run()
    assert bound(harness) == set()
    assert len(harness.engine.cluster) == 0


# --- members that move -----------------------------------------------------------------------


def test_a_held_member_may_say_that_it_is_in_another_gang(harness: EngineHarness) -> None:
    harness.observe(*nodes(1), *gang("g", 2, mode="NonStrict"), *gang("h", 1, 2, mode="NonStrict"))
    harness.run()
    assert harness.phase("g-0") is Phase.WAITING
    harness.observe(a_pod("g-0").needs(cpu=1).in_gang("h", 2, mode="NonStrict"))
    assert harness.phase("g-0") is Phase.QUEUED
    harness.observe(a_node("n9").offers(cpu=4))
    harness.advance_to(30)
    assert bound(harness) == {"g-0", "h-0"}


def test_those_that_a_held_member_leaves_behind_are_put_back_once() -> None:
    both = '["default/a", "default/b"]'
    harness = EngineHarness(small_profile(Doors("a-0")))
    leaving, *others = gang("a", 2, groups=both)
    harness.observe(*nodes(9), leaving, *others, *gang("b", 2, groups=both))
    harness.run()
    assert harness.phase("a-1") is Phase.WAITING
    harness.observe(leaving.in_gang("elsewhere", 1, groups=both))
    harness.run()
    assert {harness.queue_state(name) for name in ("a-1", "b-0", "b-1")} == {QueueState.GATED}
    assert len(harness.engine.cluster) == 0


def test_a_held_member_may_leave_for_no_gang(harness: EngineHarness) -> None:
    harness.observe(*nodes(1), *gang("g", 2, mode="NonStrict"))
    harness.run()
    harness.observe(a_pod("g-0").needs(cpu=1))
    harness.advance_to(30)
    assert bound(harness) == {"g-0"}


# --- what those are told that hold nodes -----------------------------------------------------


def test_who_holds_a_node_is_told_what_the_others_lack(harness: EngineHarness) -> None:
    harness.observe(*nodes(2), *gang("g", 3, mode="NonStrict"))
    harness.run()
    harness.advance_to(3)
    why = "0/1 nodes are available: 1 Insufficient cpu. gang default/g: 3 of 3 arrived, "
    why += "2 placeable now, blocked by pod default/g-2."
    assert told(harness) == {"g-0": why, "g-1": why, "g-2": why}
    assert {harness.phase(name) for name in ("g-0", "g-1")} == {Phase.WAITING}


def test_they_are_told_when_the_others_are_gone(harness: EngineHarness) -> None:
    *held, last = gang("g", 3, mode="NonStrict")
    harness.observe(*nodes(2), *held, last)
    harness.advance_to(3)
    harness.observe_deleted(last)
    harness.advance_to(6)
    why = "gang default/g waits for members: 2 of 3 arrived"
    assert {told(harness)[name] for name in ("g-0", "g-1")} == {why}


def test_who_waits_at_permit_is_not_told_by_the_gang() -> None:
    harness = EngineHarness(small_profile(Doors("g-0")))
    harness.observe(*nodes(2), *gang("g", 2))
    harness.advance_to(3)
    harness.advance_to(6)
    assert "g-0" not in told(harness)


def told(harness: EngineHarness) -> dict[str, str]:
    """Pod → what its condition says last."""
    patches = of_kind(PatchPodStatus, harness.effects)
    return {patch.pod.name: patch.condition.message for patch in patches if patch.condition}


# --- edits while nodes are held --------------------------------------------------------------


def group(least: int, **spec: object) -> PodGroupBuilder:
    notes = {"gang.scheduling.koordinator.sh/mode": "NonStrict"}
    return a_pod_group("g", least=least, **spec).annotated(notes)


#: What is edited after 100 s of a hold of 600 s, and when the nodes are given back.
EDITS: dict[str, tuple[PodGroupBuilder, float]] = {
    "nothing that matters": (group(3).annotated({"team": "blue"}), 600),
    "a higher minimum": (group(4), 600),
    "a longer wait, from the beginning": (group(3, scheduleTimeoutSeconds=900), 900),
    "a shorter wait, from the beginning": (group(3, scheduleTimeoutSeconds=200), 200),
    "a wait that is over already": (group(3, scheduleTimeoutSeconds=50), 100),
    "another match policy": (
        group(3).annotated({"gang.scheduling.koordinator.sh/match-policy": "only-waiting"}),
        600,
    ),
    "a domain to stay inside": (group(3).annotated({"arranger.io/topology": "required=zone"}), 100),
    "a partner": (
        group(3).annotated({"gang.scheduling.koordinator.sh/groups": '["default/g", "default/h"]'}),
        100,
    ),
    "Strict": (a_pod_group("g", least=3), 100),
}


@pytest.mark.parametrize("case", EDITS.values(), ids=EDITS.keys())
def test_an_edit_leaves_the_clock_of_what_is_held(
    case: tuple[PodGroupBuilder, float], harness: EngineHarness
) -> None:
    edited, ends = case
    pods = [a_pod(f"g-{n}").needs(cpu=1).in_pod_group("g") for n in range(3)]
    harness.observe(*nodes(2), group(3), *pods)
    harness.run()
    harness.advance_to(100)
    released = Released(harness)
    harness.observe(edited)
    harness.run()
    for now in (100.1, 199.9, 200.1, 599.9, 600.1, 899.9, 900.1):
        if released.since is None:
            harness.advance_to(now)
            released.look()
    assert released.since == pytest.approx(ends, abs=0.11)


class Released:
    """Notes when the gang's nodes are given back, even for a moment."""

    def __init__(self, harness: EngineHarness) -> None:
        self.harness = harness
        self.holds = list(harness.engine._gangs._holds)
        self.since: float | None = None
        assert len(harness.engine.cluster) == 2

    def look(self) -> None:
        if (
            list(self.harness.engine._gangs._holds) != self.holds
            or len(self.harness.engine.cluster) != 2
        ):
            self.since = self.harness.now


def test_a_lower_minimum_lets_those_go_that_are_held(harness: EngineHarness) -> None:
    pods = [a_pod(f"g-{n}").needs(cpu=1).in_pod_group("g") for n in range(3)]
    harness.observe(*nodes(2), group(3), *pods)
    harness.run()
    harness.observe(group(2))
    harness.run()
    assert len(bound(harness)) == 2


# --- time ------------------------------------------------------------------------------------


def test_a_gang_that_holds_nothing_any_more_does_not_run_out_of_time(
    harness: EngineHarness,
) -> None:
    pods = gang("g", 3, 2)
    harness.observe(*nodes(1), pods[0].on("n0"), *pods[1:])
    harness.run()
    assert harness.engine.next_timer() is not None
    harness.observe_deleted(pods[0])
    harness.observe(a_pod("other").needs(cpu=1).on("n0"))
    assert of_kind(AnnotatePod, harness.advance_to(1000)) == []
    harness.observe(*nodes(3))
    harness.advance_to(2000)
    assert bound(harness) == {"g-1", "g-2"}


def test_patience_is_that_of_the_least_patient_gang_of_the_group() -> None:
    harness = EngineHarness(default_profile(), gangs=GangPolicy(wait_time=100))
    both = '["default/a", "default/b"]'
    patient = gang("a", 1, mode="NonStrict", groups=both, waiting_time="1h")
    harness.observe(*nodes(1), *patient, *gang("b", 1, mode="NonStrict", groups=both))
    harness.run()
    assert of_kind(AnnotatePod, harness.advance_to(99)) == []
    assert {mark.pod.name for mark in of_kind(AnnotatePod, harness.advance_to(100))} == {
        "a-0",
        "b-0",
    }


def test_a_group_is_tried_again_when_the_last_mark_is_taken_off_a_member_that_is_bound(
    harness: EngineHarness,
) -> None:
    both = '["default/a", "default/b"]'
    (one,) = gang("a", 1, mode="NonStrict", groups=both)
    (two,) = gang("b", 1, mode="NonStrict", groups=both)
    mark = {"gang.scheduling.koordinator.sh/timeout": "true"}
    harness.observe(*nodes(1), one, two)
    harness.run()
    harness.advance_to(600)
    harness.observe(one.annotated(mark), two.annotated(mark))
    harness.observe(two.annotated(mark).on("elsewhere"), one)
    assert bound(harness) == set()
    harness.observe(two.on("elsewhere"))
    harness.advance_to(700)
    assert bound(harness) == {"a-0"}


# --- those that PreEnqueue holds back --------------------------------------------------------


def test_a_gated_member_beyond_the_minimum_is_not_said_to_lack_room(harness: EngineHarness) -> None:
    gated = a_pod("late").needs(cpu=1).in_gang("g", 2).gated("example.com/quota")
    harness.observe(*nodes(4), *gang("g", 2), gated)
    harness.run()
    harness.advance_to(10)
    assert of_kind(PatchPodStatus, harness.effects) == [], "the API server has said SchedulingGated"
    assert harness.queue_state("late") is QueueState.GATED


def test_while_members_are_missing_only_those_are_told_that_could_be_placed(
    harness: EngineHarness,
) -> None:
    gated = a_pod("late").needs(cpu=1).in_gang("g", 3).gated("example.com/quota")
    harness.observe(*nodes(4), *gang("g", 1, 3), gated)
    harness.run()
    harness.advance_to(10)
    (told,) = of_kind(PatchPodStatus, harness.effects)
    assert told.pod.name == "g-0"
    assert told.condition is not None
    assert told.condition.message == "gang default/g waits for members: 1 of 3 arrived"


# --- Bindings that cannot begin --------------------------------------------------------------


class Broken(Plugin):
    """Raises for the first pod it is to prepare."""

    raised = False

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        if not self.raised:
            self.raised = True
            raise RuntimeError("no disk")


def test_a_member_whose_preparation_breaks_is_tried_again_after_its_back_off() -> None:
    harness = EngineHarness(small_profile(Broken()))
    harness.observe(*nodes(3), *gang("g", 3))
    harness.run()
    assert len(bound(harness)) == 2
    harness.advance_to(1.0)
    assert len(bound(harness)) == 3


class Refuses(Plugin):
    """Prepares nothing for the pods of some names."""

    queueing_hints = (QueueingHint(ActionType.NODE_ADDED),)

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return self.reject("not you") if pod.pod.metadata.name in self.names else None


def test_members_that_fail_one_after_the_other_wait_for_each_other_again() -> None:
    refuses = Refuses("g-1", "g-2")
    harness = EngineHarness(small_profile(refuses))
    harness.observe(*nodes(3), *gang("g", 3, 2, match_policy="waiting-and-running"))
    (first,) = of_kind(Bind, harness.run())
    harness.settle(first, CONFLICT)
    assert harness.entity("g-1") is harness.entity("g-2") is harness.entity("g-0")
