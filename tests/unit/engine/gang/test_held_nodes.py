"""Changes while a gang holds nodes: edits, time, plugins that refuse."""

from __future__ import annotations

import pytest

from arranger.api.effects import AnnotatePod, Bind, PatchPodStatus
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.gang.state.policy import GangPolicy
from arranger.framework.cluster_event import ActionType, QueueingHint
from arranger.framework.interface import Plugin
from arranger.framework.status import CycleState, Status
from arranger.plugins import default_profile
from tests.builders import PodGroupBuilder, a_pod, a_pod_group, a_queue
from tests.unit.engine.gang.test_holds import Doors, bound, gang, nodes
from tests.unit.engine.harness import (
    CONFLICT,
    EngineHarness,
    of_kind,
    small_profile,
)

# --- what those are told that hold nodes -----------------------------------------------------


def test_who_holds_a_node_is_told_what_the_others_lack(harness: EngineHarness) -> None:
    harness.observe(*nodes(2), *gang("g", 3, mode="NonStrict"))
    harness.run()
    harness.advance_to(3)
    why = "0/1 nodes are available: 1 Insufficient cpu. gang default/g: 3 of 3 arrived, "
    why += "2 placeable now, blocked by pod default/g-2."
    assert told(harness) == {"g-0": why, "g-1": why, "g-2": why}
    assert {harness.phase(name) for name in ("g-0", "g-1")} == {Phase.WAITING}


def test_the_nodes_that_are_held_are_written_to_their_pods_and_taken_back_with_them(
    harness: EngineHarness,
) -> None:
    """By that people and the controllers see what is held."""

    def shown() -> dict[str, str]:
        patches = of_kind(PatchPodStatus, harness.effects)
        return {p.pod.name: p.nominated_node for p in patches if p.nominated_node is not None}

    harness.observe(*nodes(1, 1), *gang("g", 3, mode="NonStrict", waiting_time="60s"))
    harness.run()
    harness.advance_to(3)
    assert shown() == {"g-0": "n0", "g-1": "n1"}
    harness.advance_to(60)
    assert shown() == {"g-0": "", "g-1": ""}


def test_those_that_wait_are_not_tried_while_they_lack_one_that_was_held(
    harness: EngineHarness,
) -> None:
    first, *others = gang("g", 4, mode="NonStrict")
    harness.observe(*nodes(2), first, *others)
    harness.run()
    harness.observe(nodes(2)[0].cordoned())  # so that what it leaves wakes nobody
    harness.advance_to(400)
    harness.observe_deleted(first)
    assert harness.queue_state("g-3") is QueueState.GATED


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


def test_an_edit_of_a_member_that_is_held_counts_at_once(harness: EngineHarness) -> None:
    first, *others = gang("g", 3, mode="NonStrict")
    harness.observe(a_queue("q"), *nodes(2), first.in_queue("q"), *others)
    harness.run()
    used = harness.engine.ledger.queues["q"].used
    assert (harness.phase("g-0"), used["cpu"]) == (Phase.WAITING, 1000)
    harness.observe(first)
    harness.run()
    assert (harness.phase("g-0"), used["cpu"]) == (Phase.WAITING, 0)


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
