"""Which nodes a Reservation has that is to have a number of them, resources or cards."""

from __future__ import annotations

import random
from typing import Any

import pytest

from arranger.api.effects import PatchObject
from tests.builders import NodeBuilder, a_node
from tests.unit.engine.harness import of_kind
from tests.unit.engine.reservations.test_reservations import World, pod, reserved, when

GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"


def node(name: str, made: float, *, gpus: int = 0, card: str = "", **labels: str) -> NodeBuilder:
    """A node of one CPU and 8Gi, made at a time."""
    said = {**labels, **({PRODUCT: card} if card else {})}
    offered: dict[str, Any] = {"cpu": 1, "memory": "8Gi", **({GPU: gpus} if gpus else {})}
    manifest = a_node(name).offers(**offered).labelled(said).manifest()
    manifest["metadata"]["creationTimestamp"] = when(made)
    return NodeBuilder(manifest)


def a_world() -> World:
    world = World()
    world.harness.observe(
        node("old", 1),
        node("a1", 2, gpus=8, card="A100", rack="x"),
        node("h1", 3, gpus=4, card="H100", rack="y"),
        node("a2", 4, gpus=8, card="A100", rack="y"),
        node("a3", 5, gpus=8, card="A100", rack="x"),
    )
    return world


#: What of nodes is reserved, which those are, and what the status says.
CHOSEN: dict[str, tuple[dict[str, Any], set[str], str | None]] = {
    "cards of one node": ({"cards": {"A100": 8}}, {"a1"}, None),
    "half a node: nodes are whole": ({"cards": {"A100": 4}}, {"a1"}, None),
    "cards of two nodes": ({"cards": {"A100": 9}}, {"a1", "a2"}, None),
    "cards in a rack": (
        {"cards": {"A100": 9}, "selector": {"matchLabels": {"rack": "x"}}},
        {"a1", "a3"},
        None,
    ),
    "cards that are not there": ({"cards": {"B200": 8}}, set(), "its nodes offer 0 of 8 B200"),
    "more cards than there are": (
        {"cards": {"A100": 30}},
        {"a1", "a2", "a3"},
        "its nodes offer 24 of 30 A100",
    ),
    "two cards": ({"cards": {"A100": 1, "H100": 1}}, {"a1", "h1"}, None),
    "a resource, of whatever card": ({"resources": {GPU: 12}}, {"a1", "h1"}, None),
    "a resource as a text": ({"resources": {GPU: "12"}}, {"a1", "h1"}, None),
    "memory": ({"resources": {"memory": "12Gi"}}, {"old", "a1"}, None),
    "CPU and cards: what serves both counts for both": (
        {"resources": {"cpu": 2}, "cards": {"A100": 8}},
        {"old", "a1"},
        None,
    ),
    "a resource of nobody": (
        {"resources": {"example.com/x": 1}},
        set(),
        "its nodes offer 0 of 1 example.com/x",
    ),
    "names besides": ({"cards": {"A100": 8}, "names": ["a3"]}, {"a1", "a3"}, None),
    "no amount at all": ({"cards": {"A100": 0}}, set(), "nodes.cards: amounts must be above 0"),
    "less than nothing": (
        {"resources": {"cpu": "-1"}},
        set(),
        "nodes.resources: amounts must be above 0",
    ),
    "what is no quantity": ({"resources": {"cpu": "many"}}, set(), "nodes.resources: "),
    "a count besides": (
        {"cards": {"A100": 8}, "selector": {}, "count": 2},
        set(),
        "nodes: count, or resources and cards, not both",
    ),
    "a long name": (
        {"cards": {"x" * 318: 1}},
        set(),
        "nodes: a name of more than 317 characters",
    ),
    "too many": (
        {"resources": {f"example.com/{n}": 1 for n in range(17)}},
        set(),
        "nodes: more than 16 resources and cards",
    ),
}


@pytest.mark.parametrize(("nodes", "chosen", "says"), CHOSEN.values(), ids=CHOSEN.keys())
def test_the_oldest_nodes_that_offer_so_much_are_reserved(
    nodes: dict[str, Any], chosen: set[str], says: str | None
) -> None:
    world = a_world()
    world.show(reserved("r", 0, 500, nodes=nodes))
    world.harness.observe(*(pod(f"p{n}") for n in range(5)))
    assert {"old", "a1", "h1", "a2", "a3"} - set(world.at(1).values()) == chosen
    [status] = [each.change["status"] for each in of_kind(PatchObject, world.harness.effects)]
    assert (status["message"] or "").startswith(says or "")
    assert bool(status["message"]) == bool(says)


def test_a_node_that_comes_takes_no_others_place_and_fills_what_is_missing() -> None:
    world = a_world()
    world.show(reserved("r", 0, 500, nodes={"cards": {"A100": 32}}))
    world.harness.observe(node("late", 9, gpus=8, card="A100"), node("later", 10, gpus=8))
    world.harness.observe(*(pod(f"p{n}") for n in range(7)))
    assert set(world.at(1).values()) == {"old", "h1", "later"}


@pytest.mark.parametrize("seed", range(20))
def test_random_nodes_are_chosen_as_a_plain_loop_does(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    offered = {f"n{n}": rng.choice([0, 0, 1, 4, 8]) for n in range(rng.randint(1, 12))}
    made = {name: rng.randrange(5) for name in offered}
    world.harness.observe(
        *(
            node(n, made[n], gpus=count, card="A100" if count else "")
            for n, count in offered.items()
        )
    )
    wanted = rng.randint(1, 40)
    world.show(reserved("r", 0, 500, nodes={"cards": {"A100": wanted}}))
    world.harness.observe(*(pod(f"p{n}") for n in range(len(offered))))
    chosen: set[str] = set()
    for name in sorted(offered, key=lambda each: (made[each], each)):
        if offered[name] and sum(offered[each] for each in chosen) < wanted:
            chosen.add(name)
    assert set(offered) - set(world.at(1).values()) == chosen
