"""Nobody waits at rest for whom an attempt would come to anything.

More worlds of each kind: ``ARRANGER_WORLDS=200``.
"""

from __future__ import annotations

import os

import pytest

from arranger.engine.gang.attempt import attempts
from arranger.engine.gang.preemption import plans
from arranger.engine.pod import attempt_limits
from tests.simulation.at_rest.focuses import FOCUSES
from tests.simulation.at_rest.worlds import RestingWorld

WORLDS = int(os.environ.get("ARRANGER_WORLDS", "56"))


@pytest.mark.parametrize("focus", FOCUSES)
def test_nobody_is_forgotten(focus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(WORLDS):
        monkeypatch.setattr(attempt_limits, "MAX_WORK", (1000, 100_000)[seed % 2])
        for steps in (attempts, plans):
            monkeypatch.setattr(steps, "STEP_UNITS", (60, 150, 400)[seed % 3])
        assert RestingWorld(seed, focus).play() == [], f"seed {seed}"
