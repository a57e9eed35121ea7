"""The first of the largest scores, found without a look at all rows after every placement."""

from __future__ import annotations

from typing import Final

import numpy as np

from arranger.cluster import IntArray

#: Rows of a block, whose largest score is kept.
_BLOCK: Final = 1024
#: With fewer rows, looking at all of them takes less.
_MANY_ROWS: Final = 16 * _BLOCK
#: With more changed rows, all blocks are looked at again.
_FEW_ROWS: Final = 64


class LargestScore:
    """Follows one array of scores by what changes in it."""

    __slots__ = ("_most", "_scores")

    def __init__(self, scores: IntArray) -> None:
        """``scores``: row → score, which others write to and say so."""
        self._scores = scores
        #: Block → its largest score; None if that is to be worked out.
        self._most: IntArray | None = None

    def on_changed(self, rows: slice | IntArray) -> None:
        """Scores of these rows have been written."""
        most = self._most
        if most is None:
            return
        numbers = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        if len(numbers) > _FEW_ROWS:
            self._most = None
            return
        for block in {row // _BLOCK for row in numbers}:
            most[block] = self._scores[block * _BLOCK : (block + 1) * _BLOCK].max()

    def first_row(self) -> int:
        """The lowest row of those with the largest score; there is at least one row."""
        scores = self._scores
        if len(scores) < _MANY_ROWS:
            return int(scores.argmax())
        if self._most is None:
            self._most = np.maximum.reduceat(scores, np.arange(0, len(scores), _BLOCK))
        start = int(self._most.argmax()) * _BLOCK
        return start + int(scores[start : start + _BLOCK].argmax())
