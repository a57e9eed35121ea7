"""Members that are to leave do not keep a gang alive: evicted as a whole it begins anew."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from arranger.api.effects import AnnotatePod, Bind, DeletePod, Effect, Refused
from arranger.engine.gang.holds import GangPolicy
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind, placements
from tests.unit.engine.stateful.gang_model import gang_object

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
    core = EngineHarness(default_profile(), gangs=gangs)
    core.observe(a_node().offers(cpu=6), *everyone(OLD, **more))
    core.settle_all(core.run())
    core.observe(*(pod.on("n") for pod in everyone(OLD, **more)))
    core.effects.clear()
    return core


def evicted() -> tuple[EngineHarness, list[DeletePod]]:
    """It is about to be evicted as a whole, and another node has room for two."""
    core = running()
    core.observe(a_pod("vip").needs(cpu=6).with_priority(9))
    deletes = of_kind(DeletePod, core.run())
    assert {delete.pod.name for delete in deletes} == set(OLD)
    core.observe(a_node("m").offers(cpu=4))
    core.effects.clear()
    return core, deletes


def test_replacements_wait_for_each_other_while_the_old_pods_terminate() -> None:
    core, deletes = evicted()
    for n, name in enumerate(OLD):
        core.settle(deletes[n])
        core.observe(*leaving(name), member(NEW[n]))  # the others' deletes are still in flight
        core.advance_to(30.0 * (n + 1))
    assert bound(core.effects) == set(), "there is room for two of three"
    core.observe_deleted(*everyone(OLD))
    core.advance_to(400)
    assert bound(core.effects) == {"vip"}
    core.observe(a_node("more").offers(cpu=2))
    core.advance_to(800)
    assert bound(core.effects) == {"vip", *NEW}


def test_a_replacement_that_is_queued_by_itself_waits_for_the_others_again() -> None:
    core = running()
    core.observe(member("surplus"))  # free to go wherever there is room
    core.run()
    core.observe(a_pod("vip").needs(cpu=6).with_priority(9))
    assert len(of_kind(DeletePod, core.run())) == 3
    core.observe(a_node("m").offers(cpu=4))
    core.advance_to(100)
    assert bound(core.effects) == set()


def test_deleted_by_others_one_after_another_it_begins_anew_with_the_last() -> None:
    core = running()
    core.observe(*leaving("a", "b"))
    core.observe(*leaving("c"), *everyone(NEW[:2]), a_node("m").offers(cpu=4))
    core.advance_to(30)
    assert bound(core.effects) == set()
    core.observe(member("c2"), a_node("more").offers(cpu=2))
    core.advance_to(60)
    assert bound(core.effects) == set(NEW)


@pytest.mark.parametrize("match", ["once-satisfied", "waiting-and-running"])
def test_while_others_stay_the_replacement_of_one_that_leaves_goes_at_once(match: str) -> None:
    core = running(match_policy=match)
    core.observe(*leaving("a", match_policy=match), member("a2", match_policy=match))
    core.observe(a_node("m").offers(cpu=2))
    core.advance_to(30)
    assert bound(core.effects) == {"a2"}


@pytest.mark.parametrize("match", ["once-satisfied", "only-waiting", "waiting-and-running"])
def test_whatever_its_match_policy_a_new_round_begins_as_a_whole(match: str) -> None:
    core = running(match_policy=match)
    core.observe(*leaving(*OLD, match_policy=match), a_node("m").offers(cpu=4))
    core.observe(*everyone(NEW, match_policy=match))
    core.advance_to(30)
    assert bound(core.effects) == set()
    core.observe(a_node("more").offers(cpu=2))
    core.advance_to(60)
    assert bound(core.effects) == set(NEW)


def test_who_could_not_be_evicted_is_of_the_old_round_still() -> None:
    core, deletes = evicted()
    core.observe(member("a2"))
    core.run()
    for delete in deletes[:2]:
        core.settle(delete)
    assert bound(core.effects) == set(), "the third is to leave, too"
    core.settle(deletes[2], DENIED)
    core.advance_to(60)
    assert bound(core.effects) == {"a2"}


def test_an_eviction_that_fails_keeps_nobody_who_is_deleted_by_others_meanwhile() -> None:
    core, deletes = evicted()
    core.observe(*leaving(*OLD), member("a2"))
    for delete in deletes:
        core.settle(delete, DENIED)
    core.advance_to(60)
    assert bound(core.effects) == set()


def test_members_that_have_succeeded_count_to_the_minimum_of_the_new_round() -> None:
    core = running()
    core.observe(member("a").on("n").in_phase("Succeeded"))
    core.observe(*leaving("b", "c"), member("b2"))
    core.advance_to(30)
    assert bound(core.effects) == set(), "there is room for it"
    core.observe(member("c2"), a_node("m").offers(cpu=4))
    core.advance_to(60)
    assert bound(core.effects) == {"b2", "c2"}


def test_a_scheduler_that_finds_all_members_terminating_places_their_successors_together() -> None:
    core = EngineHarness(default_profile())
    core.engine.on_gang_updated(gang_object("default/g", {}, satisfied=True), core.now)
    core.observe(a_node().offers(cpu=6), *leaving(*OLD), *everyone(NEW))
    core.observe(a_node("m").offers(cpu=4))
    core.advance_to(30)
    assert bound(core.effects) == set()
    core.observe(a_node("more").offers(cpu=2))
    core.settle(of_kind(Bind, core.advance_to(60))[0])
    assert bound(core.effects) == set(NEW)
    group = core.engine.registry.group_of(core.engine.registry.gangs["default/g"])
    assert not group.schedules_individually, "one of three is bound"


def test_a_scheduler_that_finds_part_of_a_new_round_bound_completes_it_as_a_whole() -> None:
    core = EngineHarness(default_profile())
    core.observe(a_node().offers(cpu=6), *leaving(*OLD), a_node("m").offers(cpu=4))
    core.observe(member("a2").on("m"), *everyone(NEW[1:]))
    core.advance_to(30)
    assert bound(core.effects) == set(), "those that terminate are of another round"
    core.observe_deleted(*everyone(OLD))
    core.advance_to(60)
    assert bound(core.effects) == {"b2", "c2"}


def test_a_round_that_terminates_is_no_part_of_one_that_waits_for_room() -> None:
    core = running(GangPolicy(wait_time=60, on_partial_bind="Delete"))
    core.observe(*leaving(*OLD), *everyone(NEW))
    for now in range(10, 400, 30):
        core.advance_to(now)
    assert of_kind(DeletePod, core.effects) == []
    core.observe_deleted(*everyone(OLD))
    core.advance_to(800)
    assert bound(core.effects) == set(NEW)


def test_of_a_round_bound_in_part_only_those_are_deleted_that_do_not_leave_anyway() -> None:
    core = EngineHarness(
        default_profile(), gangs=GangPolicy(wait_time=60, on_partial_bind="Delete")
    )
    core.observe(a_node().offers(cpu=6), *leaving("a"), member("b").on("n"), *everyone(NEW[:2]))
    core.observe(a_pod("other").needs(cpu=2).on("n"))
    for now in range(0, 100, 20):
        core.advance_to(now)
    assert [delete.pod.name for delete in of_kind(DeletePod, core.effects)] == ["b"]


def test_a_new_round_need_not_be_where_the_old_one_terminates() -> None:
    core = EngineHarness(default_profile())
    where = {"arranger.io/topology": "required=zone"}
    core.observe(a_node().offers(cpu=6).labelled({"zone": "east"}))
    core.observe(*(pod.annotated(where) for pod in leaving(*OLD)))
    core.observe(a_node("m").offers(cpu=6).labelled({"zone": "west"}))
    core.observe(*(pod.annotated(where) for pod in everyone(NEW)))
    core.run()
    assert {node for _, node in placements(core.effects)} == {"m"}
    assert bound(core.effects) == set(NEW)


def test_gangs_that_are_placed_together_begin_anew_together() -> None:
    both = '["default/x", "default/y"]'

    def of_gang(gang: str, n: int) -> PodBuilder:
        return a_pod(f"{gang}{n}").needs(cpu=2).in_gang(gang, 1, groups=both)

    core = EngineHarness(default_profile())
    core.observe(a_node().offers(cpu=4), of_gang("x", 1), of_gang("y", 1))
    core.settle_all(core.run())
    core.observe(of_gang("x", 1).on("n").deleting(), of_gang("y", 1).on("n"))
    core.observe(of_gang("x", 2), a_node("m").offers(cpu=2))
    core.effects.clear()
    core.settle_all(core.advance_to(30))
    assert bound(core.effects) == {"x2"}, "its partner runs"
    core.observe(of_gang("x", 2).on("m").deleting(), of_gang("y", 1).on("n").deleting())
    core.observe(of_gang("x", 3), a_node("more").offers(cpu=4))
    core.advance_to(60)
    assert bound(core.effects) == {"x2"}
    core.observe(of_gang("y", 3))
    core.advance_to(90)
    assert bound(core.effects) == {"x2", "x3", "y3"}


def test_who_terminates_is_no_surplus_that_could_be_taken_besides() -> None:
    core = running()
    for name in ("d", "e"):
        core.observe(a_node(f"of-{name}").offers(cpu=2), member(name).on(f"of-{name}").deleting())
    core.observe(a_pod("vip").needs(cpu=4).with_priority(9))
    victims = {delete.pod.name for delete in of_kind(DeletePod, core.run())}
    assert victims == set(OLD), "one of three would run by itself"


def test_who_terminates_anyway_is_no_loss_to_the_gang() -> None:
    core = EngineHarness(default_profile())
    core.observe(a_node().offers(cpu=10), *(member(name).on("n") for name in "abcd"))
    core.observe(*leaving("e"))
    core.run()
    core.observe(a_pod("vip").needs(cpu=4).with_priority(9))
    assert len(of_kind(DeletePod, core.run())) == 1, "three stay"


def test_the_clock_of_a_round_that_has_gone_does_not_run_for_the_next() -> None:
    core, loose = (
        EngineHarness(default_profile(), gangs=GangPolicy(wait_time=60)),
        {"mode": "NonStrict"},
    )
    core.observe(a_node().offers(cpu=2), member("a", **loose).on("n"))
    core.observe(*everyone(("b", "c"), **loose))
    core.run()  # a third of it is bound, and it is to be completed within a minute
    core.advance_to(50)
    core.observe(*leaving("a", **loose), member("a2", **loose), a_node("m").offers(cpu=2))
    core.advance_to(55)
    core.advance_to(100)
    assert of_kind(AnnotatePod, core.effects) == [], "what is held since the new round may be kept"
    core.advance_to(120)
    assert {note.pod.name for note in of_kind(AnnotatePod, core.effects)} == {"a2", "b", "c"}
