"""An eviction that was sent is not sent again, whatever is raised about the victim afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.annotations import CHECKPOINT_BEFORE_EVICTION
from arranger.api.effects import DeletePod, Effect, PatchPodStatus, Refused
from arranger.api.types.core import Pod
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.pending_effects import PendingEffects
from arranger.engine.engine import Engine
from arranger.engine.gang.manager import GangManager
from arranger.engine.handlers.watched_kinds import WatchedKind
from arranger.plugins import default_profile
from arranger.quota.preemption.eviction_protection import EvictionProtection
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind
from tests.unit.engine.reservations.test_reservations import reserved, when


def deletes(effects: list[Effect]) -> list[DeletePod]:
    return of_kind(DeletePod, effects)


def pod_kind(engine: Engine) -> WatchedKind[Pod]:
    return engine.handlers.kinds[Pod]


def low(**words: str) -> PodBuilder:
    pod = a_pod("low").needs(cpu=4).on("n").with_status(phase="Running", startTime=when(0))
    return pod.annotated(words)


def a_world(*objects: Any, victim: PodBuilder) -> EngineHarness:
    harness = EngineHarness(default_profile(), max_checkpoint_time=600.0)
    harness.expects_faults = True
    harness.observe(a_node("n").offers(cpu=4), *objects)
    harness.start()
    harness.observe(victim)
    return harness


def high(name: str = "high") -> PodBuilder:
    return a_pod(name).needs(cpu=4).with_spec(priority=9)


def settle_notices(harness: EngineHarness, effects: list[Effect]) -> None:
    """The server has taken the notices among the effects."""
    for patch in of_kind(PatchPodStatus, effects):
        if patch.pod.name == "low":
            harness.settle(patch)


def fault_about(harness: EngineHarness, victim: PodBuilder) -> None:
    """An edit of the victim makes a handler raise, after all that it does."""
    engine, state = harness.engine, victim.labelled(edited="yes").build()
    pod_kind(engine).updated(state, harness.now)
    error = RuntimeError("odd")
    engine.barrier.on_update_fault(pod_kind(engine), state, victim.build(), error, harness.now)
    engine.check_consistent()


def by_preemption() -> tuple[EngineHarness, PodBuilder]:
    harness = a_world(victim=low())
    harness.observe(high())
    return harness, low()


def by_run_time() -> tuple[EngineHarness, PodBuilder]:
    limited = low().in_queue("q")
    queue = a_queue("q")
    queue.metadata.annotations["arranger.io/max-run-time"] = "1m"
    harness = a_world(queue, victim=limited)
    harness.advance_to(61)
    return harness, limited


def by_a_reservation() -> tuple[EngineHarness, PodBuilder]:
    harness = a_world(a_queue("q"), victim=low())
    window = reserved("r", 50, 5000, "n", evict=True, users={"queues": ["q"]})
    harness.engine.handlers.on_object_updated(window, harness.now)
    harness.run()
    harness.advance_to(51)
    return harness, low()


WAYS = {
    "preemption": by_preemption,
    "its run time": by_run_time,
    "a Reservation": by_a_reservation,
}


@pytest.mark.parametrize("way", WAYS)
def test_who_is_set_aside_while_he_leaves_is_evicted_once(way: str) -> None:
    harness, victim = WAYS[way]()
    harness.run()
    assert len(deletes(harness.effects)) == 1
    fault_about(harness, victim)
    if way == "preemption":
        harness.observe(high("another"))
    for later in range(1, 40, 3):
        harness.advance_to(harness.now + later)
    assert not harness.engine.barrier.quarantine
    assert len(deletes(harness.effects)) == 1


@pytest.mark.parametrize("aside", [True, False], ids=["set aside", "another is set aside"])
@pytest.mark.parametrize("told", [True, False], ids=["and told", "and not told yet"])
def test_who_has_been_given_time_is_evicted_after_it_all_the_same(
    *, aside: bool, told: bool
) -> None:
    victim = low(**{CHECKPOINT_BEFORE_EVICTION: "60s"})
    harness = a_world(victim=victim)
    harness.observe(high())
    harness.run()
    assert not deletes(harness.effects), "it has been given time"
    if told:
        settle_notices(harness, harness.effects)
    if aside:
        fault_about(harness, victim)
    else:
        harness.engine.barrier._rollback.take_in_again(victim.build(), harness.now)
    for later in range(1, 60, 3):
        settle_notices(harness, harness.advance_to(harness.now + later))
    assert [each.pod.name for each in deletes(harness.effects)] == ["low"]


@pytest.mark.parametrize("way", WAYS)
def test_he_is_evicted_again_where_the_first_was_refused(way: str) -> None:
    harness, victim = WAYS[way]()
    harness.run()
    (first,) = deletes(harness.effects)
    fault_about(harness, victim)
    harness.settle(first, Refused(500, "InternalError", "not today"))
    for later in range(1, 40, 3):
        harness.advance_to(harness.now + later)
    assert len(deletes(harness.effects)) == 2


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        (PendingEffects, "send"),
        (EvictionProtection, "record_eviction"),
        (GangManager, "on_evicted"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_what_raises_once_an_eviction_is_sent_does_not_send_it_again(
    monkeypatch: pytest.MonkeyPatch, owner: type[Any], method: str
) -> None:
    original, raised = getattr(owner, method), []

    def once(self: Any, about: Any, *more: Any) -> None:
        original(self, about, *more)
        if isinstance(about, DeletePod | PodInfo) and not raised:
            raised.append(about)
            raise RuntimeError("odd")

    monkeypatch.setattr(owner, method, once)
    harness, _ = by_preemption()
    for later in range(1, 40, 3):
        harness.advance_to(harness.now + later)
    assert raised
    assert len(deletes(harness.effects)) == 1


def test_those_that_were_to_be_evicted_later_are_though_one_before_them_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("arranger.engine.pod.preemption_executor.EVICTIONS_PER_STEP", 1)
    raised, on_evicted = [], GangManager.on_evicted

    def third(self: GangManager, victim: PodInfo) -> None:
        on_evicted(self, victim)
        if victim.pod.metadata.name == "low-2" and not raised:
            raised.append(victim)
            raise RuntimeError("odd")

    monkeypatch.setattr(GangManager, "on_evicted", third)
    harness = EngineHarness(default_profile())
    harness.expects_faults = True
    harness.observe(a_node("n").offers(cpu=4))
    harness.observe(*(a_pod(f"low-{n}").needs(cpu=1).on("n") for n in range(4)))
    harness.observe(high())
    for later in range(1, 40, 3):
        harness.advance_to(harness.now + later)
    gone = [each.pod.name for each in deletes(harness.effects)]
    assert sorted(gone) == ["low-0", "low-1", "low-2"], "the last is asked about anew"
