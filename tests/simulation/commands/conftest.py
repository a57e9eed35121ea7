"""Whatever the commands simulate is judged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.harnesses.judged_command import judged_simulations


@pytest.fixture(autouse=True)
def _judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with judged_simulations(monkeypatch):
        yield
