"""Where several equal pods go, so that all together evict least: beside all ways there are.

A node has victims of one size each, the cheapest first; so many of them leave for so many pods.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from arranger.cluster.pod_info import PodInfo
from arranger.preemption.importance import Candidate, by_importance
from arranger.preemption.several_takers import Way, cheapest_way, size_like
from tests.builders import PodBuilder, a_pod

TAKER = a_pod("taker").needs(cpu=4, memory="8Gi", pods=0).info()


class Nodes:
    """Row → its victims, with the pods that fit once the first so many have left."""

    def __init__(self, *nodes: tuple[list[PodInfo], dict[int, int]], budgets: int = 0) -> None:
        self.victims = [victims for victims, _ in nodes]
        self.needed = [needed for _, needed in nodes]
        self.budgets = budgets

    def select(self, row: int, count: int) -> Candidate | None:
        """Who leaves for so many pods."""
        needed = self.needed[row].get(count)
        if needed is None:
            return None
        victims = tuple(by_importance(self.victims[row][:needed]))
        return Candidate(row, victims, self.budgets if count > 1 else 0)

    def way(self, takers: int) -> tuple[dict[int, list[str]], Candidate]:
        ones = [found for row in range(len(self.victims)) if (found := self.select(row, 1))]
        best = min(ones, key=lambda each: (each.cost(), each.row))
        way = cheapest_way(best, ones, takers, self.select, lambda pod: size_like(pod, TAKER))
        return {row: names(found) for row, found in sorted(way.items())}, best


def names(found: Candidate) -> list[str]:
    return sorted(pod.pod.metadata.name for pod in found.victims)


def victim(name: str, priority: int = 0, cpu: int = 4) -> PodInfo:
    return a_pod(name).with_priority(priority).needs(cpu=cpu).on("n").info()


def test_one_pod_goes_where_it_is_cheapest() -> None:
    nodes = Nodes(([victim("a", 5)], {1: 1}), ([victim("b")], {1: 1}))
    assert nodes.way(1)[0] == {1: ["b"]}


CASES: dict[str, tuple[Nodes, int, dict[int, list[str]]]] = {
    "two where one victim has room for both": (
        Nodes(([victim("small")], {1: 1}), ([victim("large", cpu=8)], {1: 1, 2: 1})),
        2,
        {1: ["large"]},
    ),
    "two on two nodes, where no node has room for both": (
        Nodes(([victim("a")], {1: 1}), ([victim("b")], {1: 1})),
        2,
        {0: ["a"], 1: ["b"]},
    ),
    "of ways with as many victims that of the less important": (
        Nodes(([victim("a", 5)], {1: 1}), ([victim("b", 5), victim("c", 0)], {1: 1, 2: 2})),
        2,
        {1: ["b", "c"]},
    ),
    "of ways that are equal otherwise that with the smaller victims": (
        Nodes(
            ([victim("a", 0, 8)], {1: 1, 2: 1}),
            ([victim("b", 0, 6)], {1: 1, 2: 1}),
        ),
        2,
        {1: ["b"]},
    ),
    "of ways that are equal in all that by which the first goes where it is cheapest": (
        Nodes(
            ([victim("a")], {1: 1}),
            ([victim("b")], {1: 1}),
            ([victim("c")], {1: 1}),
        ),
        2,
        {0: ["a"], 1: ["b"]},
    ),
    "as many as there is room for": (Nodes(([victim("a")], {1: 1})), 3, {0: ["a"]}),
    "no more than four": (
        Nodes(([victim(f"v{n}") for n in range(5)], {n: n for n in range(1, 6)})),
        5,
        {0: ["v0", "v1", "v2", "v3"]},
    ),
    "three of four, where the fourth fits nowhere": (
        Nodes(([victim("a"), victim("b")], {1: 1, 2: 2}), ([victim("c")], {1: 1})),
        4,
        {0: ["a", "b"], 1: ["c"]},
    ),
    "nobody more important than the first would evict alone": (
        Nodes(([victim("a", 1)], {1: 1}), ([victim("b", 2)], {1: 1, 2: 1})),
        2,
        {0: ["a"]},
    ),
    "no budget that the first would not break alone": (
        Nodes(([victim("a"), victim("b")], {1: 1, 2: 2}), budgets=1),
        2,
        {0: ["a"]},
    ),
}


@pytest.mark.parametrize(("nodes", "takers", "way"), CASES.values(), ids=CASES.keys())
def test_the_way(nodes: Nodes, takers: int, way: dict[int, list[str]]) -> None:
    assert nodes.way(takers)[0] == way


def all_ways(nodes: Nodes, takers: int, row: int = 0) -> Iterator[Way]:
    if not takers:
        yield {}
    elif row < len(nodes.victims):
        yield from all_ways(nodes, takers, row + 1)
        for count in range(1, takers + 1):
            if (found := nodes.select(row, count)) is not None:
                for way in all_ways(nodes, takers - count, row + 1):
                    yield {row: found, **way}


def cost(way: Way) -> tuple[int, int, int]:
    victims = [pod for found in way.values() for pod in found.victims]
    return (
        len(victims),
        sum(pod.priority for pod in victims),
        sum(size_like(pod, TAKER) for pod in victims),
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_way_is_cheaper(seed: int) -> None:
    rng = random.Random(seed)
    drawn = []
    for row in range(rng.randint(1, 5)):
        victims = [
            victim(f"{row}-{n}", rng.randint(0, 2), rng.randint(1, 8))
            for n in range(rng.randint(1, 4))
        ]
        sizes = sorted(rng.randint(1, len(victims)) for _ in range(rng.randint(1, 4)))
        drawn.append((victims, dict(enumerate(sizes, start=1))))
    nodes, takers = Nodes(*drawn), rng.randint(2, 4)
    found, best = nodes.way(takers)
    top = best.importance(best.victims[0])
    for count in range(takers, 0, -1):
        ways = [
            way
            for way in all_ways(nodes, count)
            if all(each.importance(each.victims[0]) <= top for each in way.values())
        ]
        if ways:
            break
    if count == 1:
        assert found == {best.row: names(best)}
        return
    least = min(ways, key=lambda way: (*cost(way), best.row not in way))
    (same,) = [w for w in ways if {r: names(f) for r, f in sorted(w.items())} == found]
    assert (*cost(same), best.row not in same) == (*cost(least), best.row not in least)


def test_no_more_nodes_are_looked_at_than_those_that_promise_most() -> None:
    asked: set[int] = set()
    ones = [Candidate(row, (victim(f"v{row}"),), 0) for row in range(30)]

    def select(row: int, count: int) -> Candidate | None:
        asked.add(row)
        return None

    cheapest_way(ones[7], ones, 2, select, lambda _: 0)
    assert asked == {7, *range(20)}
    asked.clear()
    cheapest_way(ones[7], ones[:5], 4, select, lambda _: 0)
    assert asked == {7, *range(5)}


@pytest.mark.parametrize(
    ("pod", "size"),
    [
        (a_pod().needs(cpu=4, memory="8Gi"), 2000),
        (a_pod().needs(cpu=2), 500),
        (a_pod().needs(cpu=8, memory="1Gi"), 2125),
        (a_pod().needs({"example.com/other": 9}), 0),
        (a_pod().needs(pods=5), 0),
    ],
    ids=["as much", "half of one", "twice and an eighth", "what nobody asks for", "what is none"],
)
def test_how_much_of_what_a_taker_wants_a_pod_has(pod: PodBuilder, size: int) -> None:
    assert size_like(pod.info(), TAKER) == size
