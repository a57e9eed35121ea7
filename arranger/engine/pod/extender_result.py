"""What extenders have said about a class of pods, as rows of the node table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from arranger.api.effects import Advice
from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.node_table import NodeTable
from arranger.framework.diagnosis import Diagnosis, Rejected
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code

#: Named as the plugin that rejects nodes (``framework.ExtenderName``).
EXTENDER: Final = "Extender"

#: An extender left the node out without a word, and upstream has none either.
_DROPPED: Final = Rejected(EXTENDER, Rejection((), Code.UNRESOLVABLE))
_UNASKED: Final = Rejected(
    EXTENDER,
    Rejection(("node(s) became feasible after the extenders were asked",), Code.UNRESOLVABLE),
)
_LEAST: Final = np.iinfo(np.int64).min


class Counsel:
    """Which rows a pod may have, as far as extenders are concerned, and how good they find them.

    Args:
        asked: the nodes that the advice is about.

    Attributes:
        allowed: row → whether a pod may be placed there.
        refused: row → whether an extender has said no; rows not asked about are neither.
    """

    def __init__(self, table: NodeTable, asked: Collection[str], advice: Advice) -> None:
        self.allowed: BoolArray = np.zeros(table.size, dtype=np.bool_)
        self.allowed[table.rows(advice.nodes)] = True
        self.refused: BoolArray = np.zeros(table.size, dtype=np.bool_)
        self.refused[table.rows(asked)] = True
        self.refused &= ~self.allowed
        self._bonus: IntArray = np.zeros(table.size, dtype=np.int64)
        for node, score in advice.scores.items():
            if (row := table.index.get(node)) is not None:
                self._bonus[row] = score
        self._why = {
            table.index[node]: Rejected(EXTENDER, Rejection((reason,), code))
            for code, reasons in (
                (Code.UNSCHEDULABLE, advice.failed),
                (Code.UNRESOLVABLE, advice.unresolvable),
            )
            for node, reason in reasons.items()
            if node in table.index
        }

    def best(self, feasible: BoolArray, ranked: IntArray) -> int:
        """The best of the feasible rows, the lowest of equals; -1 if none is allowed."""
        open_rows = feasible & self.allowed
        if not open_rows.any():
            return -1
        return int(np.where(open_rows, ranked + self._bonus, _LEAST).argmax())

    def explain(self, diagnosis: Diagnosis, left: BoolArray) -> None:
        """Say of the rows that are ``left`` why a pod may not have them."""
        places: dict[Rejected, int] = {}
        kinds, kind_of = [*diagnosis.kinds], diagnosis.kind_of.copy()
        for row in np.flatnonzero(left & ~self.allowed).tolist():
            why = _UNASKED
            if self.refused[row]:
                why = self._why.get(row, _DROPPED)
            if why not in places:
                places[why] = len(kinds)
                kinds.append(why)
            kind_of[row] = places[why]
        diagnosis.kinds, diagnosis.kind_of = kinds, kind_of


def no_counsel(table: NodeTable) -> Counsel:
    """For pods that extenders have not been asked about, since no node would do anyway."""
    return Counsel(table, (), Advice(()))
