"""A few traces of those that ``python -m tests.simulation.backfill`` plays by the thousand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.backfill.judge import Verdict
from tests.simulation.backfill.traces import random_trace
from tests.simulation.backfill.virtual import PLANNED, Machine

SEEDS = (0, 6, 8)


def test_promises_are_kept_and_the_machine_is_used_as_by_easy_backfill() -> None:
    verdict = Verdict()
    for seed in SEEDS:
        verdict.add(seed, 40)
    assert verdict.promises > 50
    assert verdict.late == []
    assert verdict.counted == 0
    assert verdict.utilisation >= verdict.reference_utilisation - 1e-9
    assert verdict.wait < verdict.wait_without
    assert verdict.errors, "some starts are estimated"


@pytest.mark.parametrize("planned", [1, 3])
def test_another_scheduler_that_takes_over_plans_the_same_starts(planned: int) -> None:
    compared = 0
    for seed in SEEDS:
        machine = Machine(replace(PLANNED, planned_gangs=planned))
        arrivals = random_trace(seed, 30)
        while arrivals:
            times = [arrivals[0].arrives] + ([machine.running[0][0]] if machine.running else [])
            machine.step(max(machine.now, min(times)), arrivals)
            machine.engine.check_consistent()
        before = _starts(machine)
        machine.restart()
        machine.run()
        machine.engine.check_consistent()
        after = _starts(machine)
        assert after == before, seed
        compared += len(before)
    assert compared > planned


def _starts(machine: Machine) -> dict[str, float]:
    starts = {name: gang.planned_start for name, gang in machine.engine.registry.gangs.items()}
    return {name: start.at for name, start in starts.items() if start is not None}
