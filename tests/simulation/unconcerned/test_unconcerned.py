"""What concerns nobody changes nothing: neither what is done, nor how much is looked at for it.

Worlds are decided in small steps, once as they are and once with a change after each step. The
judge is the world without changes; nothing need be known of what the scheduler keeps of whom.
"""

from __future__ import annotations

from functools import cache

import pytest

from arranger.engine.gang.attempt import attempts, scheduling_cycle
from arranger.engine.gang.preemption import plans
from arranger.engine.pod import attempt_limits
from arranger.framework.runtime import evaluation
from tests.simulation.unconcerned.changes import CHANGES, COSTLY
from tests.simulation.unconcerned.worlds import Done, SteppedWorld

SEEDS = range(12)
#: Steps for each step of a world without changes, where something is looked at again.
_AGAIN = 2


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_limits, "MAX_WORK", 1000)
    monkeypatch.setattr(attempts, "STEP_UNITS", 100)
    monkeypatch.setattr(plans, "STEP_UNITS", 100)
    # Each would be some steps of these: a class is evaluated, and refused, again if a node changes.
    monkeypatch.setattr(evaluation, "_BEGINNING", 0)
    monkeypatch.setattr(scheduling_cycle, "EXPLAINING", 0)


@cache
def without_changes(seed: int) -> tuple[list[Done], int]:
    """What is done in a world, and in how many steps."""
    world = SteppedWorld(seed)
    world.play()
    return world.done, world.steps_taken


@pytest.mark.parametrize("name", CHANGES)
def test_nothing_else_is_done_and_nothing_looked_at_again_if(name: str) -> None:
    for seed in SEEDS:
        done, steps = without_changes(seed)
        world = SteppedWorld(seed, CHANGES[name])
        world.play()
        assert world.done == done, f"seed {seed}"
        most = _AGAIN * steps if name in COSTLY else steps
        assert steps <= world.steps_taken <= most, f"seed {seed}"


def test_many_attempts_take_several_steps() -> None:
    assert sum(without_changes(seed)[1] for seed in SEEDS) > 1000
