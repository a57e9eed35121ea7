"""Victims that ask for time are told first, and deleted when it is over, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

from arranger.api.effects import (
    Ambiguous,
    AnnotatePod,
    Applied,
    DeletePod,
    Effect,
    Eviction,
    Outcome,
    PatchPodStatus,
    Refused,
)
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context import pod_events
from arranger.engine.evictions import texts
from arranger.gangs.member_state import MemberState
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, event_notes, of_kind, placements

ASKS = "arranger.io/checkpoint-before-eviction"
SAVED = "arranger.io/checkpointed-at"
DEADLINE = "arranger.io/eviction-deadline"
NOTICE = "arranger.io/EvictionNotice"
BOUND, TERMINATING = MemberState.BOUND, MemberState.TERMINATING
START = "1970-01-01T00:00:00Z"
HIGH = a_pod("high").needs(cpu=1).with_priority(9)


def patient(name: str = "low", node: str = "n", asked: str = "60s") -> PodBuilder:
    pod = a_pod(name).needs(cpu=1).on(node).annotated({ASKS: asked})
    return pod.with_status(phase="Running", startTime=START)


def told(effects: list[Effect]) -> list[PatchPodStatus]:
    """The conditions of notices, given and taken back."""
    patches = of_kind(PatchPodStatus, effects)
    return [p for p in patches if p.condition is not None and p.condition.type == NOTICE]


def said(effects: list[Effect]) -> list[tuple[str, str, str]]:
    """(pod, status, reason) of each notice."""
    found = [(p.pod.name, p.condition) for p in told(effects)]
    return [(name, c.status, c.reason) for name, c in found if c is not None]


def deleted(effects: list[Effect]) -> list[str]:
    return [delete.pod.name for delete in of_kind(DeletePod, effects)]


def nomination(effects: list[Effect]) -> list[tuple[str, str]]:
    """(pod, node) of each nomination written."""
    patches = of_kind(PatchPodStatus, effects)
    return [(p.pod.name, p.nominated_node) for p in patches if p.nominated_node is not None]


@pytest.fixture
def warned() -> EngineHarness:
    """``high`` needs the place of ``low``, which is about to be told."""
    harness = EngineHarness(default_profile(), max_checkpoint_time=600)
    harness.observe(a_node("n").offers(cpu=1), patient())
    harness.start()
    harness.observe(HIGH)
    harness.now = 100.0
    harness.run()
    assert said(harness.effects) == [("low", "True", "PreemptionByScheduler")]
    (notice,) = [patch.condition for patch in told(harness.effects)]
    assert notice is not None
    assert notice.message == (
        "arranger: has to leave node n for a pod that may take its place; it is deleted at "
        "1970-01-01T00:02:40Z, or once arranger.io/checkpointed-at says that it has saved its state"
    )
    assert deleted(harness.effects) == []
    return harness


def answer(harness: EngineHarness, outcome: Outcome | None = None) -> list[Effect]:
    return harness.settle(told(harness.effects)[-1], outcome)


def test_it_is_told_until_when_and_deleted_then(warned: EngineHarness) -> None:
    effects = answer(warned)
    (note,) = of_kind(AnnotatePod, effects)
    assert (note.pod.name, note.annotations) == ("low", {DEADLINE: "1970-01-01T00:02:40Z"})
    ((reason, text),) = event_notes(effects)
    assert reason == "EvictionNotice"
    assert text.startswith("It has to leave node n for a pod that may take its place")
    assert "1970-01-01T00:02:40Z" in text
    assert warned.engine.next_timer() == 160.0
    assert deleted(warned.advance_to(159.0)) == []
    effects = warned.advance_to(160.0)
    (delete,) = of_kind(DeletePod, effects)
    assert (delete.pod.name, delete.eviction) == (
        "low",
        Eviction("n", "preemption", "default/high"),
    )
    assert ("Preempted", "Preempted by pod uid-default-high on node n") in event_notes(effects)
    warned.settle(delete)
    warned.observe_deleted(patient())
    warned.advance_to(180)
    assert placements(warned.effects) == [("high", "n")]


def test_its_time_begins_when_the_server_has_the_notice(warned: EngineHarness) -> None:
    assert answer(warned, Ambiguous("lost")) == []
    assert deleted(warned.advance_to(170.0)) == [], "perhaps it has not been told"
    (note,) = of_kind(AnnotatePod, answer(warned))
    assert note.annotations == {DEADLINE: "1970-01-01T00:03:50Z"}
    assert deleted(warned.advance_to(229.0)) == []
    assert deleted(warned.advance_to(230.0)) == ["low"]


@pytest.mark.parametrize(
    ("status", "may_be_written"), [(403, False), (499, False), (500, True), (503, True), (0, True)]
)
def test_who_cannot_be_told_stays_and_the_taker_looks_elsewhere(
    warned: EngineHarness, status: int, may_be_written: bool
) -> None:
    effects = answer(warned, Refused(status, "No", "no"))
    taken_back = [("low", "False", "PlaceNotNeeded")] if may_be_written else []
    assert said(effects) == taken_back
    assert [reason for reason, _ in event_notes(effects)].count("EvictionWithdrawn") == len(
        taken_back
    )
    assert ("high", "") in nomination(effects)
    assert deleted(warned.advance_to(101.0)) == []
    # It may be told once more, and has all of its time then.
    warned.advance_to(150.0)
    assert said(warned.effects)[-1] == ("low", "True", "PreemptionByScheduler")
    answer(warned)
    assert deleted(warned.advance_to(209.0)) == []
    assert deleted(warned.advance_to(230.0)) == ["low"]


@pytest.mark.parametrize("outcome", [Applied(), Refused(503, "No", "no")], ids=["told", "not told"])
def test_who_has_gone_before_the_answer_comes_is_told_no_more(
    warned: EngineHarness, outcome: Outcome
) -> None:
    warned.observe_deleted(patient())
    effects = answer(warned, outcome)
    assert said(effects) == []
    assert of_kind(AnnotatePod, effects) == []
    assert ("high", "") not in nomination(warned.effects)


def saved(harness: EngineHarness) -> None:
    at = "1970-01-01T00:01:50Z"
    harness.observe(patient().annotated({SAVED: at}))


def leaves(harness: EngineHarness) -> None:
    harness.observe(patient().deleting())


def nobody_needs_it(harness: EngineHarness) -> None:
    harness.observe_deleted(HIGH)


@pytest.mark.parametrize(
    ("event", "gone", "back"),
    [
        pytest.param(saved, ["low"], False, id="it has saved its state: it is deleted now"),
        pytest.param(leaves, [], False, id="it is deleted by others: it need not be deleted"),
        pytest.param(nobody_needs_it, [], True, id="nobody needs its place: it stays"),
    ],
)
def test_something_happens_before_its_time_is_over(
    warned: EngineHarness, event: Callable[[EngineHarness], None], gone: list[str], back: bool
) -> None:
    answer(warned)
    warned.now = 120.0
    event(warned)
    effects = warned.run()
    assert deleted(effects) == gone
    assert said(effects) == ([("low", "False", "PlaceNotNeeded")] if back else [])
    assert [dict(note.annotations) for note in of_kind(AnnotatePod, effects)] == (
        [{DEADLINE: None}] if back else []
    )
    assert deleted(warned.advance_to(700.0)) == []


@pytest.mark.parametrize("first_leaves", [True, False], ids=["leaves", "stays"])
def test_the_time_of_another_is_over_in_the_moment_in_which_one(first_leaves: bool) -> None:
    harness = EngineHarness(default_profile(), max_checkpoint_time=600)
    takers = [a_pod(f"high-{n}").needs(cpu=1).with_priority(9 - n) for n in range(2)]
    for n in range(2):
        harness.observe(a_node(f"n{n}").offers(cpu=1), patient(f"low-{n}", f"n{n}"))
    harness.observe(*takers)
    notices = told(harness.run())
    for each in notices:
        harness.settle(each)
    first, second = (each.pod.name for each in notices)
    harness.now = 60.0
    if first_leaves:
        harness.observe(patient(first, f"n{first[-1]}").deleting())
    else:
        harness.observe_deleted(takers[0])
    effects = harness.run()
    assert deleted(effects) == [second]
    assert said(effects) == ([] if first_leaves else [(first, "False", "PlaceNotNeeded")])


def test_who_stays_can_be_evicted_for_somebody_else(warned: EngineHarness) -> None:
    answer(warned)
    warned.observe_deleted(HIGH)
    warned.run()
    warned.now = 200.0
    warned.observe(a_pod("another").needs(cpu=1).with_priority(5))
    warned.run()
    assert said(warned.effects)[-1] == ("low", "True", "PreemptionByScheduler")
    answer(warned)
    assert deleted(warned.advance_to(259.0)) == []
    assert deleted(warned.advance_to(260.0)) == ["low"]


def test_a_member_of_a_gang_that_stays_is_not_leaving_any_more() -> None:
    harness = EngineHarness(default_profile(), max_checkpoint_time=600)
    low = patient().in_gang("old", 1)
    harness.observe(a_node("n").offers(cpu=1), low, HIGH)
    (patch,) = told(harness.run())
    gang = harness.engine.registry.gang_of(low.info().uid)
    assert gang is not None
    assert [gang.count(state) for state in (TERMINATING, BOUND)] == [1, 0]
    harness.settle(patch)
    harness.observe_deleted(HIGH)
    harness.run()
    assert [gang.count(state) for state in (TERMINATING, BOUND)] == [0, 1]


def test_beside_one_that_asks_for_time_another_is_deleted_at_once() -> None:
    harness = EngineHarness(default_profile(), max_checkpoint_time=600)
    harness.observe(a_node("n").offers(cpu=2), patient())
    harness.observe(a_pod("hasty").needs(cpu=1).on("n"))
    harness.observe(a_pod("high").needs(cpu=2).with_priority(9))
    effects = harness.run()
    assert (deleted(effects), said(effects)) == (
        ["hasty"],
        [("low", "True", "PreemptionByScheduler")],
    )


def test_a_gang_that_takes_the_place_is_named_to_those_who_were_told() -> None:
    harness = EngineHarness(default_profile(), max_checkpoint_time=600)
    for n in range(2):
        harness.observe(a_node(f"n{n}").offers(cpu=1), patient(f"low-{n}", f"n{n}"))
    members = [a_pod(f"g-{n}").needs(cpu=1).with_priority(9).in_gang("g", 2) for n in range(2)]
    harness.observe(*members)
    for patch in told(harness.run()):
        harness.settle(patch)
    effects = harness.advance_to(60.0)
    assert sorted(deleted(effects)) == ["low-0", "low-1"]
    for delete in of_kind(DeletePod, effects):
        assert delete.eviction is not None
        assert (delete.eviction.reason, delete.eviction.gang) == ("preemption", "default/g")


def told_before(name: str, node: str) -> PodBuilder:
    """It was given a minute, until 70, by an earlier run of ours."""
    condition = {
        "type": NOTICE,
        "status": "True",
        "reason": "PreemptionByScheduler",
        "lastTransitionTime": "1970-01-01T00:00:10Z",
    }
    pod = patient(name, node).annotated({DEADLINE: "1970-01-01T00:01:10Z"})
    return pod.with_status(phase="Running", startTime=START, conditions=[condition])


@pytest.mark.parametrize(
    ("takers", "gang"),
    [
        pytest.param([HIGH.nominated_to("n0")], "", id="a lone pod"),
        pytest.param(
            [HIGH.nominated_to("n0").in_gang("g", 1)], "default/g", id="a member of a gang"
        ),
        pytest.param([], None, id="nobody"),
    ],
)
def test_after_a_restart_whoever_is_nominated_takes_the_place(
    takers: list[PodBuilder], gang: str | None
) -> None:
    harness = EngineHarness(default_profile(), max_checkpoint_time=600, unix_start=30)
    harness.observe(a_node("n0").offers(cpu=1), told_before("low", "n0"), *takers)
    harness.start()
    effects = harness.run()
    assert deleted(effects) == []
    assert said(effects) == ([("low", "False", "PlaceNotNeeded")] if gang is None else [])
    evictions = [delete.eviction for delete in of_kind(DeletePod, harness.advance_to(40.0))]
    assert [e.gang for e in evictions if e is not None] == ([] if gang is None else [gang])


def test_after_a_restart_a_gang_asks_again_for_whom_it_could_not_evict() -> None:
    harness = EngineHarness(default_profile(), max_checkpoint_time=600, unix_start=30)
    for n in range(2):
        harness.observe(a_node(f"n{n}").offers(cpu=1), told_before(f"low-{n}", f"n{n}"))
        member = a_pod(f"g-{n}").needs(cpu=1).with_priority(9).in_gang("g", 2)
        harness.observe(member.nominated_to(f"n{n}"))
    harness.start()
    harness.run()
    deletes = of_kind(DeletePod, harness.advance_to(40.0))
    assert sorted(delete.pod.name for delete in deletes) == ["low-0", "low-1"]
    for delete in deletes:
        harness.settle(delete, Refused(403, "Forbidden", "no"))
    for n in range(2):
        harness.observe(patient(f"low-{n}", f"n{n}"))
    harness.advance_to(400.0)
    assert sorted(said(harness.effects)) == [
        (f"low-{n}", "True", "PreemptionByScheduler") for n in range(2)
    ]


@pytest.mark.parametrize(
    ("when", "accused"),
    [
        pytest.param("told", HIGH, id="the taker, when the victim is to be told"),
        pytest.param("told", patient().in_gang("old", 1), id="the victim, when it is to be told"),
        pytest.param("deleted", HIGH, id="the taker, when the victim is to be deleted"),
    ],
)
def test_who_stays_since_one_of_the_two_is_set_aside_counts_as_leaving_no_more(
    when: str, accused: PodBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for others nor in its own gang."""
    harness = EngineHarness(default_profile(), max_checkpoint_time=600)
    low = patient().in_gang("old", 1)

    def complain(accused: PodInfo) -> NoReturn:
        raise ValueError(f"no words for {accused}")

    def broken(*_: object, **__: object) -> NoReturn:
        complain(accused.info())

    harness.observe(a_node("n").offers(cpu=1), low, HIGH)
    where, name = (texts, "condition") if when == "told" else (pod_events, "disruption_condition")
    if when == "deleted":
        harness.settle(*told(harness.run()))
    with monkeypatch.context() as fault:
        fault.setattr(where, name, broken)
        effects = harness.advance_to(60.0)
    assert deleted(effects) == []
    assert said(effects) == [], "who was not told need not hear that it stays"
    assert "EvictionWithdrawn" not in [reason for reason, _ in event_notes(effects)]
    assert not harness.engine._nominator.terminating_victims
    gang = harness.engine.registry.gang_of(low.info().uid)
    assert gang is None or gang.count(TERMINATING) == 0
    harness.advance_to(120.0)
    answer(harness)
    assert deleted(harness.advance_to(180.0)) == ["low"]
