"""Nobody waits at rest for whom an attempt would come to anything.

More worlds: ``ARRANGER_WORLDS=1000``.
"""

from __future__ import annotations

import os

import pytest

from arranger.engine.gang.attempt import attempts
from arranger.engine.gang.preemption import plans
from arranger.engine.pod import attempt_limits
from tests.simulation.at_rest.worlds import RestingWorld

BLOCKS = 7
WORLDS = int(os.environ.get("ARRANGER_WORLDS", "280"))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nobody_is_forgotten(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(block, WORLDS, BLOCKS):
        monkeypatch.setattr(attempt_limits, "MAX_WORK", (1000, 100_000)[seed % 2])
        for steps in (attempts, plans):
            monkeypatch.setattr(steps, "STEP_UNITS", (60, 150, 400)[seed % 3])
        assert RestingWorld(seed).play() == [], f"seed {seed}"
