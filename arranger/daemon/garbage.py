"""Python's collector of reference cycles, so that it rarely holds the loop and misses nothing.

A run over a million objects takes half a second, and nearly none of a cluster's objects is ever
part of a cycle. So whatever outlives two runs is frozen: runs look at it no more. A cycle of frozen
objects that is dropped later would stay for good; so all are looked at once whenever their number
has grown by half, and by as many as matter.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Final

import structlog

log = structlog.get_logger(__name__)

#: Allocations between two runs of each generation. With Python's defaults (700, 10, 10) looking for
#: cycles took an eighth of the time spent on a pod.
GC_THRESHOLDS: Final = (30_000, 2, 50)
#: By how many more the frozen objects must have grown, at least, before all are looked at: as many
#: as dropped cycles may keep, some 100 MB.
MIN_GROWTH: Final = 500_000
#: Seconds between two counts of them; one of a million takes some milliseconds.
COUNT_INTERVAL: Final = 30.0


def tune_gc() -> None:
    """Have the collector run less often, never look at what imports have made, and look at nothing
    more than twice."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.callbacks.append(_freeze_survivors)


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] > 0:
        gc.freeze()


class FrozenGarbage:
    """Finds the cycles of frozen objects that have been dropped.

    Args:
        min_growth: see :data:`MIN_GROWTH`.
    """

    def __init__(self, min_growth: int = MIN_GROWTH) -> None:
        self._min_growth = min_growth
        self._after_last = gc.get_freeze_count()

    def collect_if_grown(self) -> bool:
        """Look at all objects if there are many more than after the last time; whether it did."""
        frozen, before = gc.get_freeze_count(), self._after_last
        if frozen - before < max(self._min_growth, before // 2):
            return False
        gc.unfreeze()
        found = gc.collect()
        gc.freeze()
        self._after_last = gc.get_freeze_count()
        log.info("garbage.collected", objects=frozen, garbage=found)
        return True

    async def run(self, interval: float = COUNT_INTERVAL) -> None:
        """Do so from time to time, until cancelled."""
        while True:
            await asyncio.sleep(interval)
            self.collect_if_grown()
