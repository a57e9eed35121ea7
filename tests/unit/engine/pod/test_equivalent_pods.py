"""Pods of one class that come at once are placed as if they came one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, expr
from tests.unit.engine.harness import EngineHarness, placements

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}


def small(name: str) -> PodBuilder:
    return a_pod(name).labelled(WEB).needs(cpu="700m", memory="1Gi")


ALIKE: dict[str, Callable[[str], PodBuilder]] = {
    "that only need room": small,
    "that ask for nothing": lambda name: a_pod(name).labelled(WEB),
    "that claim a port": lambda name: small(name).host_port(80),
    "that spread over zones": lambda name: small(name).spreads(ZONE, over=WEB),
    "that spread over nodes and rather over zones": lambda name: (
        small(name).spreads(HOST, skew=2, over=WEB).spreads(ZONE, over=WEB, soft=True)
    ),
    "that keep apart": lambda name: small(name).apart(HOST, WEB),
    "that keep together": lambda name: small(name).near(ZONE, WEB),
    "that like each other and an image": lambda name: (
        small(name).running("img:1").near(ZONE, WEB, weight=5)
    ),
    "that dislike each other": lambda name: small(name).apart(ZONE, WEB, weight=7),
    "that prefer fast disks": lambda name: small(name).prefers(3, expr("disk", "Exists")),
}


@st.composite
def clusters(draw: st.DrawFn) -> list[NodeBuilder]:
    """Up to six nodes of several sizes and zones."""
    nodes = []
    for n in range(draw(st.integers(1, 6))):
        node = a_node(f"n{n}").offers(cpu=draw(st.integers(1, 6)), memory="16Gi", pods=5)
        if zone := draw(st.sampled_from(["", "a", "b", "c"])):
            node = node.labelled({ZONE: zone})
        if draw(st.booleans()):
            node = node.labelled(disk="fast").holding("img:1", 400 * 2**20)
        if draw(st.integers(0, 4)) == 0:
            node = node.tainted("x", effect="PreferNoSchedule")
        nodes.append(node)
    return nodes


@pytest.mark.parametrize("kind", ALIKE.values(), ids=ALIKE.keys())
@settings(max_examples=25, deadline=None)
@given(nodes=clusters(), count=st.integers(2, 12))
def test_pods(kind: Callable[[str], PodBuilder], nodes: list[NodeBuilder], count: int) -> None:
    pods = [kind(f"p{n:02}") for n in range(count)]
    together = EngineHarness(default_profile())
    together.observe(*nodes, *pods)
    at_once = dict(placements(together.run()))
    seen: list[PodBuilder] = []
    one_by_one: dict[str, str] = {}
    for pod in pods:
        # A scheduler that has only just started knows nothing that it could have kept.
        alone = EngineHarness(default_profile())
        alone.observe(*nodes, *seen, pod)
        for name, node in placements(alone.run()):
            one_by_one[name] = node
            seen.append(pod.on(node))
    assert at_once == one_by_one
