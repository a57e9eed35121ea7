"""What a gang keeps while it is incomplete, and what makes it give that back or go."""

from __future__ import annotations

import pytest

from arranger.api.effects import AnnotatePod, Bind, PatchPodStatus
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import QueueState
from arranger.engine.gang.holds import GangPolicy
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


def bound(core: EngineHarness) -> set[str]:
    return {name for name, _ in placements(core.effects)}


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
def core() -> EngineHarness:
    return EngineHarness(default_profile())


# --- after a restart, and with other schedulers ----------------------------------------------


def test_a_bound_member_may_be_listed_after_those_that_wait_for_it(core: EngineHarness) -> None:
    one, two, three = gang("g", 3)
    core.observe(*nodes(3), one, two)
    core.run()
    assert core.queue_state("g-0") is QueueState.GATED
    core.observe(three.on("n0"))
    core.run()
    assert bound(core) == {"g-0", "g-1"}


def test_another_scheduler_may_bind_the_member_that_the_others_hold_nodes_for(
    core: EngineHarness,
) -> None:
    one, two, foreign = gang("g", 3, mode="NonStrict")
    foreign = foreign.for_scheduler("another").needs(cpu=9)
    core.observe(*nodes(2), one, two, foreign)
    core.run()
    assert bound(core) == set()
    core.observe(foreign.on("elsewhere"))
    core.run()
    assert bound(core) == {"g-0", "g-1"}


def test_a_bound_member_that_is_lost_keeps_the_others_back(core: EngineHarness) -> None:
    one, two = gang("g", 2)
    core.observe(*nodes(1), one.on("n0"), two)
    core.run()
    core.observe_deleted(one)
    assert core.queue_state("g-1") is QueueState.GATED
    core.run()
    assert bound(core) == set()


def test_old_news_of_a_member_we_have_bound_does_not_make_the_gang_incomplete(
    core: EngineHarness,
) -> None:
    one, two = gang("g", 2)
    core.observe(*nodes(2), one, two)
    first, second = of_kind(Bind, core.run())
    core.settle(first)
    core.observe(one.labelled(older="news"))
    core.settle(second)
    assert core.engine.registry.gangs["default/g"].satisfied


def bundles() -> tuple[PodBuilder, list[PodBuilder]]:
    """A parameter server and its workers, of which three are a gang."""
    server = a_pod("ps").needs(cpu=1).in_bundle("job", "ps", 1)
    return server, [a_pod(f"w-{n}").needs(cpu=1).in_bundle("job", "worker", 2) for n in range(2)]


def test_a_bundle_whose_only_pod_has_gone_is_waited_for(core: EngineHarness) -> None:
    server, workers = bundles()
    core.observe(*nodes(2), server, *workers)
    core.run()
    core.observe_deleted(server)
    core.advance_to(10)
    assert bound(core) == set()
    message = "gang default/job waits for members: ps 0 of 1 arrived, worker 2 of 2 arrived"
    assert conditions(core.effects)[-1][1] == message
    core.observe(*nodes(3), server.with_uid("another"))
    core.advance_to(20)
    assert bound(core) == {"ps", "w-0", "w-1"}


def test_after_a_restart_its_gang_object_tells_of_it(core: EngineHarness) -> None:
    server, workers = bundles()
    core.engine.on_gang_updated(gang_object("default/job", {"ps": 1, "worker": 2}), core.now)
    core.observe(*nodes(3), *workers)
    core.run()
    assert bound(core) == set()
    core.engine.on_gang_updated(gang_object("default/job", {"master": 1}), core.now)
    core.observe(server)
    core.run()
    assert bound(core) == {"ps", "w-0", "w-1"}, "later the object is only an echo"


# --- Permit ----------------------------------------------------------------------------------


def test_who_completes_a_gang_does_not_bind_those_that_wait_at_permit() -> None:
    doors = Doors("g-0")
    core = EngineHarness(small_profile(doors))
    core.observe(*nodes(1), *gang("g", 2, mode="NonStrict"))
    core.run()
    core.now = 20
    core.observe(a_node("n9").offers(cpu=1))
    core.run()
    assert core.phase("g-0") is core.phase("g-1") is Phase.WAITING
    assert bound(core) == set()
    doors.shut.clear()
    core.observe(a_node("event"))
    core.run()
    assert bound(core) == {"g-0", "g-1"}


def test_a_gang_does_not_wait_for_surplus_that_waits_at_permit() -> None:
    doors = Doors("g-2")
    core = EngineHarness(small_profile(doors))
    core.observe(*nodes(3), *gang("g", 3, 2))
    core.run()
    assert bound(core) == {"g-0", "g-1"}
    assert core.phase("g-2") is Phase.WAITING
    doors.refused.add("g-2")
    core.observe(a_node("event").offers(cpu=0))
    core.run()
    assert core.phase("g-2") is Phase.QUEUED
    assert core.phase("g-0") is Phase.BINDING


def test_a_strict_gang_gives_its_nodes_back_when_a_member_is_deleted_at_permit() -> None:
    core = EngineHarness(small_profile(Doors("g-0", "g-1")))
    pods = gang("g", 2)
    core.observe(*nodes(2), *pods)
    core.run()
    core.observe_deleted(pods[0])
    assert len(core.engine.cluster) == 0
    assert core.queue_state("g-1") is QueueState.GATED


def test_it_keeps_them_when_it_has_enough_without_the_member() -> None:
    core = EngineHarness(small_profile(Doors("g-0", "g-1", "g-2")))
    pods = gang("g", 3, 2)
    core.observe(*nodes(3), *pods)
    core.run()
    core.observe_deleted(pods[0])
    assert core.phase("g-1") is core.phase("g-2") is Phase.WAITING


def test_it_gives_them_back_when_a_bound_member_is_lost_on_which_it_counted() -> None:
    core = EngineHarness(small_profile(Doors("g-1")))
    pods = gang("g", 2)
    core.observe(*nodes(2), pods[0].on("n0"), pods[1])
    core.run()
    assert core.phase("g-1") is Phase.WAITING
    core.observe_deleted(pods[0])
    assert len(core.engine.cluster) == 0
    assert core.queue_state("g-1") is QueueState.GATED


# --- nodes that are lost ---------------------------------------------------------------------


def test_no_gang_is_bound_in_part_because_the_node_of_a_held_member_is_gone(
    core: EngineHarness,
) -> None:
    core.observe(a_node("lost").offers(cpu=1), *gang("g", 2, mode="NonStrict"))
    core.run()
    assert core.phase("g-0") is Phase.WAITING
    core.observe_deleted(a_node("lost"))
    core.now = 20
    core.observe(a_node("small").offers(cpu=1))
    core.run()
    assert bound(core) == set()
    core.observe(a_node("large").offers(cpu=1))
    core.advance_to(40)
    assert bound(core) == {"g-0", "g-1"}


def test_nor_when_a_permit_plugin_lets_the_last_member_go() -> None:
    doors = Doors("g-1")
    core = EngineHarness(small_profile(doors))
    core.observe(a_node("lost").offers(cpu=1), *nodes(1), *gang("g", 2))
    core.run()
    assert core.phase("g-0") is core.phase("g-1") is Phase.WAITING
    doors.shut.clear()
    core.observe_deleted(a_node("lost"))
    core.run()
    assert bound(core) == set()
    assert len(core.engine.cluster) == 0


# --- members that move -----------------------------------------------------------------------


def test_a_held_member_may_say_that_it_is_in_another_gang(core: EngineHarness) -> None:
    core.observe(*nodes(1), *gang("g", 2, mode="NonStrict"), *gang("h", 1, 2, mode="NonStrict"))
    core.run()
    assert core.phase("g-0") is Phase.WAITING
    core.observe(a_pod("g-0").needs(cpu=1).in_gang("h", 2, mode="NonStrict"))
    assert core.phase("g-0") is Phase.QUEUED
    core.observe(a_node("n9").offers(cpu=4))
    core.advance_to(30)
    assert bound(core) == {"g-0", "h-0"}


def test_those_that_a_held_member_leaves_behind_are_put_back_once() -> None:
    both = '["default/a", "default/b"]'
    core = EngineHarness(small_profile(Doors("a-0")))
    leaving, *others = gang("a", 2, groups=both)
    core.observe(*nodes(9), leaving, *others, *gang("b", 2, groups=both))
    core.run()
    assert core.phase("a-1") is Phase.WAITING
    core.observe(leaving.in_gang("elsewhere", 1, groups=both))
    core.run()
    assert {core.queue_state(name) for name in ("a-1", "b-0", "b-1")} == {QueueState.GATED}
    assert len(core.engine.cluster) == 0


def test_a_held_member_may_leave_for_no_gang(core: EngineHarness) -> None:
    core.observe(*nodes(1), *gang("g", 2, mode="NonStrict"))
    core.run()
    core.observe(a_pod("g-0").needs(cpu=1))
    core.advance_to(30)
    assert bound(core) == {"g-0"}


# --- what those are told that hold nodes -----------------------------------------------------


def test_who_holds_a_node_is_told_what_the_others_lack(core: EngineHarness) -> None:
    core.observe(*nodes(2), *gang("g", 3, mode="NonStrict"))
    core.run()
    core.advance_to(3)
    why = "0/1 nodes are available: 1 Insufficient cpu. gang default/g: 3 of 3 arrived, "
    why += "2 placeable now, blocked by pod default/g-2."
    assert told(core) == {"g-0": why, "g-1": why, "g-2": why}
    assert {core.phase(name) for name in ("g-0", "g-1")} == {Phase.WAITING}


def test_they_are_told_when_the_others_are_gone(core: EngineHarness) -> None:
    *held, last = gang("g", 3, mode="NonStrict")
    core.observe(*nodes(2), *held, last)
    core.advance_to(3)
    core.observe_deleted(last)
    core.advance_to(6)
    why = "gang default/g waits for members: 2 of 3 arrived"
    assert {told(core)[name] for name in ("g-0", "g-1")} == {why}


def test_who_waits_at_permit_is_not_told_by_the_gang() -> None:
    core = EngineHarness(small_profile(Doors("g-0")))
    core.observe(*nodes(2), *gang("g", 2))
    core.advance_to(3)
    core.advance_to(6)
    assert "g-0" not in told(core)


def told(core: EngineHarness) -> dict[str, str]:
    """Pod → what its condition says last."""
    patches = of_kind(PatchPodStatus, core.effects)
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
    case: tuple[PodGroupBuilder, float], core: EngineHarness
) -> None:
    edited, ends = case
    pods = [a_pod(f"g-{n}").needs(cpu=1).in_pod_group("g") for n in range(3)]
    core.observe(*nodes(2), group(3), *pods)
    core.run()
    core.advance_to(100)
    released = Released(core)
    core.observe(edited)
    core.run()
    for now in (100.1, 199.9, 200.1, 599.9, 600.1, 899.9, 900.1):
        if released.since is None:
            core.advance_to(now)
            released.look()
    assert released.since == pytest.approx(ends, abs=0.11)


class Released:
    """Notes when the gang's nodes are given back, even for a moment."""

    def __init__(self, core: EngineHarness) -> None:
        self.core = core
        self.holds = dict(core.engine._gangs._holds)
        self.since: float | None = None
        assert len(core.engine.cluster) == 2

    def look(self) -> None:
        if self.core.engine._gangs._holds != self.holds or len(self.core.engine.cluster) != 2:
            self.since = self.core.now


def test_a_lower_minimum_lets_those_go_that_are_held(core: EngineHarness) -> None:
    pods = [a_pod(f"g-{n}").needs(cpu=1).in_pod_group("g") for n in range(3)]
    core.observe(*nodes(2), group(3), *pods)
    core.run()
    core.observe(group(2))
    core.run()
    assert len(bound(core)) == 2


# --- time ------------------------------------------------------------------------------------


def test_a_gang_that_holds_nothing_any_more_does_not_run_out_of_time(core: EngineHarness) -> None:
    pods = gang("g", 3, 2)
    core.observe(*nodes(1), pods[0].on("n0"), *pods[1:])
    core.run()
    assert core.engine.next_timer() is not None
    core.observe_deleted(pods[0])
    core.observe(a_pod("other").needs(cpu=1).on("n0"))
    assert of_kind(AnnotatePod, core.advance_to(1000)) == []
    core.observe(*nodes(3))
    core.advance_to(2000)
    assert bound(core) == {"g-1", "g-2"}


def test_patience_is_that_of_the_least_patient_gang_of_the_group() -> None:
    core = EngineHarness(default_profile(), gangs=GangPolicy(wait_time=100))
    both = '["default/a", "default/b"]'
    patient = gang("a", 1, mode="NonStrict", groups=both, waiting_time="1h")
    core.observe(*nodes(1), *patient, *gang("b", 1, mode="NonStrict", groups=both))
    core.run()
    assert of_kind(AnnotatePod, core.advance_to(99)) == []
    assert {mark.pod.name for mark in of_kind(AnnotatePod, core.advance_to(100))} == {"a-0", "b-0"}


def test_a_group_is_tried_again_when_the_last_mark_is_taken_off_a_member_that_is_bound(
    core: EngineHarness,
) -> None:
    both = '["default/a", "default/b"]'
    (one,) = gang("a", 1, mode="NonStrict", groups=both)
    (two,) = gang("b", 1, mode="NonStrict", groups=both)
    mark = {"gang.scheduling.koordinator.sh/timeout": "true"}
    core.observe(*nodes(1), one, two)
    core.run()
    core.advance_to(600)
    core.observe(one.annotated(mark), two.annotated(mark))
    core.observe(two.annotated(mark).on("elsewhere"), one)
    assert bound(core) == set()
    core.observe(two.on("elsewhere"))
    core.advance_to(700)
    assert bound(core) == {"a-0"}


# --- those that PreEnqueue holds back --------------------------------------------------------


def test_a_gated_member_beyond_the_minimum_is_not_said_to_lack_room(core: EngineHarness) -> None:
    gated = a_pod("late").needs(cpu=1).in_gang("g", 2).gated("example.com/quota")
    core.observe(*nodes(4), *gang("g", 2), gated)
    core.run()
    core.advance_to(10)
    assert of_kind(PatchPodStatus, core.effects) == [], "the API server has said SchedulingGated"
    assert core.queue_state("late") is QueueState.GATED


def test_while_members_are_missing_only_those_are_told_that_could_be_placed(
    core: EngineHarness,
) -> None:
    gated = a_pod("late").needs(cpu=1).in_gang("g", 3).gated("example.com/quota")
    core.observe(*nodes(4), *gang("g", 1, 3), gated)
    core.run()
    core.advance_to(10)
    (told,) = of_kind(PatchPodStatus, core.effects)
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
    core = EngineHarness(small_profile(Broken()))
    core.observe(*nodes(3), *gang("g", 3))
    core.run()
    assert len(bound(core)) == 2
    core.advance_to(1.0)
    assert len(bound(core)) == 3


class Refuses(Plugin):
    """Prepares nothing for the pods of some names."""

    queueing_hints = (QueueingHint(ActionType.NODE_ADDED),)

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return self.reject("not you") if pod.pod.metadata.name in self.names else None


def test_members_that_fail_one_after_the_other_wait_for_each_other_again() -> None:
    refuses = Refuses("g-1", "g-2")
    core = EngineHarness(small_profile(refuses))
    core.observe(*nodes(3), *gang("g", 3, 2, match_policy="waiting-and-running"))
    (first,) = of_kind(Bind, core.run())
    core.settle(first, CONFLICT)
    assert core.entity("g-1") is core.entity("g-2") is core.entity("g-0")
