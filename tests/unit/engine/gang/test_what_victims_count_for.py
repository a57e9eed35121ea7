"""Victims that are sums are not taken away in all, and hidden where members look at them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.gang.preemption.victim_looks import VictimLooks
from arranger.framework.interface import SpecOnlyPlugin
from arranger.framework.status import CycleState
from arranger.plugins import default_profile
from arranger.plugins.nodes.node_ports import NodePorts
from arranger.plugins.topology.inter_pod_affinity import InterPodAffinity
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def _apart(pod: PodBuilder) -> PodBuilder:
    return pod.apart(HOST, {"app": "g"})


def _near(pod: PodBuilder) -> PodBuilder:
    return pod.near(ZONE, {"app": "g"})


def _spread(pod: PodBuilder) -> PodBuilder:
    return pod.spreads(ZONE, over={"app": "g"})


class Moves:
    """Counts the pods that are taken away in all, those of which the sums are, and the hidden."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.in_all, self.sums, self.hidden = 0, 0, 0
        freed, without = Cluster.simulate_freed, Cluster.simulate_without

        def count_freed(
            cluster: Cluster, pods: list[PodInfo], looked_at: Callable[[PodInfo], bool]
        ) -> object:
            self.sums += len(pods)
            self.hidden += sum(map(looked_at, pods))
            return freed(cluster, pods, looked_at)

        def count_without(cluster: Cluster, pods: list[PodInfo]) -> object:
            pods = list(pods)
            if len(pods) > 1:
                self.in_all += len(pods)
            return without(cluster, pods)

        monkeypatch.setattr(Cluster, "simulate_freed", count_freed)
        monkeypatch.setattr(Cluster, "simulate_without", count_without)


@pytest.mark.parametrize("look", [_apart, _near, _spread])
@pytest.mark.parametrize(
    "matched", [False, True], ids=["victims of others", "victims like members"]
)
def test_only_victims_that_members_look_at_are_hidden_and_none_taken_away_in_all(
    look: object, matched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, nodes, size = EngineHarness(default_profile()), 24, 12
    harness.observe(*(a_node(f"n{n}").offers(cpu=4).in_zone(f"z{n % 3}") for n in range(nodes)))
    label = "g" if matched else "low"
    harness.observe(
        *(
            a_pod(f"low-{n}").labelled(app=label).needs(cpu=1).on(f"n{n % nodes}")
            for n in range(4 * nodes)
        )
    )
    harness.engine.run(0.0)
    moves = Moves(monkeypatch)
    gang = (a_pod(f"g-{n}").labelled(app="g").needs(cpu=3).in_gang("g", size) for n in range(size))
    harness.observe(*(look(pod.with_priority(9)) for pod in gang))  # type: ignore[operator]
    harness.engine.run(1.0)
    harness.engine.check_consistent()
    assert moves.sums, "no plan was made"
    assert bool(moves.hidden) is matched
    assert not moves.in_all


def test_victims_that_are_more_than_sums_are_taken_away_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness, nodes, size = EngineHarness(default_profile()), 12, 6
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(nodes)))
    harness.observe(
        *(
            _apart(a_pod(f"low-{n}").labelled(app="low").needs(cpu=4)).on(f"n{n}")
            for n in range(nodes)
        )
    )
    harness.engine.run(0.0)
    moves = Moves(monkeypatch)
    gang = (a_pod(f"g-{n}").labelled(app="g").needs(cpu=3).in_gang("g", size) for n in range(size))
    harness.observe(*(pod.with_priority(9) for pod in gang))
    harness.engine.run(1.0)
    harness.engine.check_consistent()
    assert moves.in_all


def test_a_plugin_that_says_nothing_looks_at_all_pods() -> None:
    class Own(SpecOnlyPlugin):
        pass

    assert Own().looks_at(CycleState(), a_pod("p").info(), a_pod("q").info())


def test_what_a_filter_looks_at_is_not_inherited_by_another_filter() -> None:
    class Ports(NodePorts):
        def filter_node(self, state: CycleState, pod: PodInfo, node: object) -> None:
            return None

    class Renamed(NodePorts):
        name = "Renamed"

    pods = a_pod("p").info(), a_pod("q").info()
    assert Ports().looks_at(CycleState(), *pods)
    assert not Renamed().looks_at(CycleState(), *pods)


def test_a_pod_is_asked_about_once() -> None:
    asked = list[str]()

    class Counting(InterPodAffinity):
        def looks_at(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
            asked.append(other.key)
            return False

    looks = VictimLooks(_asked=[(Counting(), CycleState(), a_pod("p").info())])
    other = a_pod("q").info()
    assert not looks.at(other)
    assert not looks.at(other)
    assert asked == ["default/q"]
