"""In busy worlds nobody leaves in vain, and nobody is pushed out for ever.

``ARRANGER_WORLDS`` is how many worlds there are; each is named by its seed.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.preemption.churn import Churn

WORLDS = int(os.environ.get("ARRANGER_WORLDS") or 60)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_who_takes_places_gets_them(seed: int) -> None:
    """Unless something has happened since: a more important one came, the taker was edited, …"""
    world = Churn(seed).play()
    assert not world.in_vain
    assert not world.again, "for these others have left twice"
    assert world.at_rest


def test_there_is_enough_to_judge() -> None:
    """Takers are placed, and most of those that are not have no excuse to be looked for."""
    worlds = [Churn(seed).play() for seed in range(10)]
    placed = sum(world.seen["takers placed"] for world in worlds)
    excused = sum(world.seen["takers excused"] for world in worlds)
    assert placed > 5 * excused > 0
