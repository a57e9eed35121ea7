"""A few traces of those that ``python -m tests.simulation.backfill`` plays by the thousand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.paths import TRACES
from tests.simulation.backfill.judge import Verdict, largest_of, wait_of_largest
from tests.simulation.backfill.reference import easy_starts, first_fit_starts
from tests.simulation.backfill.traces import Job, random_trace
from tests.simulation.backfill.virtual import PLANNED, UNPLANNED, Machine
from tests.unit.engine.harness import plan_starts_in_tiny_steps

#: The first has a gang that is not tried when the planned one starts, and is planned nonetheless.
SEEDS = (0, 6, 8)
OPENB_SEEDS = (0, 1)
#: In the last a gang that is put off takes the place that was promised to the one behind it.
LATE_SEEDS = (0, 1, 7, 8)


def test_promises_are_kept_and_jobs_start_as_by_easy_backfill() -> None:
    verdict = Verdict()
    for seed in SEEDS:
        verdict.add(seed, 40)
    assert verdict.promises > 50
    assert verdict.late == []
    assert verdict.counted == 0
    assert verdict.unlike == []
    assert verdict.utilisation >= verdict.reference_utilisation - 1e-9
    assert verdict.errors, "some starts are estimated"


@pytest.mark.skipif(not TRACES.is_dir(), reason=f"no traces at {TRACES}: set ARRANGER_SHARED")
def test_the_same_with_run_times_of_the_openb_trace() -> None:
    verdict = Verdict()
    for seed in OPENB_SEEDS:
        verdict.add(seed, 40, openb=True)
    assert verdict.promises > 50
    assert verdict.late == []
    assert verdict.counted == 0
    assert verdict.utilisation >= verdict.reference_utilisation - 1e-9


#: Gangs planned at a time, and jobs: arrives, size, lasts, limit.
KEPT: dict[str, tuple[int, list[tuple[int, int, int, int]]]] = {
    "the start of a planned gang comes while it backs off": (
        4,
        [
            *((0, 4, 34562, 34562), (0, 4, 17159, 17159), (100, 1, 7024, 7024)),
            *((250, 4, 2364, 2364), (250, 4, 2020, 2020), (260, 16, 10, 7728)),
            *((300, 4, 10, 3519), (900, 8, 20, 20), (910, 1, 10, 2903)),
        ],
    ),
    "a pod takes what is spare, and more than a second later another comes": (
        1,
        [
            *((2, 3, 773, 773), (32, 5, 306, 306), (37, 2, 85457, 85457), (39, 8, 10506, 10506)),
            *((54, 1, 1171, 1171), (59, 3, 2079, 2079), (134, 4, 316, 759), (288, 16, 10, 10)),
            *((365, 1, 100, 709), (366, 1, 100, 5497), (377, 1, 100, 1719)),
        ],
    ),
}


@pytest.mark.parametrize("what", KEPT)
def test_what_was_promised_is_kept_when(what: str) -> None:
    planned, rows = KEPT[what]
    trace = [Job(f"job-{n}", *row) for n, row in enumerate(rows)]
    played = Machine(replace(PLANNED, planned_gangs=planned)).play(trace)
    assert played.promises
    assert played.late() == []
    assert played.broken == 0


@pytest.mark.parametrize("planned", [1, 2, 4])
def test_where_kubelets_are_late_promises_are_late_by_a_moment_and_everybody_starts(
    planned: int,
) -> None:
    told = 0
    for seed in LATE_SEEDS:
        # Half of the jobs run for as long as they may.
        jobs = enumerate(random_trace(seed, 40))
        trace = [replace(job, limit=job.lasts) if n % 2 else job for n, job in jobs]
        played = Machine(replace(PLANNED, planned_gangs=planned), delay=2).play(trace)
        assert played.broken == 0, seed
        assert max((played.starts[job] - at for job, at, _ in played.late()), default=0) < 60
        told += len(played.promises)
    assert told > 100


def test_without_a_plan_whatever_fits_goes() -> None:
    trace = random_trace(SEEDS[0], 40)
    assert Machine(UNPLANNED).play(trace).starts == first_fit_starts(trace)


def test_the_largest_jobs_wait_less_than_half_of_what_they_wait_without_a_plan() -> None:
    # In a month of jobs. What EASY does in it the scheduler does to the second: see above.
    planned = without = 0
    for seed in range(40):
        trace = random_trace(seed, 1000)
        planned += wait_of_largest(trace, easy_starts(trace))
        without += wait_of_largest(trace, first_fit_starts(trace))
    assert planned < without / 2


def test_in_a_day_of_jobs_nobody_can_wait_half_as_long() -> None:
    # Few come after the largest, so that these are not starved without a plan either.
    best = without = 0
    for seed in range(300):
        trace = random_trace(seed, 40)
        known = [replace(job, limit=job.lasts) for job in trace]
        first = frozenset(job.name for job in largest_of(trace))
        best += wait_of_largest(trace, easy_starts(known, first))
        without += wait_of_largest(trace, first_fit_starts(trace))
    assert best > 0.45 * without


@pytest.mark.parametrize("planned", [1, 3])
def test_promises_are_kept_where_others_are_decided_while_plans_are_made(
    planned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_starts_in_tiny_steps(monkeypatch)
    promises = 0
    for seed in SEEDS[:3]:
        machine = Machine(replace(PLANNED, planned_gangs=planned))
        played = machine.play(random_trace(seed, 40), checked=True)
        assert played.late() == []
        assert played.broken == 0
        promises += len(played.promises)
    assert promises > 10


@pytest.mark.parametrize("planned", [1, 3])
def test_another_scheduler_that_takes_over_plans_the_same_starts(planned: int) -> None:
    compared = 0
    for seed in SEEDS[:2]:
        machine = Machine(replace(PLANNED, planned_gangs=planned))
        arrivals = random_trace(seed, 30)
        while arrivals:
            times = [arrivals[0].arrives] + ([machine.running[0][0]] if machine.running else [])
            machine.step(max(machine.now, min(times)), arrivals)
            machine.engine.check_consistent()
            if not (before := _starts(machine)):
                continue
            machine.restart()
            machine.run()
            machine.engine.check_consistent()
            assert _starts(machine) == before, (seed, machine.now)
            compared += len(before)
    assert compared > 10


def _starts(machine: Machine) -> dict[str, float]:
    starts = {name: gang.planned_start for name, gang in machine.engine.registry.gangs.items()}
    return {name: start.at for name, start in starts.items() if start is not None}
