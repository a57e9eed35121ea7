"""What a pod that has made our own code raise goes on taking, and what it gives back."""

from __future__ import annotations

import pytest

from arranger.api.effects import Bind
from arranger.api.types.core import Pod
from arranger.daemon.informers import Informers
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.kube.watch.informer import Informer
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind, placements, small_profile

TRIPS = {"trips": "yes"}


@pytest.fixture
def unstarted(monkeypatch: pytest.MonkeyPatch) -> EngineHarness:
    """A node of four cpus; a pod annotated with :data:`TRIPS` makes the handler of pods raise."""
    taken_in = PodHandlers._update_gang_membership

    def update(handlers: PodHandlers, pod: Pod) -> set[str]:
        if pod.metadata.annotations.get("trips"):
            raise RuntimeError("a fault of ours")
        return taken_in(handlers, pod)

    monkeypatch.setattr(PodHandlers, "_update_gang_membership", update)
    harness = EngineHarness(small_profile())
    harness.observe(a_node("n").offers(cpu=4))
    return harness


@pytest.fixture
def harness(unstarted: EngineHarness) -> EngineHarness:
    """The same, after the first lists have been read."""
    unstarted.run()
    return unstarted


def watch_of(harness: EngineHarness) -> Informer[Pod]:
    """What the watch of pods is heard by, as in the daemon: the barrier answers for each."""
    informers = Informers(harness.engine, lambda: harness.now, lambda: None)
    found: Informer[Pod] = informers._informers[Pod]
    return found


def hear(harness: EngineHarness, *states: PodBuilder) -> None:
    """The watch shows states of a pod, one after the other."""
    watch = watch_of(harness)
    for pod in states:
        watch.applied(pod.build())
        harness.engine.check_consistent()


def others_placed(harness: EngineHarness) -> bool:
    """Whether there is room for one cpu more."""
    harness.observe(a_pod("late").needs(cpu=1))
    return "late" in dict(placements(harness.run()))


WHOLE_NODE = a_pod("victim").needs(cpu=4)


@pytest.mark.parametrize("seen_before", [False, True])
def test_a_pod_on_a_node_keeps_its_room(harness: EngineHarness, seen_before: bool) -> None:
    earlier = [WHOLE_NODE.on("n")] if seen_before else []
    hear(harness, *earlier, WHOLE_NODE.on("n").annotated(TRIPS))
    assert harness.engine.barrier.suspects
    assert not others_placed(harness)


def test_a_pod_that_is_there_at_the_start_keeps_its_room(unstarted: EngineHarness) -> None:
    hear(unstarted, WHOLE_NODE.on("n").annotated(TRIPS))
    assert not others_placed(unstarted)
    assert unstarted.engine.barrier.suspects or unstarted.engine.barrier.quarantine


def test_a_pod_whose_binding_is_on_its_way_keeps_its_room(harness: EngineHarness) -> None:
    hear(harness, WHOLE_NODE)
    assert of_kind(Bind, harness.run())
    hear(harness, WHOLE_NODE.annotated(TRIPS))
    assert not others_placed(harness)


def test_a_pod_that_waits_takes_nothing(harness: EngineHarness) -> None:
    hear(harness, WHOLE_NODE.annotated(TRIPS))
    assert others_placed(harness)


def test_a_pod_that_has_ended_takes_nothing(harness: EngineHarness) -> None:
    hear(harness, WHOLE_NODE.on("n"), WHOLE_NODE.on("n").in_phase("Succeeded").annotated(TRIPS))
    assert others_placed(harness)


def test_a_pod_gives_its_room_back_when_it_is_gone(harness: EngineHarness) -> None:
    hear(harness, WHOLE_NODE.on("n").annotated(TRIPS))
    harness.observe_deleted(WHOLE_NODE)
    assert others_placed(harness)


def test_a_pod_is_tried_again_once_its_owner_has_changed_it(harness: EngineHarness) -> None:
    hear(harness, WHOLE_NODE.annotated(TRIPS), WHOLE_NODE.annotated(TRIPS))
    assert "victim" not in dict(placements(harness.run()))
    hear(harness, WHOLE_NODE)
    assert "victim" in dict(placements(harness.run()))
