"""Gangs of members that need different amounts."""

from __future__ import annotations

import pytest

from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, placements


def nodes(*cpus: int) -> list[NodeBuilder]:
    return [a_node(f"n{n}").offers(cpu=cpu) for n, cpu in enumerate(cpus)]


def members(*cpus: int, least: int | None = None) -> list[PodBuilder]:
    """Members ``<n>x<cpu>`` that arrive in this order."""
    minimum = len(cpus) if least is None else least
    return [a_pod(f"{n}x{cpu}").needs(cpu=cpu).in_gang("g", minimum) for n, cpu in enumerate(cpus)]


GPU = a_node("gpu").offers({"example.com/gpu": 1}, cpu=2)
#: Nodes, members, and who is bound.
CASES: dict[str, tuple[list[NodeBuilder], list[PodBuilder], set[str]]] = {
    "the small ones that came first do not take the room of the large one": (
        nodes(3, 2),
        members(1, 1, 3),
        {"0x1", "1x1", "2x3"},
    ),
    "nor do those that need nothing special take the only GPU's node": (
        [GPU, *nodes(1)],
        [
            *members(1, 1, least=3),
            a_pod("gpu").needs({"example.com/gpu": 1}, cpu=1).in_gang("g", 3),
        ],
        {"0x1", "1x1", "gpu"},
    ),
    "a large one that fits nowhere does not keep a minimum of small ones back": (
        nodes(2, 2),
        members(9, 1, 1, least=2),
        {"1x1", "2x1"},
    ),
    "the more important goes before the larger": (
        nodes(3),
        [*members(3, least=1), a_pod("vip").needs(cpu=1).with_priority(9).in_gang("g", 1)],
        {"vip"},
    ),
    "members that need nothing at all": (
        nodes(1),
        [a_pod(f"p{n}").in_gang("g", 2) for n in range(2)],
        {"p0", "p1"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_who_is_bound(case: tuple[list[NodeBuilder], list[PodBuilder], set[str]]) -> None:
    there, pods, expected = case
    harness = EngineHarness(default_profile())
    harness.observe(*there, *pods)
    assert {name for name, _ in placements(harness.run())} == expected
