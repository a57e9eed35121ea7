"""Bursts of pods faster than any scheduler: another tenant's pod waits for none of them.

In processor time of the scheduler (``tests/processor_time.py``): the API server here is of the same
process, and takes most of the time.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Iterator

import pytest

from tests.benchmarks.bench_bursts import KINDS, waits
from tests.hostile.cluster import BOUND_WITHIN
from tests.processor_time import run_in_processor_time

#: Pods that are created in a second, by one tenant; and seconds for which that goes on.
RATE, SECONDS = 1700, 0.7
#: Seconds within which half of another's pods are bound.
MEDIAN_WITHIN = 0.1


@pytest.fixture(autouse=True)
def no_garbage_of_others() -> Iterator[None]:
    """What earlier tests of this process have left is not looked through meanwhile."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("kind", KINDS)
def test_another_tenants_pods_are_bound_among_pods(kind: str) -> None:
    found = run_in_processor_time(waits(KINDS[kind], rate=RATE, seconds=SECONDS))
    assert max(found) < BOUND_WITHIN, found
    assert statistics.median(found) < MEDIAN_WITHIN, found
