"""Plays traces with the plan and by the references, and sums up what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.simulation.backfill.reference import easy_starts, first_fit_starts
from tests.simulation.backfill.traces import MACHINE, Job, random_trace
from tests.simulation.backfill.virtual import PLANNED, Machine


def utilisation(trace: Sequence[Job], starts: Mapping[str, int]) -> float:
    """Part of the machine that is in use until the last job has ended."""
    last = max(starts[job.name] + job.lasts for job in trace)
    return sum(job.size * job.lasts for job in trace) / (MACHINE * last)


def wait_of_largest(trace: Sequence[Job], starts: Mapping[str, int]) -> int:
    """Seconds that the largest twentieth of the jobs wait, together."""
    return sum(starts[job.name] - job.arrives for job in largest_of(trace))


def largest_of(trace: Sequence[Job]) -> Sequence[Job]:
    """The largest twentieth of the jobs."""
    return sorted(trace, key=lambda job: -job.size)[: max(1, len(trace) // 20)]


@dataclass
class Verdict:
    """Of all traces so far.

    Attributes:
        late: (seed, gangs planned at a time, job, promise, start) of promises not kept.
        unlike: (seed, job, start, start by the reference) of jobs that one planned gang at a time
            does not start as EASY does.
        errors: seconds between the first estimate of a start and the start.
    """

    traces: int = 0
    utilisation: float = 0.0
    reference_utilisation: float = 0.0
    wait: int = 0
    wait_without: int = 0
    promises: int = 0
    late: list[tuple[int, int, str, float, int]] = field(default_factory=list)
    unlike: list[tuple[int, str, int, int]] = field(default_factory=list)
    counted: int = 0
    errors: list[float] = field(default_factory=list)

    def add(self, seed: int, jobs: int, *, openb: bool = False) -> None:
        """Play one trace: with one gang planned as EASY does, with several, and without limits.

        What comes of it without a plan is worked out by first fit: a test says that the two agree.
        """
        trace = random_trace(seed, jobs, openb=openb)
        easy = Machine(PLANNED).play(trace)
        several = 2 + seed % 3
        conservative = Machine(replace(PLANNED, planned_gangs=several)).play(trace)
        reference = easy_starts(trace)
        guessed = Machine(PLANNED, with_limits=False).play(trace)
        self.traces += 1
        self.utilisation += utilisation(trace, easy.starts)
        self.reference_utilisation += utilisation(trace, reference)
        self.wait += wait_of_largest(trace, easy.starts)
        self.wait_without += wait_of_largest(trace, first_fit_starts(trace))
        for name, start in reference.items():
            if easy.starts[name] != start:
                self.unlike.append((seed, name, easy.starts[name], start))
        for count, played in ((1, easy), (several, conservative)):
            self.promises += len(played.promises)
            self.counted += played.broken
            for job, at, _ in played.late():
                self.late.append((seed, count, job, at, played.starts[job]))
        for job, at in guessed.estimates.items():
            self.errors.append(abs(guessed.starts[job] - at))

    @property
    def estimate_error(self) -> float:
        """What nine of ten estimates are wrong by at most, in seconds."""
        return sorted(self.errors)[int(0.9 * (len(self.errors) - 1))] if self.errors else 0.0
