"""What is told of the end of a binding: the trace, the numbers of attempts, the time it took."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from arranger.api.effects import Bind, Effect
from arranger.api.tracing import AttemptAttributes
from arranger.api.types.core import Pod
from arranger.cluster.pod_info import PodInfo
from arranger.framework.interface import SpecOnlyPlugin, Wait
from arranger.framework.status import CycleState, Status
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import CONFLICT, EngineHarness, of_kind, small_profile

POD = a_pod("p").needs(cpu=3)


class Recorder:
    """Remembers what becomes of pods and of their bindings."""

    def __init__(self) -> None:
        self.attempts: list[tuple[str, str, str, str]] = []
        self.ends: list[tuple[str, str, str]] = []

    def attempt(self, describe: Callable[[], AttemptAttributes]) -> AbstractContextManager[object]:
        return nullcontext()

    def step(self, name: str) -> None:
        pass

    def long_step(self, name: str) -> AbstractContextManager[object]:
        return nullcontext()

    def record_result(self, pod: Pod, node: str, result: str, reason: str) -> None:
        self.attempts.append((pod.metadata.name, node, result, reason))

    def begin_binding(self, pod: Pod, node: str) -> None:
        self.ends.append((pod.metadata.name, "begins", node))

    def mark_binding(self, pod: Pod, event: str) -> None:
        pass

    def end_binding(self, pod: Pod, result: str, reason: str = "") -> None:
        self.ends.append((pod.metadata.name, result, reason))


class Door(SpecOnlyPlugin):
    """Makes ``p`` wait, refuses it, or raises about it, as the test likes."""

    waits: Wait | Status | None = None
    refuses: Status | None = None
    raises = False

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Wait | Status | None:
        return self.waits

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return self.refuses

    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Bind | None:
        if self.raises:
            raise ValueError("boom")
        return None


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def harness(door: Door, recorder: Recorder) -> EngineHarness:
    return EngineHarness(small_profile(door), tracer=recorder)


def place(harness: EngineHarness) -> list[Effect]:
    harness.now = 2.0
    harness.observe(a_node("n1"), POD)
    return harness.run()


def attempts(harness: EngineHarness) -> dict[str, int]:
    return {result: n for (_, result), n in harness.engine.take_stats().attempts.items()}


def test_it_is_bound(harness: EngineHarness, recorder: Recorder) -> None:
    (bind,) = of_kind(Bind, place(harness))
    harness.now = 5.0
    harness.settle(bind)
    assert recorder.attempts == [("p", "n1", "scheduled", "")]
    assert recorder.ends == [("p", "begins", "n1"), ("p", "bound", "")]
    stats = harness.engine.take_stats()
    assert (stats.queue_seconds, stats.attempts_until_bound) == ([3.0], [1])
    assert stats.slowest == (3.0, "default/p")


def test_the_server_refuses_it(harness: EngineHarness, recorder: Recorder) -> None:
    (bind,) = of_kind(Bind, place(harness))
    harness.settle(bind, CONFLICT)
    text = f"binding rejected: {CONFLICT.message}"
    assert recorder.ends[:2] == [("p", "begins", "n1"), ("p", "error", text)]
    assert recorder.attempts == [("p", "n1", "scheduled", ""), ("p", "n1", "error", text)]
    assert attempts(harness) == {"scheduled": 1, "error": 1}


def test_the_pod_is_deleted(harness: EngineHarness, recorder: Recorder) -> None:
    place(harness)
    harness.observe_deleted(POD)
    assert recorder.ends == [("p", "begins", "n1"), ("p", "canceled", "")]
    assert attempts(harness) == {"scheduled": 1}


def test_the_plugin_that_binds_raises(
    harness: EngineHarness, recorder: Recorder, door: Door
) -> None:
    door.raises = True
    place(harness)
    text = 'running Bind plugin "Door": ValueError: boom'
    assert recorder.ends[:2] == [("p", "begins", "n1"), ("p", "error", text)]
    assert recorder.attempts == [("p", "n1", "scheduled", ""), ("p", "n1", "error", text)]


def test_a_plugin_refuses_before_it_is_written(
    harness: EngineHarness, recorder: Recorder, door: Door
) -> None:
    door.refuses = door.reject("the lock is broken")
    place(harness)
    text = "0/1 nodes are available: 1 the lock is broken."
    assert ("p", "unschedulable", text) in recorder.ends
    assert recorder.attempts[-1] == ("p", "n1", "unschedulable", text)
    assert attempts(harness) == {"scheduled": 1, "unschedulable": 1}
    assert harness.entity("p").rejected_by == {"Door"}


def test_a_plugin_refuses_while_it_waits(
    harness: EngineHarness, recorder: Recorder, door: Door
) -> None:
    door.waits = Wait(60)
    place(harness)
    door.waits = door.reject("the door is shut")
    harness.observe(a_node("n2").offers(cpu=1))
    harness.run()
    text = "0/1 nodes are available: 1 the door is shut."
    assert ("p", "unschedulable", text) in recorder.ends
    assert ("p", "n1", "unschedulable", text) in recorder.attempts
