"""Where a part of what follows from a pod's deletion raises, the next call does what is left."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.handlers.gang_handlers import GangHandlers
from arranger.engine.handlers.workload_gangs import WorkloadGangs
from arranger.engine.pod.node_release import NodeRelease
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import EngineHarness

PARTS: dict[str, tuple[type[Any], str]] = {
    "the gang hears of it": (GangHandlers, "on_gangs_changed"),
    "its Gang object is written": (GangObjects, "on_member_lost"),
    "what was kept for its gang is given back": (GangHandlers, "release_admission"),
    "its owner's gang is forgotten": (WorkloadGangs, "forget_pod"),
}


def a_world() -> EngineHarness:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=4))
    harness.start()
    harness.observe(a_pod("a").needs(cpu=1).in_gang("g", 2).on("n"))
    harness.run()
    return harness


def deletions_of(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch, part: str, faults: int
) -> list[tuple[Any, ...]]:
    """What the part has been told, when as many calls as that have raised."""
    of, method = PARTS[part]
    real, told = getattr(of, method), list[tuple[Any, ...]]()
    left = [None] * faults

    def told_it(self: Any, *args: Any) -> Any:
        if left:
            left.pop()
            raise RuntimeError("odd")
        told.append(args)
        return real(self, *args)

    monkeypatch.setattr(of, method, told_it)
    for _ in range(faults):
        with pytest.raises(RuntimeError):
            harness.engine.handlers.on_pod_deleted("default/a", harness.now)
    for _ in range(2):  # the second of these finds nothing left
        harness.engine.handlers.on_pod_deleted("default/a", harness.now)
    return told


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("faults", [1, 3])
def test_a_part_that_raises_is_done_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch, part: str, faults: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        world = a_world()
        expected = deletions_of(world, patch, part, 0)
    harness = a_world()
    told = deletions_of(harness, monkeypatch, part, faults)
    assert [_names(args) for args in told] == [_names(args) for args in expected]
    assert told
    assert not harness.engine.handlers.pods.uids
    assert not harness.engine.handlers.pods._leaving
    harness.engine.check_consistent()


def _names(args: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(str(each) for each in args)


def test_who_may_want_the_node_hears_of_it_though_another_part_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness, told = a_world(), list[str]()
    pods = harness.engine.handlers.pods
    follower = type(pods._followers[0])
    forget, real, left = follower.forget, NodeRelease.notify_pod_removed, [None]

    def forget_it(self: Any, uid: str) -> Any:
        if left:
            left.pop()
            raise RuntimeError("odd")
        return forget(self, uid)

    def notify(self: NodeRelease, pod: Any, node: str, now: float) -> None:
        told.append(node)
        real(self, pod, node, now)

    monkeypatch.setattr(follower, "forget", forget_it)
    monkeypatch.setattr(NodeRelease, "notify_pod_removed", notify)
    with pytest.raises(RuntimeError):
        harness.engine.handlers.on_pod_deleted("default/a", harness.now)
    harness.engine.handlers.on_pod_deleted("default/a", harness.now)
    assert told == ["n"]


def test_a_gang_hears_of_what_was_left_where_the_pod_is_there_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness, told = a_world(), set[str]()
    real, left = GangHandlers.on_gangs_changed, [None]

    def changed(self: GangHandlers, names: set[str], now: float) -> None:
        if left:
            left.pop()
            raise RuntimeError("odd")
        told.update(names)
        real(self, names, now)

    monkeypatch.setattr(GangHandlers, "on_gangs_changed", changed)
    pod = a_pod("a").needs(cpu=1).on("n")
    with pytest.raises(RuntimeError):
        harness.engine.handlers.on_pod_deleted("default/a", harness.now)
    harness.observe(pod)  # of no gang now
    assert told == {"default/g"}
    harness.engine.handlers.on_pod_deleted("default/a", harness.now)
    assert not harness.engine.handlers.pods._leaving
