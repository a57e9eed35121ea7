"""The random traces have the figures that the model publishes.

Expected values follow from the published parameters alone, in closed form: shares of sizes from
where two uniform distributions round to a power of two, means from gamma distributions that are cut
off at the largest value that is drawn.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from tests.simulation.backfill import traces
from tests.simulation.backfill.traces import MACHINE, random_trace

#: A number.
N = TypeVar("N", int, float)

DRAWS = 100_000
#: Standard errors that a mean may be off.
ERRORS = 4.5

#: As published: part of serial jobs, and of parallel jobs with a power of two, both of all jobs.
SERIAL, POWER_OF_2 = 0.2927, 0.6686
#: Logarithms: (shape, scale) of the two kinds of run times, and of gaps; what is drawn at most.
RUNS, GAP, LONGEST_RUN, LONGEST_GAP = ((6.57, 0.823), (639.1, 0.0156)), (6.0415, 0.8531), 12, 13


def test_powers_of_two_and_serial_jobs_are_as_many_as_published() -> None:
    sizes = _drawn(traces.random_size)
    assert _share(sizes, lambda size: size == 1) == pytest.approx(SERIAL, abs=_error(SERIAL))
    by_chance = (1 - SERIAL - POWER_OF_2) * _rounds_to_power_of_2()
    expected = SERIAL + POWER_OF_2 + by_chance
    assert expected == pytest.approx(0.97265, abs=1e-5)
    powers = _share(sizes, lambda size: size & (size - 1) == 0)
    assert powers == pytest.approx(expected, abs=_error(expected))


@pytest.mark.parametrize("power", range(1, 6))
def test_each_power_of_two_is_as_frequent_as_published(power: int) -> None:
    sizes = _drawn(traces.random_size)
    rounded = _between(power - 0.5, power + 0.5)
    low, high = (math.log2(2**power + half) for half in (-0.5, 0.5))
    expected = POWER_OF_2 * rounded + (1 - SERIAL - POWER_OF_2) * _between(low, high)
    share = _share(sizes, lambda size: size == 2**power)
    assert share == pytest.approx(expected, abs=_error(expected))


@pytest.mark.parametrize("size", [1, 8, 32])
def test_run_times_are_as_long_as_published(size: int) -> None:
    part = 0.6986 - 0.003 * size
    draws = _drawn(lambda rng: traces.random_run_time(rng, size))
    assert max(draws) < math.exp(LONGEST_RUN)
    weights = [
        weight * _gamma(shape, LONGEST_RUN / scale)
        for weight, (shape, scale) in zip((part, 1 - part), RUNS, strict=True)
    ]
    means = [_cut_mean(*gamma, LONGEST_RUN) for gamma in RUNS]
    expected = sum(w * mean for w, mean in zip(weights, means, strict=True)) / sum(weights)
    # A time in whole seconds is half a second short of what was drawn.
    logs = [math.log(draw + 0.5) for draw in draws]
    assert sum(logs) / DRAWS == pytest.approx(expected, abs=2e-3 + _deviation(logs))
    long = 1 - sum(
        weight * _gamma(shape, 11 / scale)
        for weight, (shape, scale) in zip((part, 1 - part), RUNS, strict=True)
    ) / sum(weights)
    assert _share(logs, lambda log: log > 11) == pytest.approx(long, abs=_error(long))


def test_gaps_are_as_long_as_published_and_none_is_cut_short() -> None:
    gaps = _drawn(traces.random_gap)
    logs = [math.log(gap) for gap in gaps]
    assert max(logs) < LONGEST_GAP
    assert sum(logs) / DRAWS == pytest.approx(_cut_mean(*GAP, LONGEST_GAP), abs=_deviation(logs))
    within = _gamma(GAP[0], 12.5 / GAP[1]) / _gamma(GAP[0], LONGEST_GAP / GAP[1])
    assert _share(logs, lambda log: log > 12.5) == pytest.approx(1 - within, abs=_error(1 - within))


def test_a_trace_loads_the_machine_as_it_says_and_no_limit_is_too_short() -> None:
    for seed in range(200):
        trace = random_trace(seed)
        work = sum(job.size * job.lasts for job in trace)
        assert 0.75 < work / (MACHINE * trace[-1].arrives) < 1.35, seed
        assert all(job.lasts <= job.limit <= math.ceil(5 * job.lasts) for job in trace)
        assert [job.arrives for job in trace] == sorted(job.arrives for job in trace)


# --- what is expected ----------------------------------------------------------------------------


def _drawn(draw: Callable[[random.Random], N]) -> list[N]:
    rng = random.Random(1)
    return [draw(rng) for _ in range(DRAWS)]


def _share(values: Sequence[N], holds: Callable[[N], bool]) -> float:
    return sum(map(holds, values)) / len(values)


def _error(share: float) -> float:
    return ERRORS * math.sqrt(share * (1 - share) / DRAWS)


def _deviation(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return ERRORS * math.sqrt(sum((v - mean) ** 2 for v in values)) / len(values)


def _between(low: float, high: float) -> float:
    """Chance that the logarithm of a parallel size is in between: 1.2 to 3 or 3 to 5."""
    stages = ((0.875, 1.2, 3.0), (0.125, 3.0, 5.0))
    return sum(
        chance * max(0.0, min(high, end) - max(low, start)) / (end - start)
        for chance, start, end in stages
    )


def _rounds_to_power_of_2() -> float:
    bounds = ((2**k - 0.5, 2**k + 0.5) for k in range(1, 6))
    return sum(_between(math.log2(low), math.log2(high)) for low, high in bounds)


def _gamma(shape: float, at: float) -> float:
    """The regularised lower incomplete gamma function, by its power series."""
    term = math.exp(shape * math.log(at) - at - math.lgamma(shape + 1))
    total, n = 0.0, 0
    while term > 1e-17 or n < at:
        total += term
        n += 1
        term *= at / (shape + n)
    return total


def _cut_mean(shape: float, scale: float, most: float) -> float:
    """Mean of a gamma distribution of which larger values are drawn again."""
    at = most / scale
    return shape * scale * _gamma(shape + 1, at) / _gamma(shape, at)
