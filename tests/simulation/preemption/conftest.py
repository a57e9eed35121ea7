"""Fixtures of the simulations of preemption."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.harnesses.preemption import PreemptionHarness


@pytest.fixture
def sim() -> Iterator[PreemptionHarness]:
    """A simulation whose invariants are checked in the end."""
    sim = PreemptionHarness()
    yield sim
    sim.check()
