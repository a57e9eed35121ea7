"""What stands on a node for a pod that is set aside keeps others away as the pod does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from arranger.api.types.core import Pod
from arranger.cluster.pod_info import PodInfo
from arranger.framework.interface import Plugin
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, placements, small_profile

ZONE = "topology.kubernetes.io/zone"
NODES = [a_node("n0").in_zone("a"), a_node("n1").in_zone("a"), a_node("n2").in_zone("b")]


def apart(pod: PodBuilder) -> PodBuilder:
    """The pod, in another zone than those of x."""
    near = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": ZONE}
    wish = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    return pod.with_spec(affinity=wish)


def set_aside(harness: EngineHarness, pod: PodBuilder) -> None:
    harness.expects_faults = True
    kind, state = harness.engine.handlers.kinds[Pod], pod.build()
    harness.engine.barrier.on_update_fault(kind, state, None, RuntimeError("odd"), harness.now)
    harness.engine.check_consistent()


PAIRS = {
    "by its label": (a_pod("odd").labelled(app="x"), apart(a_pod("p"))),
    "by what it says": (apart(a_pod("odd")), a_pod("p").labelled(app="x")),
}


@pytest.mark.parametrize("name", PAIRS)
def test_whom_a_pod_keeps_away_it_keeps_away_while_it_is_set_aside(name: str) -> None:
    odd, other = PAIRS[name]
    harness = EngineHarness(default_profile())
    harness.observe(*NODES, a_pod("big").needs(cpu=3).on("n2"))
    harness.start()
    set_aside(harness, odd.on("n0"))
    harness.observe(other.needs(cpu=2))
    assert not placements(harness.run())
    harness.observe(other.needs(cpu=1))
    assert placements(harness.run()) == [("p", "n2")]


def by_labels(pod: PodInfo) -> bool:
    if "odd" in pod.pod.metadata.labels:
        raise RuntimeError("no such label")
    return True


def by_name(pod: PodInfo) -> bool:
    if pod.key == "default/odd":
        raise RuntimeError("no such name")
    return True


class LooksAtPods(Plugin):
    """Raises about a pod on a node.

    Attributes:
        mended: whether it raises no more.
    """

    def __init__(self, judge: Callable[[PodInfo], bool]) -> None:
        self.mended = False
        self._judge = judge

    def filter_node(self, state: Any, pod: Any, node: Any) -> None:
        for each in node.pods:
            assert self.mended or self._judge(each)


@pytest.mark.parametrize("judge", [by_labels, by_name], ids=lambda each: each.__name__)
def test_a_pod_that_raises_wherever_it_stands_comes_back_as_it_was(
    judge: Callable[[PodInfo], bool],
) -> None:
    plugin = LooksAtPods(judge)
    harness = EngineHarness(small_profile(plugin))
    harness.expects_faults = True
    odd = a_pod("odd").labelled(odd="yes").needs(cpu=1)
    harness.observe(*NODES[:2])
    harness.start()
    harness.observe(odd.on("n0"), a_pod("p").needs(cpu=1), a_pod("q").needs(cpu=1))
    for later in (0, 1, 2, 4):
        harness.advance_to(harness.now + later)
    if judge is by_labels:
        assert sorted(placements(harness.effects)) == [("p", "n1"), ("q", "n1")]

    plugin.mended = True
    for later in (100, 400, 700):
        harness.advance_to(harness.now + later)
    assert not harness.engine.barrier.quarantine
    known = harness.engine.cluster.pod("uid-default-odd")
    assert known is not None
    assert known.pod == odd.on("n0").build()
    harness.observe(a_pod("big").needs(cpu=3))
    assert ("big", "n0") in placements(harness.run())
