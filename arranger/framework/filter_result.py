"""Filter's result for many nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from arranger.cluster.columns import BoolArray, IntArray
from arranger.framework.status import Code


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node was rejected; ``UNRESOLVABLE`` when no eviction would change that.

    With an ``event_reason`` the pod gets an event of that reason, beside the usual one.
    """

    reasons: tuple[str, ...]
    code: Code = Code.UNSCHEDULABLE
    event_reason: str = ""


#: The different rejections; for each entry an index into them, -1 for one that passes.
GroupedRejections = tuple[Sequence[Rejection], IntArray]


class FilterResult:
    """For every entry of a view whether it passes and, worked out only on demand, why not.

    Attributes:
        passes: one entry per row of the view that was filtered.
    """

    __slots__ = ("_explain", "passes")

    def __init__(
        self, passes: BoolArray, explain: Rejection | Callable[[], GroupedRejections]
    ) -> None:
        self.passes = passes
        self._explain = explain

    def rejections(self) -> GroupedRejections:
        """The different rejections, and which entry has which.

        The reasons are read from the table as it is now: call before anything changes.
        """
        if isinstance(self._explain, Rejection):
            return (self._explain,), np.where(self.passes, -1, 0)
        return self._explain()


def all_pass(length: int) -> FilterResult:
    """A result that rejects nothing."""
    return FilterResult(np.ones(length, dtype=np.bool_), Rejection(()))
