"""Pods that wait together for the same room evict little more than the least that makes it.

The judge tries every set of victims there is.
"""

from __future__ import annotations

import pytest

from tests.unit.preemption.small_worlds import SmallWorld, a_small_world

WORLDS = 150


def test_two_that_fit_into_the_room_of_one_victim_evict_that_one() -> None:
    victims = {"large": (0, 8, 10, ""), "small": (1, 4, 10, ""), "safe": (1, 4, 200, "")}
    world = SmallWorld(2, victims, takers=2, size=4)
    world.run()
    assert (world.evicted, world.bound) == (["large"], 2)


def test_two_that_fit_into_the_room_of_one_gang_evict_that_one() -> None:
    victims = {
        "one": (0, 4, 10, "g"),
        "other": (1, 4, 10, "g"),
        "lone": (2, 4, 10, ""),
        **{f"safe-{n}": (n, 4, 200, "") for n in range(3)},
    }
    world = SmallWorld(3, victims, takers=2, size=4, least={"g": 2})
    world.run()
    assert (sorted(world.evicted), world.bound) == (["one", "other"], 2)


def test_nobody_more_important_goes_for_the_sake_of_the_number() -> None:
    victims = {"large": (0, 8, 20, ""), "a": (1, 4, 10, ""), "b": (1, 4, 10, "")}
    world = SmallWorld(2, victims, takers=2, size=4)
    world.run()
    assert (sorted(world.evicted), world.bound) == (["a", "b"], 2)


def test_one_that_waits_alone_goes_where_it_is_cheapest() -> None:
    victims = {"large": (0, 8, 10, ""), "a": (1, 4, 5, ""), "safe": (1, 4, 200, "")}
    world = SmallWorld(2, victims, takers=1, size=4)
    world.run()
    assert (world.evicted, world.bound) == (["a"], 1)


@pytest.mark.parametrize("gangs", [False, True], ids=["lone victims", "gangs among the victims"])
def test_what_is_evicted_in_all_is_near_the_least(gangs: bool) -> None:
    pods = least_pods = cards = least_cards = 0
    for seed in range(WORLDS):
        world = a_small_world(seed, gangs=gangs)
        world.run()
        enough = [gone for gone in world.subsets() if world.room(gone) >= world.bound]
        assert world.bound == min(world.takers, max(map(world.room, world.subsets())))
        assert world.may_go(set(world.evicted))
        pods, cards = pods + len(world.evicted), cards + world.cards(world.evicted)
        least_pods += min(map(len, enough))
        least_cards += min(map(world.cards, enough))
    assert pods <= 1.06 * least_pods
    assert cards <= 1.10 * least_cards


@pytest.mark.parametrize("seed", range(WORLDS))
def test_nobody_more_important_is_evicted_than_must_be(seed: int) -> None:
    world = a_small_world(seed, gangs=False, priorities=(10, 20, 30))
    world.run()
    enough = [gone for gone in world.subsets() if world.room(gone) >= world.bound]
    tops = (max((world.victims[name][2] for name in gone), default=0) for gone in enough)
    assert max((world.victims[name][2] for name in world.evicted), default=0) == min(tops)
