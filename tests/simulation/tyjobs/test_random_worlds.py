"""TYJobs in random worlds with churn: whatever happens, their status says what is so.

``ARRANGER_WORLDS`` is how many worlds there are; each is named by its seed.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.tyjobs.worlds import World

pytestmark = VIRTUAL_TIME

WORLDS = int(os.environ.get("ARRANGER_WORLDS") or 40)


@pytest.mark.parametrize("seed", range(WORLDS))
async def test_status_is_true_whatever_happens(seed: int) -> None:
    world = World(seed)
    await world.live()
    world.sim.check_jobs()
