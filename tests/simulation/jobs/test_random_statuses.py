"""Gangs, PodGroups, Queues and Jobs in random worlds with churn: their status says what is so.

``ARRANGER_WORLDS`` is how many worlds there are; each is named by its seed.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.jobs.worlds import World

pytestmark = VIRTUAL_TIME

WORLDS = int(os.environ.get("ARRANGER_WORLDS") or 12)


@pytest.mark.parametrize("seed", range(WORLDS))
async def test_every_status_is_true_whatever_happens(seed: int) -> None:
    world = World(seed)
    await world.live()
    for scheduler in world.sim.schedulers.values():
        scheduler.engine.check_consistent()
