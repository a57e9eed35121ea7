from __future__ import annotations

import pytest

from tests.unit.controllers.desk import ReconcilerHarness


@pytest.fixture
def desk() -> ReconcilerHarness:
    return ReconcilerHarness()
