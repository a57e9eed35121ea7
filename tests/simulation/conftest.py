"""Fixtures of the simulations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.harnesses.simulation import SimulationHarness


@pytest.fixture
def stage() -> Iterator[SimulationHarness]:
    """A stage on which everything must be in order in the end."""
    stage = SimulationHarness()
    yield stage
    stage.check()
