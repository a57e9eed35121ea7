"""What the scheduler writes to Gang objects: attempts, holds, and that a gang had its minimum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from arranger.api.effects import Bind, CreateObject, DeleteObject, DeletePod, PatchObject, Refused
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group
from tests.unit.engine.gang_server import GangServer
from tests.unit.engine.harness import EngineHarness, of_kind, placements

GANG = "default/g"
PATH = "/apis/arranger.io/v1alpha1/namespaces/default/gangs/g/status"


@pytest.fixture
def harness() -> EngineHarness:
    return EngineHarness(default_profile())


def gang(size: int = 2, **more: str) -> list[PodBuilder]:
    return [a_pod(f"g-{n}").needs(cpu=1).in_gang("g", size, **more) for n in range(size)]


def an_object(harness: EngineHarness, **status: Any) -> None:
    """The controllers make the Gang, and the watch shows it."""
    saved = harness.gang_server.create(GANG, status=status)
    harness.engine.handlers.on_gang_updated(saved, harness.now)


def later(harness: EngineHarness, seconds: float) -> None:
    """Time passes, and what is written of Gangs is taken."""
    end = harness.now + seconds
    while harness.now < end:
        harness.advance_to(min(harness.now + 1, end))
        harness.settle_gangs()


def told(harness: EngineHarness, field: str = "schedulingCycle") -> list[Any]:
    patches = [w for w in harness.gang_server.writes if isinstance(w, PatchObject)]
    return [w.change["status"][field] for w in patches if field in w.change.get("status", {})]


def try_again(harness: EngineHarness, times: int, every: float = 11.0) -> None:
    """Something happens that lets the gang be tried, though it does not help."""
    for _ in range(times):
        later(harness, every)
        harness.observe(a_node(f"n-{harness.now}").offers(cpu=1))
        harness.run()


def bind(harness: EngineHarness, pods: Sequence[PodBuilder]) -> None:
    """All Bindings are taken, and the pods seen on their nodes."""
    harness.settle_all(harness.run())
    harness.observe(*(pod.on("n") for pod in pods))


def restarted(harness: EngineHarness, *pods: PodBuilder) -> EngineHarness:
    """Another scheduler, after this one has died: it reads the Gang and these pods."""
    successor = EngineHarness(default_profile())
    successor.gang_server, successor.now = harness.gang_server, harness.now
    successor.observe(a_node("n").offers(cpu=4), *pods)
    for name in harness.gang_server.objects:
        successor.engine.handlers.on_gang_updated(harness.gang_server.get(name), harness.now)
    return successor


# --- attempts ----------------------------------------------------------------------------------


def test_a_gang_that_is_placed_at_once_was_tried_once_and_costs_one_write(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n").offers(cpu=2), *gang())
    an_object(harness)
    bind(harness, gang())
    later(harness, 1000)
    [write] = harness.gang_server.writes
    uid = harness.gang_server.get(GANG).metadata.uid
    status = {"schedulingCycle": 1, "resourceSatisfied": True}
    assert write == PatchObject(PATH, {"metadata": {"uid": uid}, "status": status})


def test_while_it_is_tried_again_and_again_the_number_is_written_every_five_minutes(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n").offers(cpu=1), *gang(40))
    an_object(harness)
    harness.run()
    try_again(harness, 30)
    assert len(told(harness)) == 2, "in five and a half minutes"
    later(harness, 301)
    assert told(harness)[-1] > 30


def test_a_gang_that_waits_for_members_is_not_tried(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=1), *gang()[:1])
    an_object(harness)
    try_again(harness, 3)
    assert harness.gang_server.writes == []


def test_old_news_and_our_own_echo_are_no_reason_to_write(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=2), *gang())
    an_object(harness)
    bind(harness, gang())
    later(harness, 2)
    before = len(harness.gang_server.writes)
    for _ in range(3):
        harness.engine.handlers.on_gang_updated(harness.gang_server.get(GANG), harness.now)
        later(harness, 100)
    assert len(harness.gang_server.writes) == before == 1


def test_an_object_that_was_deleted_and_made_anew_is_told_again(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=2), *gang())
    bind(harness, gang())
    for _ in range(2):
        an_object(harness)
        later(harness, 2)
    assert told(harness) == [1, 1]
    assert told(harness, "resourceSatisfied") == [True, True]


def test_after_a_restart_the_count_goes_on(harness: EngineHarness) -> None:
    an_object(harness, schedulingCycle=7)
    harness.observe(a_node("n").offers(cpu=2), *gang())
    harness.run()
    later(harness, 2)
    assert told(harness) == [8]


# --- what is held ------------------------------------------------------------------------------


def test_since_when_nodes_are_held_is_told_of_a_gang_that_goes_on_waiting(
    harness: EngineHarness,
) -> None:
    harness.now = 100.0
    an_object(harness)
    harness.observe(a_node("n").offers(cpu=1), *gang(mode="NonStrict"))
    harness.run()
    later(harness, 5)
    assert harness.gang_server.status(GANG)["waitingSince"] == "1970-01-01T00:01:40Z"
    harness.observe(a_node("m").offers(cpu=1))
    harness.settle_all(harness.advance_to(120))
    later(harness, 5)
    status = harness.gang_server.status(GANG)
    assert (status["resourceSatisfied"], "waitingSince" in status) == (True, False)


def test_a_hold_that_ended_with_the_scheduler_is_taken_back(harness: EngineHarness) -> None:
    an_object(harness, waitingSince="1970-01-01T00:01:40Z")
    harness.observe(*gang())
    harness.run()
    later(harness, 5)
    assert "waitingSince" not in harness.gang_server.status(GANG)


def test_nobody_waits_for_a_gang_whose_last_member_with_a_node_has_failed(
    harness: EngineHarness,
) -> None:
    """Who comes later has the whole wait time."""
    an_object(harness)
    pods = gang(3)
    harness.observe(a_node("n").offers(cpu=1), pods[0].on("n"), *pods[1:])
    harness.run()
    later(harness, 5)
    assert "waitingSince" in harness.gang_server.status(GANG)
    harness.observe_deleted(*pods[1:])
    harness.observe(pods[0].on("n").in_phase("Failed"))
    later(harness, 5)
    assert "waitingSince" not in harness.gang_server.status(GANG)


# --- without the controllers -------------------------------------------------------------------


def test_a_gang_that_had_its_minimum_gets_an_object_if_nobody_else_makes_one(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n").offers(cpu=2), *gang())
    bind(harness, gang())
    harness.advance_to(0.5)
    assert harness.settle_gangs() == [], "not at once: the controllers may do it"
    later(harness, 5)
    [create, patch] = harness.gang_server.writes
    assert isinstance(create, CreateObject)
    assert create.manifest["spec"]["bundles"] == [{"name": "", "minMember": 2}]
    assert isinstance(patch, PatchObject)
    assert patch.change["status"] == {"resourceSatisfied": True, "schedulingCycle": 1}


def moved_to_another_gang(harness: EngineHarness, member: PodBuilder) -> None:
    harness.observe(member.on("n").in_gang("h", 2))


def evicted_and_the_other_may_not_be(harness: EngineHarness, member: PodBuilder) -> None:
    harness.observe(a_pod("vip").needs(cpu=2).with_priority(9))
    one, other = sorted(of_kind(DeletePod, harness.run()), key=lambda delete: delete.pod.name)
    harness.settle(one)
    harness.observe_deleted(member, a_pod("vip"))
    harness.settle(other, Refused(403, "Forbidden", "may not delete pods"))


@pytest.mark.parametrize(
    "is_lost",
    [
        pytest.param(lambda h, pod: h.observe_deleted(pod), id="it is deleted"),
        pytest.param(lambda h, pod: h.observe(pod.on("n").deleting()), id="it is being deleted"),
        pytest.param(lambda h, pod: h.observe(pod.on("n").in_phase("Failed")), id="it fails"),
        moved_to_another_gang,
        evicted_and_the_other_may_not_be,
    ],
)
def test_at_once_if_it_loses_a_member_before(
    harness: EngineHarness, is_lost: Callable[[EngineHarness, PodBuilder], None]
) -> None:
    """A scheduler that dies now leaves its successor pods that tell of no minimum."""
    pods = gang()
    harness.observe(a_node("n").offers(cpu=2), *pods)
    bind(harness, pods)
    is_lost(harness, pods[0])
    harness.run()
    assert CreateObject in map(type, harness.settle_gangs()), "not after two seconds"
    harness.advance_to(1)
    harness.settle_gangs()
    assert harness.gang_server.status(GANG)["resourceSatisfied"] is True


def test_a_gang_that_waits_gets_none_and_others_gangs_neither(harness: EngineHarness) -> None:
    others = [pod.with_spec(schedulerName="other").on("n") for pod in gang()]
    harness.observe(a_node("n").offers(cpu=9), *others)
    harness.observe(*(a_pod(f"w-{n}").needs(cpu=99).in_gang("w", 2) for n in range(2)))
    later(harness, 10)
    assert harness.gang_server.writes == []


def test_bundles_are_recorded_before_they_are_placed(harness: EngineHarness) -> None:
    pods = [a_pod(role).needs(cpu=9).in_bundle("g", role, 1) for role in ("ps", "worker")]
    harness.observe(a_node("n").offers(cpu=4), *pods)
    harness.run()
    later(harness, 10)
    assert harness.gang_server.get(GANG).recorded_minimums == {"ps": 1, "worker": 1}
    harness.observe(a_pod("chief").needs(cpu=9).in_bundle("g", "chief", 1))
    later(harness, 10)
    assert harness.gang_server.get(GANG).recorded_minimums == {"chief": 1, "ps": 1, "worker": 1}


def test_bundles_that_are_known_to_others_only_are_asked_for_and_taken_over(
    harness: EngineHarness,
) -> None:
    recorded = [{"name": "ps", "minMember": 1}, {"name": "worker", "minMember": 1}]
    spec = {"source": "gang.koordinater.io", "bundles": recorded}
    harness.gang_server.create(GANG, spec=dict(spec))
    harness.gang_server.objects[GANG]["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    worker = a_pod("w").needs(cpu=9).in_bundle("g", "worker", 1).created("2026-01-01T00:00:00Z")
    harness.observe(a_node("n").offers(cpu=4), worker)
    harness.engine.handlers.on_gang_updated(harness.gang_server.get(GANG), harness.now)
    harness.run()
    later(harness, 10)
    assert harness.gang_server.get(GANG).recorded_minimums == {"worker": 1}
    harness.gang_server.objects[GANG]["spec"] = spec  # the controllers have lived through it
    for _ in range(3):
        harness.engine.handlers.on_gang_updated(harness.gang_server.get(GANG), harness.now)
        later(harness, 10)
    assert harness.gang_server.get(GANG).recorded_minimums == {"ps": 1, "worker": 1}
    gang = harness.engine.registry.gangs[GANG]
    assert dict(gang.bundle_minimums) == {"ps": 1, "worker": 1}


def test_bundles_that_somebody_writes_away_without_knowing_of_them_are_written_again(
    harness: EngineHarness,
) -> None:
    """As controllers do that begin when only pods are left that are younger than the object."""
    pods = [a_pod(role).needs(cpu=9).in_bundle("g", role, 1) for role in ("ps", "worker")]
    harness.observe(a_node("n").offers(cpu=4), *pods)
    harness.run()
    later(harness, 10)
    harness.observe_deleted(pods[0])
    harness.gang_server.objects[GANG]["spec"]["bundles"] = [{"name": "worker", "minMember": 1}]
    harness.engine.handlers.on_gang_updated(harness.gang_server.get(GANG), harness.now)
    later(harness, 10)
    assert harness.gang_server.get(GANG).recorded_minimums == {"ps": 1, "worker": 1}


def test_an_object_without_pods_is_deleted_if_nobody_else_does(harness: EngineHarness) -> None:
    an_object(harness)
    harness.run()
    later(harness, 20)
    assert harness.gang_server.objects
    later(harness, 20)
    assert isinstance(harness.gang_server.writes[-1], DeleteObject)
    assert not harness.gang_server.objects


def test_an_object_stays_while_a_pod_group_of_the_name_may_have_to_be_written(
    harness: EngineHarness,
) -> None:
    group = a_pod_group("g", least=2)
    harness.observe(group)
    an_object(harness)
    harness.run()
    later(harness, 100)
    assert GANG in harness.gang_server.objects
    harness.observe_deleted(group)
    later(harness, 40)
    assert GANG not in harness.gang_server.objects


def test_where_gangs_are_not_served_it_is_tried_once_a_minute(harness: EngineHarness) -> None:
    harness.gang_server.served = False
    pods = [*gang(), *(a_pod(f"h-{n}").needs(cpu=1).in_gang("h", 2) for n in range(2))]
    harness.observe(a_node("n").offers(cpu=4), *pods)
    bind(harness, pods)
    later(harness, 50)
    assert len(harness.gang_server.writes) == 1
    harness.gang_server.served = True
    later(harness, 30)
    assert harness.gang_server.objects.keys() == {GANG, "default/h"}


# --- after a restart ---------------------------------------------------------------------------


def test_reduced_below_its_minimum_it_is_known_to_have_had_it(harness: EngineHarness) -> None:
    one, two = gang()
    harness.observe(a_node("n").offers(cpu=2), one, two)
    bind(harness, [one, two])
    later(harness, 5)
    again = a_pod("g-2").needs(cpu=1).in_gang("g", 2)
    successor = restarted(harness, one.on("n"), again)
    assert {name for name, _ in placements(successor.run())} == {"g-2"}


def test_bound_in_part_it_is_not(harness: EngineHarness) -> None:
    one, two, _missing = gang(3)
    successor = restarted(harness, one.on("n"), two)
    successor.run()
    later(successor, 30)
    assert placements(successor.effects) == []


def test_an_object_that_says_so_of_an_earlier_life_is_corrected_before_anything_is_bound(
    harness: EngineHarness,
) -> None:
    an_object(harness, resourceSatisfied=True)
    harness.observe(a_node("n").offers(cpu=2), *gang())
    first = harness.run()
    assert of_kind(Bind, first) == []
    [correction] = of_kind(PatchObject, first)
    assert correction.change["status"]["resourceSatisfied"] is False
    harness.settle_gangs()
    assert {name for name, _ in placements(harness.effects)} == {"g-0", "g-1"}


def test_a_server_that_lets_nobody_write_keeps_no_gang_from_its_place(
    harness: EngineHarness,
) -> None:
    an_object(harness, resourceSatisfied=True)
    harness.observe(a_node("n").offers(cpu=2), *gang())
    [correction] = of_kind(PatchObject, harness.run())
    harness.settle(correction, Refused(403, "Forbidden", "no"))
    assert {name for name, _ in placements(harness.effects)} == {"g-0", "g-1"}


def test_a_gang_that_loses_all_its_nodes_is_corrected_before_it_is_tried(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n").offers(cpu=2), *gang())
    bind(harness, gang())
    later(harness, 5)
    harness.effects.clear()
    harness.observe_deleted(*gang()[:1])
    again = [pod.with_uid(f"again-{n}") for n, pod in enumerate(gang())]
    harness.observe(again[0])
    harness.run()
    harness.effects.clear()
    harness.observe_deleted(gang()[1])
    harness.observe(again[1])
    harness.run()
    assert harness.gang_server.status(GANG)["resourceSatisfied"] is True
    harness.settle_gangs()
    assert harness.gang_server.status(GANG)["resourceSatisfied"] is False


def test_many_gangs_are_recorded_at_a_bounded_rate(harness: EngineHarness) -> None:
    pods = [a_pod(f"g{n}").needs(cpu=1).in_gang(f"g{n}", 1) for n in range(40)]
    harness.observe(a_node("n").offers(cpu=40), *pods, a_pod("waits").needs(cpu=99))
    bind(harness, pods)
    later(harness, 3)
    assert len(harness.gang_server.writes) <= 4
    server: GangServer = harness.gang_server
    while harness.engine.next_timer() is not None and len(server.objects) < 40:
        harness.advance_to(max(harness.now, harness.engine.next_timer() or 0.0))
        harness.settle_gangs()
        assert harness.now < 20
    assert len(server.objects) == 40
