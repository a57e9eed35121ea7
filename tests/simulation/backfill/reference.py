"""EASY backfill in plain Python, on a pool of CPUs without nodes.

First come first served; a job that does not fit gets the earliest start by the limits of those that
run, and others go before only if they end by then, or need no more than is left over then. After
Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates in
scheduling the IBM SP2 with backfilling", IEEE TPDS 2001.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from tests.simulation.backfill.traces import MACHINE, Job


def easy_starts(trace: Sequence[Job]) -> dict[str, int]:
    """Job → when it starts."""
    starts: dict[str, int] = {}
    arrivals, waiting = list(trace), list[Job]()
    running: list[tuple[int, str, Job]] = []
    free, now = MACHINE, 0
    while arrivals or waiting:
        times = [arrivals[0].arrives] if arrivals else []
        times += [running[0][0]] if running else []
        now = max(now, min(times))
        while running and running[0][0] <= now:
            free += heapq.heappop(running)[2].size
        while arrivals and arrivals[0].arrives <= now:
            waiting.append(arrivals.pop(0))
        for job in _startable(waiting, running, starts, free, now):
            waiting.remove(job)
            starts[job.name] = now
            free -= job.size
            heapq.heappush(running, (now + job.lasts, job.name, job))
    return starts


def _startable(
    waiting: Sequence[Job],
    running: Sequence[tuple[int, str, Job]],
    starts: dict[str, int],
    free: int,
    now: int,
) -> list[Job]:
    chosen: list[Job] = []
    queue = list(waiting)
    while queue and queue[0].size <= free:
        free -= queue[0].size
        chosen.append(queue.pop(0))
    if not queue:
        return chosen
    head = queue.pop(0)
    ends = [(starts[job.name] + job.limit, job.size) for _, _, job in running]
    ends += [(now + job.limit, job.size) for job in chosen]
    there, shadow = free, now
    for end, size in sorted(ends):
        if there >= head.size:
            break
        there, shadow = there + size, max(now, end)
    # All that ends at the same moment is there as well.
    spare = free + sum(size for end, size in ends if end <= shadow) - head.size
    for job in queue:
        if job.size > free:
            continue
        in_time = now + job.limit <= shadow
        if in_time or job.size <= spare:
            free -= job.size
            spare -= 0 if in_time else job.size
            chosen.append(job)
    return chosen
