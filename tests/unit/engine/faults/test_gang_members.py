"""A plugin raises about a member of a gang."""

from __future__ import annotations

import pytest

from arranger.api.effects import Effect
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.framework.interface import Plugin
from arranger.framework.status import CycleState
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import EngineHarness, conditions, placements, small_profile


class RaisesAboutFirst(Plugin):
    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> None:
        if pod.key == "default/g-0":
            raise RuntimeError("no such rack")


@pytest.mark.parametrize(
    ("size", "placed", "set_aside"),
    [
        pytest.param(2, [], False, id="the gang needs it, and its owner reads the plugin's name"),
        pytest.param(3, ["g-1", "g-2"], True, id="the others are enough, and do without it"),
    ],
)
def test_whom_a_plugin_raises_about_is_set_aside_if_its_gang_can_do_without_it(
    size: int, placed: list[str], set_aside: bool
) -> None:
    harness = EngineHarness(small_profile(RaisesAboutFirst()))
    members = [a_pod(f"g-{n}").needs(cpu=1).in_gang("g", 2) for n in range(size)]
    harness.observe(a_node("a").offers(cpu=9), *members)
    effects: list[Effect] = []
    for harness.now in range(8):  # attempts at which one raises are backed off
        effects += harness.run()
        harness.engine.check_consistent()
    assert [pod for pod, _ in placements(effects)] == placed
    told = {text for reason, text in conditions(effects) if reason == "SchedulerError"}
    assert any('PreFilter plugin "RaisesAboutFirst"' in text for text in told)
    assert any("set this object aside" in text for text in told) == set_aside
