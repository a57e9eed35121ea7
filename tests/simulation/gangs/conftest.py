"""Fixtures of the simulations of gangs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.harnesses.gangs import GangHarness


@pytest.fixture
def sim() -> Iterator[GangHarness]:
    """A simulation whose invariants are checked in the end, and every gang whole or nothing."""
    sim = GangHarness()
    yield sim
    sim.check()
