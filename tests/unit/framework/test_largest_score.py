"""The first of the largest scores, whatever has changed."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from arranger.framework.runtime.largest_score import LargestScore


@pytest.mark.parametrize("size", [1, 1000, 16 * 1024 - 1, 16 * 1024, 20_000, 33 * 1024])
def test_it_is_the_one_that_a_look_at_all_rows_finds(size: int) -> None:
    random = Random(size)
    scores = np.array([random.randrange(-1, 3) for _ in range(size)], dtype=np.int64)
    largest = LargestScore(scores)
    for n in range(300):
        assert largest.first_row() == int(scores.argmax())
        kind = random.randrange(10)
        if kind == 0:  # many rows at once
            rows = np.unique(np.array(random.choices(range(size), k=200), dtype=np.int64))
            scores[rows] = random.randrange(-1, 5)
            largest.on_changed(rows)
        elif kind < 4:
            few = np.array(sorted({random.randrange(size) for _ in range(3)}), dtype=np.int64)
            scores[few] = random.randrange(-1, 5 + n // 20)
            largest.on_changed(few)
        else:  # usually the best row has become worse
            row = largest.first_row() if kind < 8 else random.randrange(size)
            scores[row] = random.randrange(-1, 2 + n // 20)
            largest.on_changed(slice(row, row + 1))


def test_where_nothing_is_feasible_the_first_row_is_told() -> None:
    assert LargestScore(np.full(20_000, -1, dtype=np.int64)).first_row() == 0
