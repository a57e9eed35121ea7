"""A pod whose PreBind writes are done waits until its plugins let it go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from arranger.api.effects import Effect, PatchObject
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.phases import Phase
from arranger.framework.interface import SpecOnlyPlugin, Wait
from arranger.framework.status import SKIP, CycleState, Status
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import (
    CONFLICT,
    EngineHarness,
    conditions,
    event_notes,
    of_kind,
    placements,
    small_profile,
)

MakeCore = Callable[..., EngineHarness]
POD = a_pod("p").needs(cpu=3)
WRITE = PatchObject("/api/v1/persistentvolumes/v", {"metadata": {"resourceVersion": "1"}})


class Lock(SpecOnlyPlugin):
    """Writes once, and then waits for a key."""

    def __init__(self) -> None:
        self.answer: Status | Wait | None = Wait(600, "no key was found")
        self.asked = 0
        self.given_up = 0

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        self.given_up += 1

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Sequence[Effect]:
        return [WRITE] if pod.pod.metadata.name == "p" else []

    def wait_pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | Wait | None:
        if pod.pod.metadata.name != "p":
            return None
        self.asked += 1
        return self.answer


@pytest.fixture
def lock() -> Lock:
    return Lock()


@pytest.fixture
def locked(make_harness: MakeCore, lock: Lock) -> EngineHarness:
    """A core in which the writes of ``p`` are done, and it is not let go."""
    harness = make_harness(small_profile(lock))
    harness.observe(a_node("n1"), POD)
    (write,) = harness.run()
    assert lock.asked == 0, "asked before the writes were done"
    harness.now = 10
    assert harness.settle(write) == []
    return harness


def test_a_pod_that_is_not_let_go_holds_its_node(locked: EngineHarness) -> None:
    locked.observe(a_pod("q").needs(cpu=3))
    assert placements(locked.run()) == []
    assert locked.phase("p") is Phase.BINDING
    assert locked.node_of(POD) == "n1"


def test_it_is_asked_again_after_an_event_and_not_before(locked: EngineHarness, lock: Lock) -> None:
    before = lock.asked
    lock.answer = None
    assert locked.advance_to(300) == []
    assert lock.asked == before
    locked.observe(a_node("n2"))
    assert locked.engine.ready
    assert placements(locked.run()) == [("p", "n1")]
    assert locked.engine.next_timer() is None


def test_an_event_that_changes_nothing_does_not_prolong_the_wait(locked: EngineHarness) -> None:
    assert locked.engine.next_timer() == 610
    locked.advance_to(300)
    locked.observe(a_node("n2"))
    assert locked.run() == []
    assert locked.engine.next_timer() == 610


def test_it_is_told_when_it_has_waited_in_vain_and_tried_again(
    locked: EngineHarness, lock: Lock
) -> None:
    said = locked.advance_to(610)
    text = 'running PreBind plugin "Lock": no key was found'
    assert event_notes(said) == [("FailedScheduling", text)]
    assert conditions(said) == [("SchedulerError", text)]
    assert lock.given_up == 1
    assert locked.node_of(POD) is None
    assert of_kind(PatchObject, locked.advance_to(611)) == [WRITE]


def test_it_is_broken_off_when_the_plugin_says_so(locked: EngineHarness, lock: Lock) -> None:
    lock.answer = lock.reject("the lock is broken")
    locked.observe(a_node("n2"))
    text = 'running PreBind plugin "Lock": the lock is broken'
    assert conditions(locked.run()) == [("SchedulerError", text)]
    assert lock.given_up == 1


def test_an_exception_breaks_it_off(locked: EngineHarness, lock: Lock) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("rusty")

    lock.wait_pre_bind = fail  # type: ignore[method-assign,assignment]
    locked.observe(a_node("n2"))
    text = 'running PreBind plugin "Lock": RuntimeError: rusty'
    assert conditions(locked.run()) == [("SchedulerError", text)]


def test_a_write_that_comes_too_late_is_not_waited_for(make_harness: MakeCore, lock: Lock) -> None:
    harness = make_harness(small_profile(lock))
    harness.observe(a_node("n1"), POD)
    (write,) = harness.run()
    said = harness.settle(write, CONFLICT)
    assert conditions(said) == [("SchedulerError", f"preparing to bind: {CONFLICT.message}")]
    assert lock.asked == 0


def test_a_pod_deleted_meanwhile_leaves_nothing_behind(locked: EngineHarness, lock: Lock) -> None:
    locked.observe(a_pod("q").needs(cpu=3))
    locked.observe_deleted(POD)
    assert placements(locked.run()) == [("q", "n1")]
    assert lock.given_up == 1
    assert locked.engine.next_timer() is None


def test_a_node_deleted_meanwhile_is_found_out_at_the_binding(
    locked: EngineHarness, lock: Lock
) -> None:
    lock.answer = None
    locked.observe_deleted(a_node("n1"))
    assert event_notes(locked.run()) == [("FailedScheduling", 'node "n1" not found')]


class Consent(SpecOnlyPlugin):
    """Has nothing against it; says so before the other plugins are asked."""

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return SKIP


class Nodes(SpecOnlyPlugin):
    """Notes for which nodes it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Sequence[Effect]:
        self.asked.append(("before", node))
        return [WRITE]

    def wait_pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | Wait | None:
        self.asked.append(("afterwards", node))
        return None


def test_all_plugins_are_asked_about_the_node_that_the_pod_has(make_harness: MakeCore) -> None:
    nodes = Nodes()
    harness = make_harness(small_profile(Consent(), nodes))
    harness.observe(a_node("n1"), POD)
    (write,) = harness.run()
    assert nodes.asked == [("before", "n1")]
    assert placements(harness.settle(write)) == [("p", "n1")]
    assert nodes.asked == [("before", "n1"), ("afterwards", "n1")]
