"""When gangs are told that they start, who goes before, and what becomes of a promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec
import pytest

from arranger.api.annotations import MAX_RUN_TIME
from arranger.api.effects import DeletePod, Effect
from arranger.api.types.pod_groups import NativePodGroup
from arranger.api.types.reservation import Reservation
from arranger.engine.context.queue_state import QueueState
from arranger.engine.gang.planning import start_planner
from arranger.engine.gang.state.observed_gang import ShownStart, shown_start
from arranger.engine.gang.state.policy import GangPolicy
from arranger.gangs.planned_start import PlannedStart
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group, a_queue
from tests.unit.engine.harness import (
    EngineHarness,
    conditions,
    of_kind,
    placements,
    plan_starts_in_tiny_steps,
)


@pytest.fixture(params=[False, True], ids=["at once", "in steps"], autouse=True)
def in_steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        plan_starts_in_tiny_steps(monkeypatch)


def policy(**more: float) -> GangPolicy:
    patient = {"starvation_after": 10.0, "reservation_seconds": 1e6}
    return GangPolicy(reservation_max_nodes_percent=100, **{**patient, **more})  # type: ignore[arg-type]


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(name: str, node: str, cpu: int, limit: int | None, start: float = 0.0) -> PodBuilder:
    pod = a_pod(name).needs(cpu=cpu).on(node).with_status(phase="Running", startTime=at(start))
    return pod if limit is None else pod.with_spec(activeDeadlineSeconds=limit)


def gang(name: str, size: int, cpu: int = 1, limit: int | None = None) -> list[PodBuilder]:
    pods = [a_pod(f"{name}-{n}").needs(cpu=cpu).in_gang(name, size) for n in range(size)]
    return pods if limit is None else [pod.with_spec(activeDeadlineSeconds=limit) for pod in pods]


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


def starts(harness: EngineHarness) -> dict[str, tuple[float, str]]:
    gangs = harness.engine.registry.gangs
    planned = {name.partition("/")[2]: each.planned_start for name, each in gangs.items()}
    return {name: (start.at, start.basis) for name, start in planned.items() if start is not None}


def waiting(harness: EngineHarness) -> None:
    """Until the gangs that are there have waited long enough."""
    harness.run()
    harness.advance_to(harness.now + 11)


def busy(**more: float) -> EngineHarness:
    """Two nodes of four CPUs; on the first two end at 600 and two at 900, the second is full."""
    harness = EngineHarness(default_profile(), gangs=policy(**more))
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(2)))
    harness.observe(running("a", "n0", 2, 600), running("b", "n0", 2, 900))
    harness.observe(running("c", "n1", 4, None))
    return harness


def first_of(*gangs: list[PodBuilder]) -> EngineHarness:
    """Two full nodes and gangs that wait, of which ``first`` is planned; now is its start."""
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(2)))
    harness.observe(running("a", "n0", 4, 100), running("c", "n1", 4, 900))
    for pods in gangs:
        harness.observe(*pods)
        harness.run()
    waiting(harness)
    assert starts(harness) == {"first": (100.0, "KnownEnds")}
    harness.now = 100.0
    harness.observe_deleted(running("a", "n0", 4, 100))
    return harness


def test_a_start_from_known_ends_is_promised_in_the_gang_and_told_to_its_pods() -> None:
    harness = busy()
    harness.gang_server.create("default/big")
    harness.engine.handlers.on_gang_updated(harness.gang_server.get("default/big"), 0)
    harness.observe(*gang("big", 2))
    waiting(harness)
    assert starts(harness) == {"big": (600.0, "KnownEnds")}
    harness.settle_gangs()
    harness.advance_to(15)
    harness.settle_gangs()
    status = harness.gang_server.status("default/big")
    assert (status["plannedStart"], status["startBasis"]) == (at(600), "KnownEnds")
    assert "It starts by 00:10 UTC (known ends), after default/a." in harness.entity("big-0").reason
    harness.now = 600.0
    harness.observe_deleted(running("a", "n0", 2, 600))
    assert bound(harness.run()) == {"big-0", "big-1"}
    assert harness.engine.take_stats().broken_promises == {}
    for later in (610, 620):
        harness.advance_to(later)
        harness.settle_gangs()
    assert "plannedStart" not in harness.gang_server.status("default/big")


def test_pods_of_other_namespaces_are_counted_and_not_named() -> None:
    harness = busy()
    others = (pod.in_namespace("other").with_uid(f"u-{n}") for n, pod in enumerate(gang("big", 4)))
    harness.observe(*others)
    waiting(harness)
    reason = harness.entity("big-0").reason
    assert "after 2 pods of other namespaces" in reason
    assert "default/" not in reason


def test_a_start_from_what_others_have_run_is_an_estimate() -> None:
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(a_node("n0").offers(cpu=4), running("train-0", "n0", 1, None))
    harness.run()
    harness.now = 300.0
    harness.observe(running("train-0", "n0", 1, None).in_phase("Succeeded"))
    harness.observe(running("train-1", "n0", 4, None, start=300.0), *gang("big", 2))
    waiting(harness)
    assert starts(harness) == {"big": (600.0, "Estimate")}
    assert "It starts about 00:10 UTC (estimate)" in harness.entity("big-0").reason


def test_an_estimate_that_moves_a_little_is_not_written_again_and_a_promise_is() -> None:
    def shown(start: float, *, known: bool) -> ShownStart:
        return shown_start(PlannedStart(start, known))

    assert not shown(1030, known=False).outdates(shown(1000, known=False), now=900)
    assert shown(1031, known=False).outdates(shown(1000, known=False), now=900)
    assert not shown(1090, known=False).outdates(shown(1000, known=False), now=0)
    assert shown(1111, known=False).outdates(shown(1000, known=False), now=100)
    assert shown(1001, known=True).outdates(shown(1000, known=True), now=0)
    assert shown(1000, known=True).outdates(shown(1000, known=False), now=0)
    assert shown(1000, known=False).outdates(ShownStart(), now=0)
    assert ShownStart().outdates(shown(1000, known=False), now=0)
    assert not ShownStart().outdates(ShownStart(), now=0)


def test_after_a_restart_estimates_follow_from_the_pods_that_ended_before() -> None:
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.now = 1000.0
    ended = {"state": {"terminated": {"finishedAt": at(500)}}, "name": "c"}
    harness.observe(a_node("n0").offers(cpu=4))
    harness.observe(
        running("train-0", "n0", 1, None, start=200.0)
        .in_phase("Succeeded")
        .with_status(containerStatuses=[ended, {"name": "d", "state": {"running": {}}}])
    )
    harness.observe(running("train-1", "n0", 4, None, start=900.0), *gang("big", 2))
    waiting(harness)
    assert starts(harness) == {"big": (1200.0, "Estimate")}


#: Who comes while a gang of two is to start at 600, beside two CPUs that are free until then.
COMERS: dict[str, tuple[PodBuilder, bool]] = {
    "ends in time": (a_pod("p").needs(cpu=1).with_spec(activeDeadlineSeconds=400), True),
    "ends late, and would take the gang's room": (
        a_pod("p").needs(cpu=2).with_spec(activeDeadlineSeconds=900),
        False,
    ),
    "never ends, and fits beside the gang": (a_pod("p").needs(cpu=1), True),
    "never ends, and does not fit beside it": (a_pod("p").needs(cpu=2), False),
    "has a higher priority": (a_pod("p").needs(cpu=2).with_priority(5), True),
    "has a lower priority": (a_pod("p").needs(cpu=2).with_priority(-5), False),
}


@pytest.mark.parametrize(("pod", "placed"), COMERS.values(), ids=COMERS.keys())
def test_before_a_planned_gang_goes_who_delays_it_not(pod: PodBuilder, placed: bool) -> None:
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(a_node("n0").offers(cpu=4), running("a", "n0", 2, 600))
    harness.observe(*gang("big", 3))
    waiting(harness)
    assert starts(harness) == {"big": (600.0, "KnownEnds")}
    harness.observe(pod)
    assert (bound(harness.run()) == {"p"}) == placed


def test_where_many_pods_are_to_be_followed_first_the_plan_is_made_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(start_planner, "MAX_PODS", 1)
    harness = busy()
    for n in range(2, 12):
        harness.observe(a_node(f"n{n}").offers(cpu=4), running(f"c{n}", f"n{n}", 4, None))
    harness.observe(*gang("big", 2))
    harness.run()
    harness.now, steps = 20.0, 0
    while not starts(harness):
        assert harness.engine.ready or steps < 2, "it goes on at once"
        harness.engine.run(harness.now)
        steps += 1
    assert steps > 10
    assert starts(harness) == {"big": (600.0, "KnownEnds")}
    assert "It starts by 00:10 UTC" in harness.entity("big-0").reason
    harness.advance_to(harness.now + 5)
    told = [text for _, text in conditions(harness.effects)]
    assert any("It starts by 00:10 UTC" in text for text in told), "its pods are told"


def test_several_gangs_are_planned_one_behind_the_other() -> None:
    harness = busy(planned_gangs=3)
    harness.observe(*gang("first", 2, limit=100))
    harness.run()
    harness.observe(*gang("second", 2, limit=50))
    harness.run()
    harness.observe(*gang("third", 4))
    waiting(harness)
    assert starts(harness) == {
        "first": (600.0, "KnownEnds"),
        "second": (700.0, "KnownEnds"),
        "third": (900.0, "KnownEnds"),
    }


def test_when_the_planned_gang_starts_the_next_one_is_planned_at_once() -> None:
    harness = first_of(gang("first", 3, limit=1000), gang("second", 8, limit=1000))
    assert bound(harness.run()) == {"first-0", "first-1", "first-2"}
    assert set(starts(harness)) == {"second"}


def test_after_a_planned_gang_the_first_in_the_queue_is_planned_though_it_is_not_tried() -> None:
    harness = first_of(gang("first", 3, limit=1000), gang("second", 8), gang("third", 2))
    # One CPU is left: too little for the second, which is not tried, and for the third, which is.
    assert bound(harness.run()) == {"first-0", "first-1", "first-2"}
    assert set(starts(harness)) == {"second"}


def test_a_gang_that_finds_all_turns_promised_has_its_own_as_soon_as_one_is_over() -> None:
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(a_node("n0").offers(cpu=4), running("a", "n0", 4, 100))
    harness.observe(*(pod.created(at(5)) for pod in gang("late", 3, limit=50)))
    waiting(harness)
    assert starts(harness) == {"late": (100.0, "KnownEnds")}
    harness.observe(*(pod.created(at(1)) for pod in gang("early", 4)))
    harness.run()
    harness.advance_to(30)
    assert starts(harness) == {"late": (100.0, "KnownEnds")}
    harness.now = 40.0
    harness.observe_deleted(running("a", "n0", 4, 100))
    assert bound(harness.run()) == {"late-0", "late-1", "late-2"}
    assert set(starts(harness)) == {"early"}


def test_when_a_pod_ends_early_the_start_is_earlier() -> None:
    harness = busy()
    harness.observe(*gang("big", 4))
    waiting(harness)
    assert starts(harness) == {"big": (900.0, "KnownEnds")}
    harness.now = 100.0
    harness.observe_deleted(running("b", "n0", 2, 900))
    harness.run()
    assert starts(harness) == {"big": (600.0, "KnownEnds")}
    harness.effects.clear()
    harness.advance_to(105)
    assert any("It starts by 00:10 UTC" in text for _, text in conditions(harness.effects))


def test_when_nothing_is_kept_any_more_pods_are_told_of_no_start() -> None:
    harness = busy(reservation_seconds=50.0)
    harness.observe(*gang("big", 2))
    waiting(harness)
    harness.advance_to(20)
    assert "It starts about 00:10 UTC (estimate)" in conditions(harness.effects)[-1][1]
    harness.effects.clear()
    for now in (62, 70):
        harness.advance_to(now)
    assert starts(harness) == {}
    (told,) = {text for _, text in conditions(harness.effects)}
    assert "00:10" not in told


def _part_of_n0() -> dict[str, object]:
    spec = {
        "nodes": {"names": ["n0"], "perNode": {"cpu": 1}},
        "window": {"start": at(0), "duration": "1h"},
        "users": {"queues": ["theirs"]},
    }
    return {"metadata": {"name": "r"}, "spec": spec}


#: What breaks a promise, and how that is counted.
BREAKS: dict[str, tuple[Callable[[EngineHarness], None], str]] = {
    "its node is gone": (lambda h: h.observe_deleted(a_node("n0")), "NodeLost"),
    "a pod outruns its limit": (lambda h: None, "PodOverran"),
    "a pod may run longer than it could": (
        lambda h: h.observe(running("a", "n0", 2, 9000)),
        "LimitRaised",
    ),
    "a part of its node is reserved": (
        lambda h: h.engine.handlers.on_object_updated(
            msgspec.convert(_part_of_n0(), Reservation), h.now
        ),
        "Reservation",
    ),
    "a pod of a higher priority comes": (
        lambda h: (
            h.observe_deleted(running("a", "n0", 2, 600)),
            h.observe(running("vip", "n0", 2, None).with_priority(9)),
        )[0],
        "HigherPriority",
    ),
}


@pytest.mark.parametrize(("happens", "reason"), BREAKS.values(), ids=BREAKS.keys())
def test_a_broken_promise_is_counted_once_with_its_reason(
    happens: Callable[[EngineHarness], None], reason: str
) -> None:
    harness = busy()
    harness.observe(*gang("big", 2))
    waiting(harness)
    happens(harness)
    harness.advance_to(100)
    harness.advance_to(700)
    harness.observe(a_node("n7").offers(cpu=8))
    assert bound([*harness.run(), *harness.advance_to(720)]) == {"big-0", "big-1"}
    assert harness.engine.take_stats().broken_promises == {reason: 1}


@pytest.mark.parametrize(("patience", "evicted"), [(0.0, True), (300.0, True), (700.0, False)])
def test_a_gang_that_starts_soon_waits_rather_than_evicts(patience: float, evicted: bool) -> None:
    harness = EngineHarness(
        default_profile(), gangs=policy(starvation_after=0.0, wait_instead_of_preempting=patience)
    )
    harness.observe(a_node("n0").offers(cpu=4), running("low", "n0", 4, 600))
    harness.observe(*(pod.with_priority(5) for pod in gang("big", 2)))
    assert bool(of_kind(DeletePod, harness.run())) == evicted


def test_after_a_restart_what_was_planned_is_planned_at_once() -> None:
    harness = busy()
    harness.gang_server.create("default/big", status={"plannedStart": at(600)})
    harness.engine.handlers.on_gang_updated(harness.gang_server.get("default/big"), 0)
    harness.observe(*gang("big", 2))
    harness.run()
    assert starts(harness) == {"big": (600.0, "KnownEnds")}


def test_a_start_beyond_all_calendars_is_planned_and_not_told() -> None:
    harness = EngineHarness(default_profile(), gangs=policy())
    lasts = running("a", "n0", 4, None).annotated({MAX_RUN_TIME: "2562047h"})
    harness.observe(a_node("n0").offers(cpu=4), lasts, *gang("big", 2))
    waiting(harness)
    assert starts(harness) == {}
    assert "kn" not in harness.entity("big-0").reason.partition("big-0")[2]


def test_the_limit_of_a_queue_is_a_known_end() -> None:
    harness = EngineHarness(default_profile(), gangs=policy())
    short = a_queue("short")
    short.metadata.annotations[MAX_RUN_TIME] = "300s"
    harness.observe(short, a_queue("default"), a_node("n0").offers(cpu=4))
    harness.observe(running("a", "n0", 4, None).in_queue("short"), *gang("big", 2))
    waiting(harness)
    assert starts(harness) == {"big": (300.0, "KnownEnds")}


def _group(priority: int) -> NativePodGroup:
    spec = {"schedulingPolicy": {"gang": {"minCount": 4}}, "priority": priority}
    return a_pod_group("g")._set("spec", **spec).build(NativePodGroup)


@pytest.mark.parametrize(("priority", "placed"), [(0, [("other", "n0")]), (60, []), (100, [])])
def test_who_need_not_heed_a_plan_of_less_priority_is_tried(
    priority: int, placed: list[tuple[str, str]]
) -> None:
    """Nobody of the gang has a node, so that nothing else has changed for others."""
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(a_node("n0").offers(cpu=4))
    harness.observe(running("a", "n0", 2, None).with_priority(1000))
    harness.engine.handlers.on_pod_group_updated(_group(100), 0.0)
    member = {"schedulingGroup": {"podGroupName": "g"}}
    harness.observe(*(a_pod(f"g-{n}").needs(cpu=1).with_spec(**member) for n in range(4)))
    waiting(harness)
    harness.observe(a_pod("other").needs(cpu=1).with_priority(50))
    assert placements(harness.run()) == []
    harness.now += 5
    harness.engine.handlers.on_pod_group_updated(_group(priority), harness.now)
    assert placements(harness.run()) == placed


def test_nodes_come_with_a_resource_that_nobody_has_named_before() -> None:
    harness = busy()
    harness.observe(*gang("big", 2))
    waiting(harness)
    for number in range(3):
        name = f"example.com/r{number}"
        harness.observe(a_node(f"new-{number}").offers({name: 4}, cpu=1))
        harness.observe(a_pod(f"small-{number}").needs({name: 1}, cpu=1))
        harness.advance_to(harness.now + 2)
    assert starts(harness) == {"big": (600.0, "KnownEnds")}
    assert {harness.entity(f"big-{n}").state for n in range(2)} == {QueueState.UNSCHEDULABLE}


@pytest.mark.parametrize("limit", ["3h", None])
def test_who_waits_rather_than_evicts_evicts_when_its_start_moves_away(limit: str | None) -> None:
    patient = policy(starvation_after=0.0, wait_instead_of_preempting=120.0)
    harness = EngineHarness(default_profile(), gangs=patient)
    old, other = running("old", "n0", 4, None), running("other", "n1", 1, None)
    harness.observe(a_node("n0").offers(cpu=4), old.annotated({MAX_RUN_TIME: "110s"}))
    harness.observe(a_node("n1").offers(cpu=1), other)
    harness.observe(*(pod.with_priority(10) for pod in gang("big", 2, 2)))
    effects = harness.run() + harness.advance_to(1) + harness.advance_to(5)
    assert of_kind(DeletePod, effects) == []
    harness.observe(old if limit is None else old.annotated({MAX_RUN_TIME: limit}))
    harness.observe_deleted(other)  # it is planned anew
    effects = harness.run()
    while harness.now < 15:
        effects += harness.advance_to(harness.now + 1)
    assert [effect.pod.name for effect in of_kind(DeletePod, effects)] == ["old"]


def test_when_one_has_started_the_next_is_planned_that_found_no_nodes_to_keep() -> None:
    half = GangPolicy(
        starvation_after=10.0,
        reservation_seconds=1e6,
        planned_gangs=4,
        reservation_max_nodes_percent=50,
    )
    harness = EngineHarness(default_profile(), gangs=half)
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(4)))
    first = running("a", "n0", 4, 40), running("b", "n1", 4, 40)
    harness.observe(*first, running("c", "n2", 4, 5000), running("d", "n3", 4, 5000))
    for name in ("first", "second"):
        harness.observe(*gang(name, 2, 4))
        harness.run()
    for moment in (11, 12, 40):
        harness.advance_to(moment)
    assert set(starts(harness)) == {"first"}
    harness.observe_deleted(*first)
    effects = harness.run()
    assert bound(effects) == {"first-0", "first-1"}
    harness.settle_all(effects)
    harness.advance_to(42)
    assert set(starts(harness)) == {"second"}
