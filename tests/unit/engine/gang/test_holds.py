"""What a gang keeps while it is incomplete, and what makes it give that back or go."""

from __future__ import annotations

from arranger.api.effects import AnnotatePod, Bind, PatchPodStatus
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.gang.state.policy import GangPolicy
from arranger.framework.cluster_event import ActionType, QueueingHint
from arranger.framework.interface import Plugin, Wait
from arranger.framework.status import CycleState, Status
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.unit.engine.harness import (
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


# --- out of time -----------------------------------------------------------------------------


def test_when_the_time_of_a_gang_group_is_over_all_pods_of_all_its_gangs_are_marked(
    harness: EngineHarness,
) -> None:
    groups = '["default/a", "other/b"]'
    more = {"mode": "NonStrict", "waiting_time": "60s", "groups": groups}
    others = [pod.in_namespace("other") for pod in gang("b", 2, **more)]
    harness.observe(*nodes(3), *gang("a", 2, **more), *others)
    harness.run()
    assert len(harness.engine.cluster) == 3
    marks = of_kind(AnnotatePod, harness.advance_to(60))
    assert {mark.pod.name for mark in marks} == {"a-0", "a-1", "b-0", "b-1"}
    assert len(harness.engine.cluster) == 0
    harness.observe(*nodes(9))
    harness.advance_to(600)
    assert bound(harness) == set()


def test_a_gang_that_asks_for_no_wait_time_has_that_of_the_configuration() -> None:
    harness = EngineHarness(default_profile(), gangs=GangPolicy(wait_time=7))
    harness.observe(*nodes(1), *gang("g", 2, mode="NonStrict"))
    harness.run()
    assert of_kind(AnnotatePod, harness.advance_to(6.9)) == []
    assert len(of_kind(AnnotatePod, harness.advance_to(7))) == 2


# --- groups of both modes --------------------------------------------------------------------


def test_one_strict_gang_makes_its_group_strict(harness: EngineHarness) -> None:
    groups = '["default/a", "default/b"]'
    loose = gang("a", 2, mode="NonStrict", groups=groups)
    harness.observe(*nodes(3), *loose, *gang("b", 2, mode="Strict", groups=groups))
    harness.run()
    assert len(harness.engine.cluster) == 0
    harness.observe(a_node("n9").offers(cpu=1))
    harness.advance_to(30)
    assert bound(harness) == {"a-0", "a-1", "b-0", "b-1"}


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


def test_held_members_whose_node_is_gone_are_queued_at_once_and_say_so(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("lost").offers(cpu=2), *nodes(1), *gang("g", 4, mode="NonStrict"))
    for effect in harness.run():
        harness.settle(effect)
    held = [name for name in ("g-0", "g-1", "g-2") if harness.phase(name) is Phase.WAITING]
    assert len(held) == 3
    harness.observe_deleted(a_node("lost"))
    said = of_kind(PatchPodStatus, harness.run())
    lost = [name for name in held if harness.phase(name) is not Phase.WAITING]
    assert len(lost) == 2
    assert {each.pod.name for each in said if each.nominated_node == ""} == set(lost)


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
