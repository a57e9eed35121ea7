"""Fixtures of the simulations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A stage on which everything must be in order in the end."""
    stage = Stage()
    yield stage
    stage.check()
