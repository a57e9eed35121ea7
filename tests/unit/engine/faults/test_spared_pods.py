"""A fault about an object evicts nobody: of its pods it is not known what protects them."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.effects import DeletePod, Effect
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import SigsPodGroup
from arranger.engine.engine import Engine
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.engine.handlers.watched_kinds import WatchedKind
from arranger.gangs.registry import GangRegistry
from arranger.kube.watch.decoder import PartialMetadata, PartialObjectMetadata
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, PodGroupBuilder, a_node, a_pod, a_pod_group, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind, placements
from tests.unit.engine.reservations.test_reservations import reserved, when

LIMIT = "arranger.io/max-run-time"
GROUP = a_pod_group("g", least=2, queue="q")


def member(name: str, **status: Any) -> PodBuilder:
    """A pod of the PodGroup that has run since the beginning."""
    running = a_pod(name).needs(cpu=2).in_pod_group("g").on("n")
    return running.with_status(phase="Running", startTime=when(0), **status)


MEMBERS = [member("a"), member("b")]


def evicted(effects: list[Effect]) -> list[str]:
    return [each.pod.name for each in of_kind(DeletePod, effects)]


def kind_of(engine: Engine) -> WatchedKind[Any]:
    return engine.handlers.kinds[SigsPodGroup]


class World:
    """An engine that cannot take in a PodGroup, whatever stands in for it."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *objects: Any, gangs: GangPolicy | None = None
    ) -> None:
        self.harness = EngineHarness(default_profile(), gangs=gangs, queues=QuotaConfig())
        self.harness.expects_faults = True
        self.broken = True
        take_in = GangRegistry.on_pod_group_updated

        def on_pod_group_updated(registry: GangRegistry, group: Any) -> set[str]:
            if self.broken:
                raise RuntimeError("no PodGroup can be taken in")
            return take_in(registry, group)

        monkeypatch.setattr(GangRegistry, "on_pod_group_updated", on_pod_group_updated)
        self.harness.observe(a_node("n").offers(cpu=4), *objects)
        self.harness.start()
        self.show(GROUP)
        self.harness.observe(*MEMBERS)
        self.harness.run()

    def show(self, group: PodGroupBuilder) -> None:
        engine, state = self.harness.engine, group.build()
        try:
            kind_of(engine).updated(state, self.harness.now)
        except RuntimeError as error:
            engine.barrier.on_update_fault(kind_of(engine), state, None, error, self.harness.now)
        else:
            engine.barrier.release(kind_of(engine), state)

    def mend(self) -> None:
        self.broken = False
        self.show(GROUP)
        self.harness.run()


def taker(name: str = "high") -> PodBuilder:
    return a_pod(name).needs(cpu=2).with_spec(priority=9)


@pytest.mark.parametrize("queues", [[], [a_queue("q"), a_queue("default")]], ids=["none", "two"])
def test_nobody_evicts_the_pods_of_a_pod_group_that_is_not_known(
    monkeypatch: pytest.MonkeyPatch, queues: list[Any]
) -> None:
    world = World(monkeypatch, *queues)
    world.harness.observe(taker())
    assert not evicted(world.harness.run())

    world.mend()
    world.harness.observe(taker("q-high").in_queue("q"))
    for now in (10, 400, 800):
        world.harness.advance_to(now)
    assert sorted(evicted(world.harness.effects)) == ["a", "b"]


def test_nor_does_a_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    takers = [taker(f"t{n}").in_gang("t", 2) for n in range(2)]
    world.harness.observe(*takers)
    assert not evicted(world.harness.run())
    world.mend()
    for now in (10, 400, 800):
        world.harness.advance_to(now)
    assert sorted(evicted(world.harness.effects)) == ["a", "b"]


def test_the_limit_of_a_queue_that_is_not_theirs_ends_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    default = a_queue("default")
    default.metadata.annotations[LIMIT] = "1m"
    world = World(monkeypatch, a_queue("q"), default)
    for now in (61, 300):
        assert not evicted(world.harness.advance_to(now))
    world.mend()
    assert not evicted(world.harness.advance_to(900))


def test_no_reservation_has_its_own_users_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, a_queue("q"))
    mine = reserved("r", 50, 5000, "n", evict=True, users={"queues": ["q"]})
    world.harness.engine.handlers.on_object_updated(mine, world.harness.now)
    for now in (51, 70, 300):
        assert not evicted(world.harness.advance_to(now))
    world.mend()
    assert not evicted(world.harness.advance_to(900))


def test_no_gang_that_may_be_whole_is_taken_from_its_nodes() -> None:
    policy = GangPolicy(wait_time=60, on_partial_bind="Delete")
    harness = EngineHarness(default_profile(), gangs=policy)
    harness.expects_faults = True
    harness.observe(a_node("n").offers(cpu=4))
    harness.start()
    first, second, late = (a_pod(name).needs(cpu=1).in_gang("g", 3) for name in "abc")
    kind, state = harness.engine.handlers.kinds[Pod], first.on("n").build()
    harness.engine.barrier.on_update_fault(kind, state, None, RuntimeError("odd"), harness.now)
    broken = PodHandlers.on_updated

    def on_updated(handlers: PodHandlers, pod: Pod, now: float) -> None:
        if pod.metadata.name == "a" and pod.metadata.annotations.keys() & first_words:
            raise RuntimeError("odd")
        broken(handlers, pod, now)

    first_words = state.metadata.annotations.keys()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PodHandlers, "on_updated", on_updated)
        harness.observe(second.on("n"), late)
        for now in (1, 70, 140, 300):
            assert not evicted(harness.advance_to(now))
    for now in (700, 1100):
        harness.advance_to(now)
    assert [name for name, _ in placements(harness.effects)] == ["c"]


@pytest.mark.parametrize("waits", [True, False], ids=["another waits", "nobody waits any more"])
def test_a_gang_that_was_not_to_be_judged_is_given_its_time_again_once_it_is(waits: bool) -> None:
    policy = GangPolicy(wait_time=60, on_partial_bind="Delete")
    harness = EngineHarness(default_profile(), gangs=policy)
    harness.expects_faults = True
    harness.observe(a_node("n").offers(cpu=4))
    harness.start()
    first, second = (a_pod(name).needs(cpu=1).in_gang("g", 3).on("n") for name in "ab")
    late = [a_pod(name).needs(cpu=99).in_gang("g", 3) for name in "cd"]
    barrier, state = harness.engine.barrier, first.build()
    kind = barrier.pod_kind
    with pytest.MonkeyPatch.context() as patch:
        take_in = PodHandlers.on_updated

        def on_updated(handlers: PodHandlers, pod: Pod, now: float) -> None:
            if pod.metadata.name == "a":
                raise RuntimeError("odd")
            take_in(handlers, pod, now)

        patch.setattr(PodHandlers, "on_updated", on_updated)
        barrier.on_update_fault(kind, state, None, RuntimeError("odd"), harness.now)
        harness.observe(second, *late)
        for now in (1, 70, 140, 300):
            assert not evicted(harness.advance_to(now))
        harness.engine.handlers.on_pod_deleted("default/a", harness.now)
        barrier.on_gone(kind, state)
        if not waits:
            for name in "cd":
                harness.engine.handlers.on_pod_deleted(f"default/{name}", harness.now)
        assert not evicted(harness.advance_to(301))
        assert not evicted(harness.advance_to(330))
        assert evicted(harness.advance_to(365)) == ["b"]


@pytest.mark.parametrize("known", [False, True], ids=["never seen", "known"])
def test_nobody_evicts_the_pods_of_a_pod_group_that_could_never_be_decoded(known: bool) -> None:
    harness = EngineHarness(default_profile())
    harness.expects_faults = True
    harness.observe(a_node("n").offers(cpu=4))
    harness.start()
    if known:
        harness.observe(a_pod_group("g", least=1))
    undecodable = PartialObjectMetadata(PartialMetadata("g", "default", "uid-group-g"))
    barrier, kind = harness.engine.barrier, kind_of(harness.engine)
    barrier.on_undecodable(kind, undecodable, "odd", "", harness.now, known=known)
    harness.observe(*MEMBERS, taker())
    assert len(evicted(harness.run())) == known

    harness.observe(a_pod_group("g", least=1))
    barrier.on_heard(kind, a_pod_group("g", least=1).build())
    for now in (10, 400):
        harness.advance_to(now)
    assert len(evicted(harness.effects)) == 1
