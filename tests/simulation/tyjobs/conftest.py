"""Fixtures of the simulations of TYJobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.harnesses.tyjobs import TYJobHarness


@pytest.fixture
def sim() -> Iterator[TYJobHarness]:
    sim = TYJobHarness()
    yield sim
    sim.check()
