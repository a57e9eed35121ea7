"""EASY backfill in plain Python, on a pool of CPUs without nodes, and first fit without any plan.

EASY: first come first served; a job that does not fit gets the earliest start by the limits of
those that run, and others go before only if they end by then, or need no more than is left over.
After Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates in
scheduling the IBM SP2 with backfilling", IEEE TPDS 2001.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

from tests.simulation.backfill.traces import MACHINE, Job


@dataclass
class Pool:
    """What runs at a moment, and what is free."""

    free: int = MACHINE
    now: int = 0
    starts: dict[str, int] = field(default_factory=dict)
    #: End, name, job.
    running: list[tuple[int, str, Job]] = field(default_factory=list)

    def start(self, job: Job) -> None:
        """A job gets its CPUs."""
        self.starts[job.name] = self.now
        self.free -= job.size
        heapq.heappush(self.running, (self.now + job.lasts, job.name, job))


#: Starts some of those that wait, which come in order of arrival.
Policy = Callable[[Pool, Sequence[Job]], None]


def easy_starts(trace: Sequence[Job], first: Set[str] = frozenset()) -> dict[str, int]:
    """Job → when it starts by EASY; jobs named in ``first`` go before all others."""
    return _play(trace, lambda pool, waiting: _easy(pool, waiting, first))


def first_fit_starts(trace: Sequence[Job]) -> dict[str, int]:
    """Job → when it starts if whatever fits goes, in order of arrival."""
    return _play(trace, _first_fit)


def _play(trace: Sequence[Job], policy: Policy) -> dict[str, int]:
    pool, arrivals, waiting = Pool(), list(reversed(trace)), list[Job]()
    while arrivals or waiting:
        times = [arrivals[-1].arrives] if arrivals else []
        times += [pool.running[0][0]] if pool.running else []
        pool.now = max(pool.now, min(times))
        while pool.running and pool.running[0][0] <= pool.now:
            pool.free += heapq.heappop(pool.running)[2].size
        while arrivals and arrivals[-1].arrives <= pool.now:
            waiting.append(arrivals.pop())
        policy(pool, waiting)
        waiting = [job for job in waiting if job.name not in pool.starts]
    return pool.starts


def _first_fit(pool: Pool, waiting: Sequence[Job]) -> None:
    for job in waiting:
        if job.size <= pool.free:
            pool.start(job)


def _easy(pool: Pool, waiting: Sequence[Job], first: Set[str]) -> None:
    queue = sorted(waiting, key=lambda job: job.name not in first) if first else list(waiting)
    while queue and queue[0].size <= pool.free:
        pool.start(queue.pop(0))
    if not queue:
        return
    head = queue.pop(0)
    ends = [(pool.starts[job.name] + job.limit, job.size) for _, _, job in pool.running]
    there, shadow = pool.free, pool.now
    for end, size in sorted(ends):
        if there >= head.size:
            break
        there, shadow = there + size, max(pool.now, end)
    # All that ends at the same moment is there as well.
    spare = pool.free + sum(size for end, size in ends if end <= shadow) - head.size
    for job in queue:
        if job.size > pool.free:
            continue
        in_time = pool.now + job.limit <= shadow
        if in_time or job.size <= spare:
            spare -= 0 if in_time else job.size
            pool.start(job)
