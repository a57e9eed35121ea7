"""Fixtures of the simulations of Jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders import a_node
from tests.simulation.harnesses.jobs import JobHarness


@pytest.fixture
def sim() -> Iterator[JobHarness]:
    """One node of eight CPUs."""
    sim = JobHarness()
    sim.create(a_node("n1").offers(cpu=8))
    yield sim
    sim.check()
