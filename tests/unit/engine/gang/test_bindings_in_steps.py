"""The bindings of a very large gang begin in several steps; meanwhile all are being bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from arranger.api.effects import Bind, DeletePod, Effect, Refused
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.phases import Phase
from arranger.framework.interface import SpecOnlyPlugin
from arranger.framework.status import CycleState, Status
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind, placements, small_profile
from tests.unit.engine.pod.test_preemption import gang

MakeCore = Callable[..., EngineHarness]
SIZE = 5


@pytest.fixture(autouse=True)
def two_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arranger.engine.pod.binding_cycle.BINDINGS_PER_STEP", 2)


def step(harness: EngineHarness) -> list[str]:
    """One step of the engine; the pods that it wants bound."""
    effects: list[Effect] = harness.engine.run(harness.now)
    harness.engine.check_consistent()
    harness.effects += effects
    return [name for name, _ in placements(effects)]


def rest(harness: EngineHarness) -> list[str]:
    """The pods that are bound in the next steps, no more than two in each."""
    found: list[str] = []
    while harness.engine.ready:
        names = step(harness)
        assert len(names) <= 2
        found += names
    return found


def a_gang(size: int = SIZE, priority: int = 0) -> list[PodBuilder]:
    return gang("g", size, priority)


@pytest.fixture
def complete(harness: EngineHarness) -> EngineHarness:
    """A gang of five has its nodes, n0 to n4; two of its bindings have begun."""
    harness.observe(*(a_node(f"n{n}").offers(cpu=1) for n in range(SIZE)))
    harness.observe(*a_gang())
    assert step(harness) == []
    assert len(step(harness)) == 2
    return harness


def unbegun(harness: EngineHarness) -> list[str]:
    """The members whose bindings have not begun."""
    names = {f"g-{n}" for n in range(SIZE)}
    return sorted(names - {name for name, _ in placements(harness.effects)})


def test_so_many_begin_in_a_step_and_each_once(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=SIZE))
    harness.observe(*a_gang())
    counts = [len(step(harness))]
    while harness.engine.ready:
        counts.append(len(step(harness)))
    assert counts == [0, 2, 2, 1]
    assert sorted(placements(harness.effects)) == [(f"g-{n}", "n") for n in range(SIZE)]
    harness.settle_all(list(harness.effects))
    assert harness.engine.pods() == []


def test_those_of_a_small_gang_begin_at_once(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=2), *a_gang(2))
    assert sorted(step(harness)) == ["g-0", "g-1"]


def test_so_many_of_all_gangs_together_begin_in_a_step(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=6))
    for name in "abc":
        harness.observe(*gang(name, 2))
    assert step(harness) == ["a-0", "a-1"]
    assert [step(harness), step(harness)] == [["b-0", "b-1"], ["c-0", "c-1"]]
    assert not harness.engine.ready


def test_it_wants_to_run_again_at_once(complete: EngineHarness) -> None:
    timer = complete.engine.next_timer()
    assert timer is not None
    assert timer <= complete.now


def test_all_count_as_being_bound_from_the_beginning(complete: EngineHarness) -> None:
    assert {member.phase for member in complete.engine.pods()} == {Phase.BINDING}
    other = a_pod("other").needs(cpu=1)
    complete.observe(other)
    assert rest(complete) == unbegun(complete) or not unbegun(complete)
    assert "other" not in {name for name, _ in placements(complete.effects)}


def test_a_member_that_is_deleted_is_not_bound_and_the_others_are(complete: EngineHarness) -> None:
    gone, *others = unbegun(complete)
    complete.observe_deleted(a_pod(gone))
    assert sorted(rest(complete)) == others
    # As it would be if all had begun at once: the one that comes in its place completes the gang.
    complete.settle_all(list(complete.effects))
    complete.observe(a_gang()[int(gone[-1])])
    assert rest(complete) == [gone]


def test_when_all_are_deleted_nobody_else_is_bound(complete: EngineHarness) -> None:
    complete.observe_deleted(*a_gang())
    assert rest(complete) == []
    assert complete.engine.pods() == []


def test_a_member_whose_node_is_gone_is_not_sent_there(complete: EngineHarness) -> None:
    lost, *others = unbegun(complete)
    (member,) = [m for m in complete.engine.pods() if m.pod.pod.metadata.name == lost]
    complete.observe_deleted(a_node(member.node))
    assert sorted(rest(complete)) == others
    assert complete.phase(lost) is Phase.QUEUED
    complete.settle_all(list(complete.effects))
    complete.observe(a_node("new").offers(cpu=1))
    complete.advance_to(60)
    assert (lost, "new") in placements(complete.effects)


def test_a_binding_that_is_refused_meanwhile_stops_no_other(complete: EngineHarness) -> None:
    others = unbegun(complete)
    first = of_kind(Bind, complete.effects)[0]
    complete.engine.on_outcome(first, Refused(403, "Forbidden", "no"), complete.now)
    assert sorted(set(rest(complete)) - {first.pod.name}) == others


def test_who_is_not_begun_loses_its_node_to_a_preemptor_undeleted(complete: EngineHarness) -> None:
    others = unbegun(complete)
    complete.observe(*gang("high", SIZE, 10))
    rest(complete)
    told = {delete.pod.name for delete in of_kind(DeletePod, complete.effects)}
    sent = {name for name, _ in placements(complete.effects) if name.startswith("g-")}
    assert told <= sent
    assert len(told) < SIZE
    assert told | set(others) == {f"g-{n}" for n in range(SIZE)}


def test_at_the_end_the_rest_is_sent_and_nothing_else(complete: EngineHarness) -> None:
    others = unbegun(complete)
    complete.observe(a_node("more").offers(cpu=1), a_pod("other").needs(cpu=1))
    sent: list[str] = []
    while effects := complete.engine.finish(complete.now):
        names = [name for name, _ in placements(effects)]
        assert len(names) <= 2
        sent += names
        complete.engine.check_consistent()
    assert sorted(sent) == others


class Refuses(SpecOnlyPlugin):
    """Refuses in PreBind, or raises."""

    name_of_pod, error = "", False

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node: str
    ) -> Sequence[Effect] | Status | None:
        if pod.pod.metadata.name != self.name_of_pod:
            return None
        if self.error:
            raise RuntimeError("broken")
        return self.reject("not now")


@pytest.mark.parametrize("raises", [False, True])
def test_a_member_that_pre_bind_refuses_later_keeps_no_other(
    make_harness: MakeCore, raises: bool
) -> None:
    plugin = Refuses()
    harness = make_harness(small_profile(plugin))
    harness.observe(*(a_node(f"n{n}").offers(cpu=1) for n in range(SIZE)))
    harness.observe(*a_gang())
    step(harness)
    step(harness)
    plugin.name_of_pod, *others = unbegun(harness)
    plugin.error = raises
    assert sorted(rest(harness)) == others
    assert harness.phase(plugin.name_of_pod) is Phase.QUEUED
