"""The garbage collector of the scheduler's process."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from arranger.daemon.server import tune_gc


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


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
