"""A node takes no pods while a pod on it is counted in no way, and is as before afterwards."""

from __future__ import annotations

import pytest

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.daemon.informers import Informers
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import EngineHarness, placements, small_profile

NODE = a_node("n").offers(cpu=4)
ODD = a_pod("odd").needs(cpu=1).on("n")


class World:
    """One node; a pod called ``odd`` can be taken in by no book, unless ``mended``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mended = False
        taken_in = Cluster.observe_pod

        def observe(cluster: Cluster, pod: PodInfo) -> None:
            if pod.pod.metadata.name.startswith("odd") and not self.mended:
                raise RuntimeError("a fault of ours")
            taken_in(cluster, pod)

        monkeypatch.setattr(Cluster, "observe_pod", observe)
        self.harness = EngineHarness(small_profile())
        self._informers = Informers(self.harness.engine, lambda: self.harness.now, lambda: None)
        self.hear(NODE)
        self.harness.run()
        self.hear(ODD)

    def hear(self, *builders: object) -> None:
        """The watches show objects."""
        for builder in builders:
            obj = builder.build()  # type: ignore[attr-defined]
            self._informers._informers[type(obj)].applied(obj)

    def gone(self, *builders: object) -> None:
        """The watches show that objects are gone."""
        for builder in builders:
            obj = builder.build()  # type: ignore[attr-defined]
            self._informers._informers[type(obj)].deleted(obj)

    def wait(self, seconds: float = 400) -> None:
        """Time passes, with all that is to be done in it."""
        until = self.harness.now + seconds
        while (due := self.harness.engine.next_timer()) is not None and due <= until:
            self.harness.advance_to(due)
        self.harness.advance_to(until)

    def takes_pods(self) -> bool:
        """Whether the node takes one more."""
        self.hear(a_pod("new").needs(cpu=1))
        placed = "new" in dict(placements(self.harness.run()))
        self.gone(a_pod("new").needs(cpu=1))
        return placed

    def quarantined(self) -> dict[str, int]:
        return dict(self.harness.engine.barrier.quarantine.count())


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_it_takes_none_however_long_it_takes(world: World) -> None:
    assert not world.takes_pods()
    assert world.quarantined() == {"Node": 1, "Pod": 1}
    world.wait(10_000)
    assert not world.takes_pods()
    assert world.quarantined() == {"Node": 1, "Pod": 1}


def test_no_change_of_the_node_opens_it(world: World) -> None:
    world.hear(NODE.labelled(edited="yes"), NODE.with_status(phase="Running"))
    assert not world.takes_pods()
    world.gone(NODE)
    assert world.quarantined() == {"Pod": 1}
    world.hear(NODE)
    assert not world.takes_pods()


def test_a_change_of_the_pod_opens_it_only_if_the_pod_is_counted_then(world: World) -> None:
    world.hear(ODD.labelled(edited="yes"))
    assert not world.takes_pods()
    world.mended = True
    world.hear(ODD.labelled(edited="again"))
    world.wait(0)
    assert world.takes_pods()
    assert world.quarantined() == {}


def test_it_is_open_once_the_pod_is_counted_at_its_next_try(world: World) -> None:
    world.mended = True
    world.wait()
    assert world.takes_pods()
    assert world.quarantined() == {}
    node = world.harness.engine.cluster.table.node(0)
    assert node.status.allocatable == NODE.build().status.allocatable


@pytest.mark.parametrize("how", ["it is gone", "it has ended"])
def test_it_is_open_once_the_pod_takes_nothing_any_more(world: World, how: str) -> None:
    if how == "it is gone":
        world.gone(ODD)
    else:
        world.hear(ODD.in_phase("Succeeded"))
    world.wait(0)
    assert world.takes_pods()
    assert world.quarantined() == {}


def test_each_of_several_pods_keeps_it_closed(world: World) -> None:
    other = a_pod("odd-2").needs(cpu=1).on("n")
    world.hear(other)
    world.gone(ODD)
    world.wait(0)
    assert not world.takes_pods()
    world.gone(other)
    world.wait(0)
    assert world.takes_pods()


def test_so_it_is_with_each_node(world: World) -> None:
    nodes = [f"m{n}" for n in range(5)]
    world.hear(*(a_node(name).offers(cpu=4) for name in nodes))
    world.hear(*(a_pod(f"odd-{name}").needs(cpu=1).on(name) for name in nodes))
    assert not world.takes_pods()
