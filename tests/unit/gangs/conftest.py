"""Fixtures of the tests of gangs."""

from __future__ import annotations

import pytest

from tests.unit.gangs.harness import RegistryHarness


@pytest.fixture
def known() -> RegistryHarness:
    """A registry that knows nothing yet."""
    return RegistryHarness()
