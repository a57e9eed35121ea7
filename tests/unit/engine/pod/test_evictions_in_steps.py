"""A plan for very many victims is carried out in steps, and given up when nobody needs it."""

from __future__ import annotations

from typing import NoReturn

import pytest

from arranger.api.annotations import CHECKPOINT_BEFORE_EVICTION
from arranger.api.effects import Applied, DeletePod, Effect, PatchPodStatus, Refused
from arranger.engine.context import pod_events
from arranger.gangs.member_state import MemberState
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind
from tests.unit.engine.pod.test_preemption import bound, evicted, gang, running

NODES = 5


@pytest.fixture(autouse=True)
def two_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arranger.engine.pod.preemption_executor.EVICTIONS_PER_STEP", 2)


def step(harness: EngineHarness) -> list[Effect]:
    effects = harness.engine.run(harness.now)
    harness.engine.check_consistent()
    harness.effects += effects
    return effects


@pytest.fixture
def planned(harness: EngineHarness) -> EngineHarness:
    """A gang of five needs the place of five others; two of them have been told to go."""
    for n in range(NODES):
        harness.observe(a_node(f"n{n}").offers(cpu=1), running(f"low-{n}", f"n{n}"))
    harness.observe(*gang("g", NODES, 10))
    assert len(evicted(step(harness))) == 2
    return harness


def low() -> set[str]:
    return {f"low-{n}" for n in range(NODES)}


def left(harness: EngineHarness) -> list[str]:
    """Victims that nobody has told to go."""
    return sorted(low() - evicted(harness.effects))


def test_the_rest_follows_in_the_next_steps_each_victim_once(planned: EngineHarness) -> None:
    counts = []
    while planned.engine.ready:
        counts.append(len(evicted(step(planned))))
    assert [count for count in counts if count] == [2, 1]
    deletes = of_kind(DeletePod, planned.effects)
    assert sorted(delete.pod.name for delete in deletes) == sorted(low())
    assert {d.eviction.gang for d in deletes if d.eviction is not None} == {"default/g"}
    said = {d.condition.message for d in deletes if d.condition is not None}
    assert said == {"arranger: preempting to accommodate a higher priority podgroup"}
    left = {(d.pod.name, d.eviction.node) for d in deletes if d.eviction is not None}
    assert left == {(f"low-{n}", f"n{n}") for n in range(NODES)}
    for n in range(NODES):
        planned.observe_deleted(running(f"low-{n}", f"n{n}"))
    planned.advance_to(20)
    assert bound(planned.effects) == {f"g-{n}" for n in range(NODES)}


def test_it_wants_to_run_again_at_once(planned: EngineHarness) -> None:
    timer = planned.engine.next_timer()
    assert timer is not None
    assert timer <= planned.now


def test_who_is_to_be_told_later_counts_as_leaving_for_others_too(planned: EngineHarness) -> None:
    planned.observe(*gang("h", NODES, 5))
    planned.run()
    assert sorted(evicted(planned.effects)) == sorted(low())
    assert not {d.eviction.gang for d in of_kind(DeletePod, planned.effects) if d.eviction} - {
        "default/g"
    }


def test_when_the_gang_is_deleted_the_others_stay(planned: EngineHarness) -> None:
    untold = left(planned)
    planned.observe_deleted(*gang("g", NODES, 10))
    planned.run()
    assert left(planned) == untold
    # They may be evicted for others.
    planned.observe(*gang("h", NODES, 10))
    planned.run()
    assert left(planned) == []


def test_when_the_first_member_is_deleted_the_gang_still_needs_them(
    planned: EngineHarness,
) -> None:
    planned.observe_deleted(gang("g", NODES, 10)[0])
    planned.observe(gang("g", NODES, 10)[0])
    planned.run()
    assert left(planned) == []


def test_who_is_gone_or_leaves_already_is_not_told(planned: EngineHarness) -> None:
    gone, leaving, told = left(planned)
    planned.observe_deleted(running(gone, f"n{gone[-1]}"))
    planned.observe(running(leaving, f"n{leaving[-1]}").deleting())
    planned.run()
    assert left(planned) == sorted([gone, leaving])
    assert told in evicted(planned.effects)


def test_who_is_set_aside_in_between_is_told_once_in_the_end(planned: EngineHarness) -> None:
    name = left(planned)[0]
    pod = running(name, f"n{name[-1]}")
    planned.observe_unreadable(pod.needs(cpu="much"), pod)
    planned.observe(pod)
    planned.run()
    for other in sorted(low() - {name}):
        planned.observe_deleted(running(other, f"n{other[-1]}"))
    planned.advance_to(60)
    assert [d.pod.name for d in of_kind(DeletePod, planned.effects)].count(name) == 1


def test_a_late_eviction_that_is_refused_is_planned_anew(planned: EngineHarness) -> None:
    planned.run()
    last = of_kind(DeletePod, planned.effects)[-1]
    planned.settle(last, Refused(403, "Forbidden", "no"))
    for name in sorted(low() - {last.pod.name}):
        planned.observe_deleted(running(name, f"n{name[-1]}"))
    planned.advance_to(60)
    again = [d for d in of_kind(DeletePod, planned.effects) if d.pod.name == last.pod.name]
    assert len(again) == 2


def breaks(fault: pytest.MonkeyPatch, about: PodBuilder) -> None:
    """What is said of an eviction raises, and the exception is about this pod."""
    info = about.info()

    def broken(*_: object, **__: object) -> NoReturn:
        accused = info
        raise ValueError(f"no words for {accused}")

    fault.setattr(pod_events, "disruption_condition", broken)


def test_whom_nobody_could_tell_does_not_count_as_leaving(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    taker = a_pod("taker").needs(cpu=1).with_priority(10)
    harness.observe(a_node("n").offers(cpu=1), running("low", "n"), taker)
    with monkeypatch.context() as fault:
        breaks(fault, taker)
        assert evicted(harness.run()) == set()
    assert not harness.engine._nominator.terminating_victims
    assert evicted(harness.advance_to(60)) == {"low"}


@pytest.mark.parametrize("accused", ["old-2", "g-0"], ids=["a victim", "a taker"])
def test_whom_nobody_could_tell_later_counts_as_leaving_no_more(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch, accused: str
) -> None:
    """Neither for others nor in its own gang."""
    old = [pod.on(f"n{n}") for n, pod in enumerate(gang("old", NODES))]
    takers = gang("g", NODES, 10)
    harness.observe(*(a_node(f"n{n}").offers(cpu=1) for n in range(NODES)), *old, *takers)
    told = evicted(step(harness))
    assert len(told) == 2
    with monkeypatch.context() as fault:
        breaks(fault, a_pod(accused))
        assert evicted(harness.run()) == set()
    assert len(harness.engine._nominator.terminating_victims) == len(told)
    counts = harness.engine.registry.gang_of("uid-default-old-0")
    assert counts is not None
    assert counts.count(MemberState.TERMINATING) == len(told)
    harness.observe_deleted(*(pod for pod in old if pod.build().metadata.name in told))
    harness.advance_to(60)
    assert evicted(harness.effects) == {f"old-{n}" for n in range(NODES)}


# --- victims that ask for time -----------------------------------------------------------------


@pytest.fixture
def patient(harness: EngineHarness) -> EngineHarness:
    """A gang of five needs the place of five others, each of which asks for a minute."""
    harness = EngineHarness(default_profile(), max_checkpoint_time=600)
    harness.start()
    for n in range(NODES):
        low = running(f"low-{n}", f"n{n}").annotated({CHECKPOINT_BEFORE_EVICTION: "60s"})
        low = low.with_status(phase="Running", startTime="1970-01-01T00:00:00Z")
        harness.observe(a_node(f"n{n}").offers(cpu=1), low)
    harness.observe(*gang("g", NODES, 10))
    return harness


def steps_of(harness: EngineHarness, kind: type[Effect]) -> list[int]:
    """How many of them each step sends, until nothing is left to be done now."""
    counts = []
    for _ in range(30):
        effects = step(harness)
        named = {(type(e), e.pod.uid) for e in of_kind(kind, effects) if is_about_victims(e)}
        counts.append(len(named))
        for effect in of_kind(PatchPodStatus, effects):
            harness.engine.on_outcome(effect, Applied(), harness.now)
    return [count for count in counts if count]


def is_about_victims(effect: Effect) -> bool:
    return isinstance(effect, DeletePod | PatchPodStatus) and effect.pod.name.startswith("low-")


def test_they_are_given_notice_in_steps_and_deleted_in_steps(patient: EngineHarness) -> None:
    assert steps_of(patient, PatchPodStatus) == [2, 2, 1]
    patient.now += 61
    assert steps_of(patient, DeletePod) == [2, 2, 1]
    assert evicted(patient.effects) == low()


def test_what_is_known_of_the_takers_is_kept_once_for_all_of_them(patient: EngineHarness) -> None:
    steps_of(patient, PatchPodStatus)
    notices = patient.engine._preemption._notices._notices.values()
    assert len(notices) == NODES
    assert len({id(notice.takers) for notice in notices}) == 1
