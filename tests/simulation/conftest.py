"""Fixtures of the simulations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.harnesses.simulation import SimulationHarness


@pytest.fixture
def sim() -> Iterator[SimulationHarness]:
    """A simulation whose invariants are checked in the end."""
    sim = SimulationHarness()
    yield sim
    sim.check()
