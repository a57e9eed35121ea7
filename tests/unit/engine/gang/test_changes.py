"""Gangs whose members or settings change while they wait, run or are bound."""

from __future__ import annotations

import pytest

from arranger.api.effects import (
    AnnotatePod,
    Applied,
    Bind,
    DeletePod,
    PublishEvent,
    Refused,
)
from arranger.engine.context.phases import Phase
from arranger.engine.gang.state.policy import GangPolicy
from arranger.framework.interface import Plugin, Wait
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod, a_pod_group
from tests.unit.engine.gang.test_gangs import (
    GROUPS,
    Object,
    bound,
    bundle,
    gang,
    in_b,
    nodes,
    of_group,
)
from tests.unit.engine.harness import (
    CONFLICT,
    EngineHarness,
    of_kind,
    small_profile,
)


def test_after_the_gang_has_run_members_are_replaced_one_by_one(harness: EngineHarness) -> None:
    pods = gang("g", 3)
    harness.observe(*nodes(3), *pods)
    harness.settle_all(harness.run())
    harness.observe(*(pod.on("n0") for pod in pods))
    harness.observe_deleted(pods[0])
    harness.observe(a_pod("again").needs(cpu=1).in_gang("g", 3))
    assert bound(harness.run()) == {"again"}


MATCH: dict[str, tuple[str, int, set[str]]] = {
    "once satisfied: one by one": ("once-satisfied", 1, {"new-0"}),
    "running members count": ("waiting-and-running", 1, {"new-0"}),
    "only waiting ones count, and one is too few": ("only-waiting", 1, set()),
    "only waiting ones count, and three are enough": (
        "only-waiting",
        3,
        {"new-0", "new-1", "new-2"},
    ),
}


@pytest.mark.parametrize("case", MATCH.values(), ids=MATCH.keys())
def test_match_policy(case: tuple[str, int, set[str]], harness: EngineHarness) -> None:
    policy, newcomers, expected = case
    pods = gang("g", 3, match_policy=policy)
    harness.observe(*nodes(9), *pods)
    harness.settle_all(harness.run())
    harness.observe(pods[0].on("n0"), pods[1].on("n0"), pods[2].on("n0").in_phase("Succeeded"))
    for n in range(newcomers):
        harness.observe(a_pod(f"new-{n}").needs(cpu=1).in_gang("g", 3, match_policy=policy))
    assert bound(harness.run()) == expected


def test_running_members_that_are_lost_are_replaced_together(harness: EngineHarness) -> None:
    pods = gang("g", 3, match_policy="waiting-and-running")
    harness.observe(*nodes(3), *pods)
    harness.settle_all(harness.run())
    harness.observe(*(pod.on("n0") for pod in pods))
    harness.observe_deleted(pods[0], pods[1])
    more = {"match_policy": "waiting-and-running"}
    harness.observe(a_pod("x").needs(cpu=1).in_gang("g", 3, **more))
    assert bound(harness.run()) == set()
    harness.observe(a_pod("y").needs(cpu=1).in_gang("g", 3, **more))
    assert bound(harness.run()) == {"x", "y"}


def test_a_member_whose_binding_fails_is_completed_before_all_others(
    harness: EngineHarness,
) -> None:
    harness.observe(*nodes(2), *gang("g", 2))
    first, second = of_kind(Bind, harness.run())
    harness.observe(a_pod("first").needs(cpu=1))
    harness.settle(first, Applied())
    assert bound(harness.settle(second, CONFLICT)) == {"g-1"}


def test_the_room_of_a_member_that_is_replaced_is_not_hurried_away(harness: EngineHarness) -> None:
    replaced, other = gang("g", 2)
    harness.observe(*nodes(2), replaced, other)
    harness.run()
    harness.settle(harness.binding("g-1"), Applied())
    harness.observe(a_pod("rival").needs(cpu=1))
    harness.run()
    harness.now = 0.4
    harness.observe_deleted(replaced)
    harness.run()
    harness.observe(replaced.with_uid("again"))
    assert bound(harness.advance_to(0.5)) == {"g-0"}, "the rival's back-off is not cut short"
    assert bound(harness.advance_to(30)) == set()


def test_a_gang_found_half_bound_is_completed_first(harness: EngineHarness) -> None:
    pods = gang("g", 3)
    harness.observe(*nodes(3), pods[0].on("n0"))
    harness.observe(a_pod("vip").needs(cpu=1).with_priority(1000), *pods[1:])
    assert bound(harness.run()) == {"g-1", "g-2"}


def test_a_half_bound_gang_that_cannot_be_completed_is_deleted_if_so_configured() -> None:
    harness = EngineHarness(
        default_profile(), gangs=GangPolicy(wait_time=60, on_partial_bind="Delete")
    )
    pods = gang("g", 2)
    harness.observe(*nodes(1), pods[0].on("n0"), pods[1])
    harness.run()
    assert of_kind(DeletePod, harness.advance_to(59)) == []
    effects = harness.advance_to(60)
    (delete,) = of_kind(DeletePod, effects)
    assert delete.pod.name == "g-0"
    condition, text = delete.condition, "its gang did not become complete within 60s"
    assert condition is not None, "its owner would take it for a failure"
    assert (condition.type, condition.status) == ("DisruptionTarget", "True")
    assert (condition.reason, condition.message) == ("GangTimedOut", f"arranger: {text}")
    about = [e for e in of_kind(PublishEvent, effects) if e.regarding.name == "g-0"]
    assert [(e.reason, e.note) for e in about] == [("GangTimedOut", f"It has to leave: {text}")]


def test_by_default_it_goes_on_waiting_without_going_before_others(harness: EngineHarness) -> None:
    pods = gang("g", 3)
    harness.observe(*nodes(2), pods[0].on("n0"), *pods[1:])
    harness.run()
    effects = harness.advance_to(600)
    assert of_kind(DeletePod, effects) == of_kind(AnnotatePod, effects) == []
    harness.observe(a_node("n9").offers(cpu=2), a_pod("vip").needs(cpu=1).with_priority(1000))
    assert bound(harness.advance_to(620)) == {"vip", "g-1", "g-2"}


def test_a_member_deleted_while_others_wait_for_it(harness: EngineHarness) -> None:
    pods = gang("g", 3, mode="NonStrict")
    harness.observe(*nodes(2), *pods)
    harness.run()
    harness.observe_deleted(pods[0])
    assert len(harness.engine.cluster) == 1
    harness.observe_deleted(pods[1], pods[2])
    assert len(harness.engine.cluster) == 0
    assert harness.advance_to(1000) == []


def test_a_member_that_says_so_no_more_is_placed_without_the_others(
    harness: EngineHarness,
) -> None:
    harness.observe(*nodes(1), *gang("g", 2))
    assert not bound(harness.run())
    harness.observe(a_pod("g-0").needs(cpu=1))
    assert harness.entity("g-0").group is None
    assert harness.entity("g-1").members.keys() == {"uid-default-g-1"}
    assert bound(harness.advance_to(20)) == {"g-0"}


def test_the_end_of_a_member_that_says_so_no_more_leaves_the_others_queued(
    harness: EngineHarness,
) -> None:
    harness.observe(*gang("g", 3, 2))
    assert not bound(harness.run())
    harness.observe(a_pod("g-0").needs(cpu=1))
    harness.observe_deleted(a_pod("g-0"))
    harness.observe(*nodes(2))
    assert bound(harness.advance_to(20)) == {"g-1", "g-2"}


def test_a_lower_minimum_lets_a_waiting_gang_go(harness: EngineHarness) -> None:
    harness.observe(*nodes(2), a_pod_group("g", least=3), *of_group("g", 3))
    assert bound(harness.run()) == set()
    harness.now = 20
    harness.observe(a_pod_group("g", least=2))
    assert len(bound(harness.run())) == 2


def test_a_minimum_raised_above_its_members_keeps_a_gang_back(harness: EngineHarness) -> None:
    harness.observe(a_pod_group("g", least=2), *of_group("g", 2))
    harness.run()
    harness.observe(a_pod_group("g", least=3), *nodes(9))
    assert bound(harness.advance_to(20)) == set()
    harness.observe(a_pod("g-2").needs(cpu=1).in_pod_group("g"))
    assert bound(harness.advance_to(40)) == {"g-0", "g-1", "g-2"}


def test_a_podgroup_deleted_while_its_pods_wait(harness: EngineHarness) -> None:
    harness.observe(*nodes(1), a_pod_group("g", least=2), *of_group("g", 2))
    harness.run()
    harness.observe_deleted(a_pod_group("g", least=2))
    harness.observe(*nodes(4))
    assert bound(harness.advance_to(60)) == set()
    harness.observe(a_pod_group("g", least=2))
    assert bound(harness.advance_to(90)) == {"g-0", "g-1"}


def test_a_change_to_strict_gives_back_what_was_held(harness: EngineHarness) -> None:
    pods = gang("g", 2, mode="NonStrict")
    harness.observe(*nodes(1), *pods)
    harness.run()
    assert len(harness.engine.cluster) == 1
    harness.observe(*gang("g", 2, mode="Strict"))
    harness.advance_to(30)
    assert len(harness.engine.cluster) == 0


def test_what_cannot_be_read_is_reported_once(harness: EngineHarness) -> None:
    pod = a_pod("p").in_gang("g", 1, mode="Loose", waiting_time="soon")
    harness.observe(pod, pod.labelled(x="y"))
    (event,) = [e for e in of_kind(PublishEvent, harness.run()) if e.reason == "InvalidGang"]
    assert "gang.scheduling.koordinator.sh/mode: 'Loose' is none of Strict, NonStrict" in event.note
    assert "waiting-time: 'soon' is not a duration such as 90s or 1h30m" in event.note


class Door(Plugin):
    """Lets pods through when it is open."""

    def __init__(self) -> None:
        self.open: bool | None = None

    def permit(self, state, pod, node):  # type: ignore[no-untyped-def]
        if self.open is None:
            return Wait(30.0)
        return None if self.open else self.reject("closed")


def test_members_that_a_permit_plugin_holds_go_together(harness: EngineHarness) -> None:
    door = Door()
    harness = EngineHarness(small_profile(door))
    harness.observe(*nodes(2), *gang("g", 2))
    assert bound(harness.run()) == set()
    door.open = True
    harness.observe(a_node("other"))
    assert bound(harness.run()) == {"g-0", "g-1"}


def test_and_fall_together() -> None:
    door = Door()
    harness = EngineHarness(small_profile(door))
    harness.observe(*nodes(2), *gang("g", 2))
    harness.run()
    door.open = False
    harness.observe(a_node("other"))
    harness.run()
    assert len(harness.engine.cluster) == 0
    assert {member.phase for member in harness.engine.pods()} == {Phase.QUEUED}


def test_nothing_is_left_when_gangs_are_gone(harness: EngineHarness) -> None:
    everything: list[Object] = [
        a_pod_group("pg", least=2),
        *gang("a", 3, groups=GROUPS),
        *in_b(2, 2),
        *gang("held", 3, mode="NonStrict"),
        *of_group("pg", 2),
        *bundle("ps", 2, 1),
    ]
    harness.observe(*nodes(2, 2), *everything)
    harness.settle_all(harness.run())
    harness.observe_deleted(*everything)
    harness.advance_to(10_000)
    gangs = harness.engine._gangs
    registry = harness.engine.registry
    left = (gangs._entities, gangs._holds)
    assert not any(left)
    known = (registry.gangs, registry._groups)
    assert not any((*known, registry._pod_groups, registry._gang_by_uid))
    assert harness.engine.next_timer() is None


def test_a_refused_binding_is_tried_again_without_the_others(harness: EngineHarness) -> None:
    harness.observe(*nodes(3), *gang("g", 3))
    one, two, three = of_kind(Bind, harness.run())
    harness.settle(one)
    assert bound(harness.settle(two, Refused(409, "Conflict", "no"))) == {two.pod.name}
    harness.settle(three)
    harness.settle(harness.binding(two.pod.name))
    assert not harness.engine.pods()


def test_a_binding_that_is_refused_again_and_again_has_the_member_back_off(
    harness: EngineHarness,
) -> None:
    harness.observe(*nodes(3), *gang("g", 3))
    one, two, three = of_kind(Bind, harness.run())
    harness.settle_all([one, two])
    tries, asked = 0, [three]
    while asked and tries < 20:
        tries += 1
        asked = of_kind(Bind, harness.settle(asked[0], Refused(500, "InternalError", "no")))
    assert 1 < tries <= 4, "at once, but not for ever"
    due = harness.engine.next_timer()
    assert due is not None
    assert due > harness.now
    harness.advance_to(harness.now + 30)
    harness.settle(harness.binding(three.pod.name))
    assert not harness.engine.pods()
