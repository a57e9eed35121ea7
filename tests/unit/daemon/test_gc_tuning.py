"""The garbage collector of the scheduler's process."""

from __future__ import annotations

import gc
import subprocess
import sys

from arranger.daemon.garbage import FrozenGarbage, tune_gc

PROGRAM = """
import gc
from arranger.daemon.garbage import GC_THRESHOLDS, tune_gc
tune_gc()
most = 0
def watch(phase, info):
    global most
    if phase == "start":
        young = sum(len(gc.get_objects(generation=n)) for n in range(info["generation"] + 1))
        most = max(most, young)
gc.callbacks.insert(0, watch)
class Cycle:
    def __init__(self): self.me = self
kept = [[n] for n in range(1_000_000)]
before = gc.get_freeze_count()
for _ in range(300_000): Cycle()
left = sum(isinstance(each, Cycle) for each in gc.get_objects())
print(most <= 5 * GC_THRESHOLDS[0], before > 800_000, left <= 2 * GC_THRESHOLDS[0])
"""

DROPPED = """
import gc
from arranger.daemon.garbage import FrozenGarbage, tune_gc
gc.collect()
tune_gc()
garbage, begun = FrozenGarbage(min_growth=40_000), gc.get_freeze_count()
def a_cycle():
    cycle = []
    cycle.append(cycle)
    return cycle
counts, looked = [], 0
for _ in range(60):
    pending = [a_cycle() for _ in range(10_000)]
    gc.collect(1)
    del pending
    looked += garbage.collect_if_grown()
    counts.append(gc.get_freeze_count() - begun)
print(begun, max(counts), looked)
"""


def output_of(program: str) -> str:
    """What a Python program prints in a process of its own."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()[-1]


def test_it_looks_less_often_and_still_finds_cycles() -> None:
    before = gc.get_threshold()
    tune_gc()
    assert gc.get_threshold() > before
    assert gc.get_freeze_count() > 0

    found = gc.get_stats()[0]["collections"]
    kept: list[list[object]] = []
    for _ in range(2 * gc.get_threshold()[0]):
        cycle: list[object] = []
        cycle.append(cycle)
        kept.append(cycle)
    assert gc.get_stats()[0]["collections"] > found


def test_what_is_kept_is_looked_at_twice_and_cycles_are_found() -> None:
    assert output_of(PROGRAM).split() == ["True", "True", "True"]


def a_cycle() -> list[object]:
    cycle: list[object] = []
    cycle.append(cycle)
    return cycle


def test_cycles_that_are_dropped_when_they_are_frozen_stay_no_more_than_is_allowed() -> None:
    """As in a process that goes on for long: what is pending at a run is dropped after it.

    In a process of its own: what other tests have left there would count as its objects.
    """
    begun, most, looked = map(int, output_of(DROPPED).split())
    assert most <= max(40_000, begun // 2) + 20_000
    assert 1 <= looked <= 60 * 10_000 // 40_000


def test_all_are_not_looked_at_for_a_few_more() -> None:
    gc.collect()
    tune_gc()
    garbage = FrozenGarbage(min_growth=1)
    kept = [a_cycle() for _ in range(gc.get_freeze_count() // 4)]
    gc.collect(1)
    assert not garbage.collect_if_grown()
    assert len(kept) > 100
