from __future__ import annotations

import pytest

from tests.unit.controllers.gang.harness import ReconcilerHarness


@pytest.fixture
def harness() -> ReconcilerHarness:
    return ReconcilerHarness()
