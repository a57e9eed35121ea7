"""Sums in NumPy columns that never wrap around: what does not fit in is kept beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from arranger.cluster.columns import IntArray

#: Amounts below this need not be settled: half a million of them fit beside :data:`MAX_SUM`.
LARGE: Final = 2**42
#: The largest sum in a column. With another amount added or subtracted it still has 64 bits.
MAX_SUM: Final = 2**62


class ExcessAmounts:
    """By how much the sums in a matrix ``[column, row]`` are less than they should be."""

    def __init__(self) -> None:
        self._beyond: dict[tuple[int, int], int] = {}

    def settle(self, sums: IntArray, column: int, row: int) -> None:
        """A large amount was added to an entry or subtracted: keep it within bounds."""
        total = self._beyond.pop((column, row), 0) + int(sums[column, row])
        if total > MAX_SUM:
            self._beyond[column, row] = total - MAX_SUM
        sums[column, row] = min(total, MAX_SUM)

    def forget_row(self, row: int) -> None:
        """The entries of a row are 0 again."""
        for key in [key for key in self._beyond if key[1] == row]:
            del self._beyond[key]

    def exact(self, sums: IntArray, row: int, columns: Sequence[int]) -> list[int]:
        """Sums in a row as they should be."""
        kept: list[int] = sums[columns, row].tolist()
        if not self._beyond:
            return kept
        beyond = self._beyond
        return [n + beyond.get((c, row), 0) for c, n in zip(columns, kept, strict=True)]
