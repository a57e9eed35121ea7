from __future__ import annotations

import pytest

from tests.unit.controllers.gang.harness import ReconcilerHarness


@pytest.fixture
def desk() -> ReconcilerHarness:
    return ReconcilerHarness()
