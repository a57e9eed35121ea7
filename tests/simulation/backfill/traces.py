"""Random traces of parallel jobs.

Sizes, run times and arrivals by the model of Lublin and Feitelson ("The workload on parallel
supercomputers: modeling the characteristics of rigid jobs", JPDC 2003), with its published
parameters for batch jobs at a rush hour. What depends on the size of the machine is for this one.
Limits are over-estimates, as people's are.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.paths import TRACES

#: Nodes of the machine, and CPUs of each.
NODES, CPUS = 8, 4
MACHINE: Final = NODES * CPUS

#: Of all jobs: part of those of one process, and of parallel ones with a power of two.
_SERIAL, _POWER_OF_2 = 0.2927, 0.6686
#: The two uniform stages of the logarithm of a parallel job's size; the end is the machine's.
_LOW, _HIGH, _FIRST_STAGE = 1.2, math.log2(MACHINE), 0.875
_MIDDLE = _HIGH - 2.0
#: The two gamma distributions of the logarithm of run times, and the part of the first.
_RUN_1, _RUN_2, _RUN_PART = (6.57, 0.823), (639.1, 0.0156), (-0.003, 0.6986)
#: Of the logarithm of the time between two arrivals.
_ARRIVAL: Final = (6.0415, 0.8531)
#: Logarithms that are larger are drawn again: two days of running, five between arrivals.
_LONGEST_RUN, _LONGEST_GAP = 12.0, 13.0


@dataclass(frozen=True)
class Job:
    """A gang of ``size`` pods of a CPU each; all times in whole seconds."""

    name: str
    arrives: int
    size: int
    lasts: int
    limit: int


def random_trace(seed: int, jobs: int = 40, *, openb: bool = False) -> list[Job]:
    """Jobs in order of arrival, that load the machine to 80 to 130 percent.

    ``openb``: run times are those of pods of the openb trace.
    """
    rng = random.Random(seed)
    sizes = [random_size(rng) for _ in range(jobs)]
    lasts = [_openb_time(rng) if openb else random_run_time(rng, size) for size in sizes]
    gaps = [random_gap(rng) for _ in range(jobs)]
    work = sum(size * time for size, time in zip(sizes, lasts, strict=True))
    stretch = work / (MACHINE * rng.uniform(0.8, 1.3) * sum(gaps))
    arrives, trace = 0.0, []
    for n, (size, time, gap) in enumerate(zip(sizes, lasts, gaps, strict=True)):
        arrives += gap * stretch
        limit = math.ceil(time * rng.choice((1.0, rng.uniform(1, 2), rng.uniform(1, 5))))
        trace.append(Job(f"job-{n:04}", int(arrives), size, time, limit))
    return trace


def random_size(rng: random.Random) -> int:
    """How many pods a job has: one draw tells serial jobs, powers of two and others apart."""
    kind = rng.random()
    if kind < _SERIAL:
        return 1
    first = rng.random() < _FIRST_STAGE
    power = rng.uniform(_LOW, _MIDDLE) if first else rng.uniform(_MIDDLE, _HIGH)
    if kind < _SERIAL + _POWER_OF_2:
        power = round(power)
    return round(2**power)


def random_run_time(rng: random.Random, size: int) -> int:
    """Whole seconds that a job of this size runs: larger ones longer."""
    part = _RUN_PART[0] * size + _RUN_PART[1]

    def draw() -> float:
        return rng.gammavariate(*(_RUN_1 if rng.random() < part else _RUN_2))

    return max(1, int(math.exp(_below(_LONGEST_RUN, draw))))


def random_gap(rng: random.Random) -> float:
    """Seconds between two arrivals."""
    return math.exp(_below(_LONGEST_GAP, lambda: rng.gammavariate(*_ARRIVAL)))


def _below(most: float, draw: Callable[[], float]) -> float:
    while (drawn := draw()) > most:
        pass
    return drawn


@cache
def _openb_times() -> Sequence[int]:
    with (TRACES / "openb_pod_list_default.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    pairs = ((row["scheduled_time"], row["deletion_time"]) for row in rows)
    times = (int(float(end)) - int(float(start)) for start, end in pairs if start and end)
    # What runs for longer than any job of the model is a service.
    return [max(1, time) for time in times if time < math.exp(_LONGEST_RUN)]


def _openb_time(rng: random.Random) -> int:
    return rng.choice(_openb_times())
