"""How most plugins bring their scores to 0–100.

Upstream: ``pkg/scheduler/framework/plugins/helper/normalize_score.go``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from arranger.cluster.columns import BoolArray, IntArray

MAX_NODE_SCORE: Final = 100


def default_normalize_score(
    scores: IntArray, feasible: BoolArray, *, reverse: bool = False
) -> IntArray:
    """Scale so that the largest feasible score becomes 100; ``reverse`` turns it round.

    In upstream's integer arithmetic.
    """
    top = int(scores.max(where=feasible, initial=0))
    if top == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = MAX_NODE_SCORE * scores // top
    return MAX_NODE_SCORE - scaled if reverse else scaled
