"""Members that are to leave do not keep a gang alive: evicted as a whole it begins anew."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from arranger.api.effects import AnnotatePod, Bind, DeletePod, Effect, Refused
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind, placements

OLD, NEW = ("a", "b", "c"), ("a2", "b2", "c2")
DENIED = Refused(403, "Forbidden", "may not delete pods")


def member(name: str, **more: str) -> PodBuilder:
    return a_pod(name).needs(cpu=2).in_gang("g", 3, **more)


def everyone(names: Sequence[str], **more: str) -> list[PodBuilder]:
    return [member(name, **more) for name in names]


def leaving(*names: str, **more: str) -> list[PodBuilder]:
    return [pod.on("n").deleting() for pod in everyone(names, **more)]


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


def running(gangs: GangPolicy | None = None, **more: str) -> EngineHarness:
    """A gang of three runs on all of a node."""
    harness = EngineHarness(default_profile(), gangs=gangs)
    harness.observe(a_node().offers(cpu=6), *everyone(OLD, **more))
    harness.settle_all(harness.run())
    harness.observe(*(pod.on("n") for pod in everyone(OLD, **more)))
    harness.effects.clear()
    return harness


def evicted() -> tuple[EngineHarness, list[DeletePod]]:
    """It is about to be evicted as a whole, and another node has room for two."""
    harness = running()
    harness.observe(a_pod("vip").needs(cpu=6).with_priority(9))
    deletes = of_kind(DeletePod, harness.run())
    assert {delete.pod.name for delete in deletes} == set(OLD)
    harness.observe(a_node("m").offers(cpu=4))
    harness.effects.clear()
    return harness, deletes


def test_replacements_wait_for_each_other_while_the_old_pods_terminate() -> None:
    harness, deletes = evicted()
    for n, name in enumerate(OLD):
        harness.settle(deletes[n])
        harness.observe(*leaving(name), member(NEW[n]))  # the others' deletes are still in flight
        harness.advance_to(30.0 * (n + 1))
    assert bound(harness.effects) == set(), "there is room for two of three"
    harness.observe_deleted(*everyone(OLD))
    harness.advance_to(400)
    assert bound(harness.effects) == {"vip"}
    harness.observe(a_node("more").offers(cpu=2))
    harness.advance_to(800)
    assert bound(harness.effects) == {"vip", *NEW}


def test_a_replacement_that_is_queued_by_itself_waits_for_the_others_again() -> None:
    harness = running()
    harness.observe(member("surplus"))  # free to go wherever there is room
    harness.run()
    harness.observe(a_pod("vip").needs(cpu=6).with_priority(9))
    assert len(of_kind(DeletePod, harness.run())) == 3
    harness.observe(a_node("m").offers(cpu=4))
    harness.advance_to(100)
    assert bound(harness.effects) == set()


def test_deleted_by_others_one_after_another_it_begins_anew_with_the_last() -> None:
    harness = running()
    harness.observe(*leaving("a", "b"))
    harness.observe(*leaving("c"), *everyone(NEW[:2]), a_node("m").offers(cpu=4))
    harness.advance_to(30)
    assert bound(harness.effects) == set()
    harness.observe(member("c2"), a_node("more").offers(cpu=2))
    harness.advance_to(60)
    assert bound(harness.effects) == set(NEW)


@pytest.mark.parametrize("match", ["once-satisfied", "waiting-and-running"])
def test_while_others_stay_the_replacement_of_one_that_leaves_goes_at_once(match: str) -> None:
    harness = running(match_policy=match)
    harness.observe(*leaving("a", match_policy=match), member("a2", match_policy=match))
    harness.observe(a_node("m").offers(cpu=2))
    harness.advance_to(30)
    assert bound(harness.effects) == {"a2"}


def test_of_two_that_leave_the_first_to_be_replaced_does_not_wait_for_the_second() -> None:
    harness = running()
    harness.observe(*leaving("a", "b"), member("a2"), a_node("m").offers(cpu=2))
    harness.advance_to(30)
    assert bound(harness.effects) == {"a2"}


@pytest.mark.parametrize("match", ["once-satisfied", "only-waiting", "waiting-and-running"])
def test_whatever_its_match_policy_a_new_round_begins_as_a_whole(match: str) -> None:
    harness = running(match_policy=match)
    harness.observe(*leaving(*OLD, match_policy=match), a_node("m").offers(cpu=4))
    harness.observe(*everyone(NEW, match_policy=match))
    harness.advance_to(30)
    assert bound(harness.effects) == set()
    harness.observe(a_node("more").offers(cpu=2))
    harness.advance_to(60)
    assert bound(harness.effects) == set(NEW)


def test_who_could_not_be_evicted_is_of_the_old_round_still() -> None:
    harness, deletes = evicted()
    harness.observe(member("a2"))
    harness.run()
    for delete in deletes[:2]:
        harness.settle(delete)
    assert bound(harness.effects) == set(), "the third is to leave, too"
    harness.settle(deletes[2], DENIED)
    harness.advance_to(60)
    assert bound(harness.effects) == {"a2"}


def test_an_eviction_that_fails_keeps_nobody_who_is_deleted_by_others_meanwhile() -> None:
    harness, deletes = evicted()
    harness.observe(*leaving(*OLD), member("a2"))
    for delete in deletes:
        harness.settle(delete, DENIED)
    harness.advance_to(60)
    assert bound(harness.effects) == set()


def test_members_that_have_succeeded_count_to_the_minimum_of_the_new_round() -> None:
    harness = running()
    harness.observe(member("a").on("n").in_phase("Succeeded"))
    harness.observe(*leaving("b", "c"), member("b2"))
    harness.advance_to(30)
    assert bound(harness.effects) == set(), "there is room for it"
    harness.observe(member("c2"), a_node("m").offers(cpu=4))
    harness.advance_to(60)
    assert bound(harness.effects) == {"b2", "c2"}


def test_a_scheduler_that_finds_all_members_terminating_places_their_successors_together() -> None:
    harness = EngineHarness(default_profile())
    recorded = harness.gang_server.create("default/g", status={"resourceSatisfied": True})
    harness.engine.handlers.on_gang_updated(recorded, harness.now)
    harness.observe(a_node().offers(cpu=6), *leaving(*OLD), *everyone(NEW))
    harness.observe(a_node("m").offers(cpu=4))
    harness.advance_to(30)
    harness.settle_gangs()
    assert bound(harness.effects) == set()
    harness.observe(a_node("more").offers(cpu=2))
    harness.settle(of_kind(Bind, harness.advance_to(60))[0])
    assert bound(harness.effects) == set(NEW)
    group = harness.engine.registry.group_of(harness.engine.registry.gangs["default/g"])
    assert not group.schedules_individually, "one of three is bound"


def test_a_scheduler_that_finds_part_of_a_new_round_bound_completes_it_as_a_whole() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node().offers(cpu=6), *leaving(*OLD), a_node("m").offers(cpu=4))
    harness.observe(member("a2").on("m"), *everyone(NEW[1:]))
    harness.advance_to(30)
    assert bound(harness.effects) == set(), "those that terminate are of another round"
    harness.observe_deleted(*everyone(OLD))
    harness.advance_to(60)
    assert bound(harness.effects) == {"b2", "c2"}


def test_a_round_that_terminates_is_no_part_of_one_that_waits_for_room() -> None:
    harness = running(GangPolicy(wait_time=60, on_partial_bind="Delete"))
    harness.observe(*leaving(*OLD), *everyone(NEW))
    for now in range(10, 400, 30):
        harness.advance_to(now)
    assert of_kind(DeletePod, harness.effects) == []
    harness.observe_deleted(*everyone(OLD))
    harness.advance_to(800)
    assert bound(harness.effects) == set(NEW)


def test_of_a_round_bound_in_part_only_those_are_deleted_that_do_not_leave_anyway() -> None:
    harness = EngineHarness(
        default_profile(), gangs=GangPolicy(wait_time=60, on_partial_bind="Delete")
    )
    harness.observe(a_node().offers(cpu=6), *leaving("a"), member("b").on("n"), *everyone(NEW[:2]))
    harness.observe(a_pod("other").needs(cpu=2).on("n"))
    for now in range(0, 100, 20):
        harness.advance_to(now)
    assert [delete.pod.name for delete in of_kind(DeletePod, harness.effects)] == ["b"]


def test_a_new_round_need_not_be_where_the_old_one_terminates() -> None:
    harness = EngineHarness(default_profile())
    where = {"arranger.io/topology": "required=zone"}
    harness.observe(a_node().offers(cpu=6).labelled({"zone": "east"}))
    harness.observe(*(pod.annotated(where) for pod in leaving(*OLD)))
    harness.observe(a_node("m").offers(cpu=6).labelled({"zone": "west"}))
    harness.observe(*(pod.annotated(where) for pod in everyone(NEW)))
    harness.run()
    assert {node for _, node in placements(harness.effects)} == {"m"}
    assert bound(harness.effects) == set(NEW)


def test_gangs_that_are_placed_together_begin_anew_together() -> None:
    both = '["default/x", "default/y"]'

    def of_gang(gang: str, n: int) -> PodBuilder:
        return a_pod(f"{gang}{n}").needs(cpu=2).in_gang(gang, 1, groups=both)

    harness = EngineHarness(default_profile())
    harness.observe(a_node().offers(cpu=4), of_gang("x", 1), of_gang("y", 1))
    harness.settle_all(harness.run())
    harness.observe(of_gang("x", 1).on("n").deleting(), of_gang("y", 1).on("n"))
    harness.observe(of_gang("x", 2), a_node("m").offers(cpu=2))
    harness.effects.clear()
    harness.settle_all(harness.advance_to(30))
    assert bound(harness.effects) == {"x2"}, "its partner runs"
    harness.observe(of_gang("x", 2).on("m").deleting(), of_gang("y", 1).on("n").deleting())
    harness.observe(of_gang("x", 3), a_node("more").offers(cpu=4))
    harness.advance_to(60)
    assert bound(harness.effects) == {"x2"}
    harness.observe(of_gang("y", 3))
    harness.advance_to(90)
    assert bound(harness.effects) == {"x2", "x3", "y3"}


def test_who_terminates_is_no_surplus_that_could_be_taken_besides() -> None:
    harness = running()
    for name in ("d", "e"):
        harness.observe(
            a_node(f"of-{name}").offers(cpu=2), member(name).on(f"of-{name}").deleting()
        )
    harness.observe(a_pod("vip").needs(cpu=4).with_priority(9))
    victims = {delete.pod.name for delete in of_kind(DeletePod, harness.run())}
    assert victims == set(OLD), "one of three would run by itself"


def test_who_terminates_anyway_is_no_loss_to_the_gang() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node().offers(cpu=10), *(member(name).on("n") for name in "abcd"))
    harness.observe(*leaving("e"))
    harness.run()
    harness.observe(a_pod("vip").needs(cpu=4).with_priority(9))
    assert len(of_kind(DeletePod, harness.run())) == 1, "three stay"


def test_the_clock_of_a_round_that_has_gone_does_not_run_for_the_next() -> None:
    harness, loose = (
        EngineHarness(default_profile(), gangs=GangPolicy(wait_time=60)),
        {"mode": "NonStrict"},
    )
    harness.observe(a_node().offers(cpu=2), member("a", **loose).on("n"))
    harness.observe(*everyone(("b", "c"), **loose))
    harness.run()  # a third of it is bound, and it is to be completed within a minute
    harness.advance_to(50)
    harness.observe(*leaving("a", **loose), member("a2", **loose), a_node("m").offers(cpu=2))
    harness.advance_to(55)
    harness.advance_to(100)
    assert of_kind(AnnotatePod, harness.effects) == [], (
        "what is held since the new round may be kept"
    )
    harness.advance_to(120)
    assert {note.pod.name for note in of_kind(AnnotatePod, harness.effects)} == {"a2", "b", "c"}
