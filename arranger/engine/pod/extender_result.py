"""What extenders have said about a class of pods, as rows of the node table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from arranger.api.effects import ExtenderDecision
from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.nodes.node_table import NodeTable
from arranger.engine.context.entity import QueuedPod
from arranger.engine.pod.schedule_result import RowMask
from arranger.framework.diagnosis import Diagnosis, PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code

#: Named as the plugin that rejects nodes (``framework.ExtenderName``).
EXTENDER: Final = "Extender"

#: An extender left the node out without a word, and upstream has none either.
_LEFT_OUT: Final = PluginRejection(EXTENDER, Rejection((), Code.UNRESOLVABLE))
_UNASKED: Final = PluginRejection(
    EXTENDER,
    Rejection(("node(s) became feasible after the extenders were asked",), Code.UNRESOLVABLE),
)
_IN_VAIN: Final = PluginRejection(
    EXTENDER, Rejection(("extender(s) refused the node after evictions",), Code.UNRESOLVABLE)
)
_MIN_SCORE: Final = np.iinfo(np.int64).min


class ExtenderResult:
    """Which rows a pod may have, as far as extenders are concerned, and how good they find them.

    Args:
        asked: the nodes that the decision is about.

    Attributes:
        allowed: row → whether a pod may be placed there.
        refused: row → whether an extender has said no; rows not asked about are neither.
    """

    def __init__(
        self, table: NodeTable, asked: Collection[str], decision: ExtenderDecision
    ) -> None:
        self._table = table
        self.allowed: BoolArray = np.zeros(table.size, dtype=np.bool_)
        self.allowed[table.rows(decision.nodes)] = True
        self.refused: BoolArray = np.zeros(table.size, dtype=np.bool_)
        self.refused[table.rows(asked)] = True
        self.refused &= ~self.allowed
        self._bonus: IntArray = np.zeros(table.size, dtype=np.int64)
        for node, score in decision.scores.items():
            if (row := table.index.get(node)) is not None:
                self._bonus[row] = score
        self._rejections = {
            table.index[node]: PluginRejection(EXTENDER, Rejection((reason,), code))
            for code, reasons in (
                (Code.UNSCHEDULABLE, decision.failed),
                (Code.UNRESOLVABLE, decision.unresolvable),
            )
            for node, reason in reasons.items()
            if node in table.index
        }

    def note_refusal(self, member: QueuedPod, node: str, now: float) -> None:
        """Have a pod remember that the node is refused which others have left for it."""
        row = self._table.index.get(node)
        if row is not None and self.refused[row]:
            member.refused_nominations.note(node, now)

    def best(self, feasible: BoolArray, ranked: IntArray) -> int:
        """The best of the feasible rows, the lowest of equals; -1 if none is allowed."""
        open_rows = feasible & self.allowed
        if not open_rows.any():
            return -1
        return int(np.where(open_rows, ranked + self._bonus, _MIN_SCORE).argmax())

    def explain(self, diagnosis: Diagnosis, unexplained: BoolArray) -> None:
        """Say of the rows that are ``unexplained`` why a pod may not have them."""
        index_of: dict[PluginRejection, int] = {}
        kinds, kind_of = [*diagnosis.rejections], diagnosis.rejection_index.copy()
        for row in np.flatnonzero(unexplained & ~self.allowed).tolist():
            why = _UNASKED
            if self.refused[row]:
                why = self._rejections.get(row, _LEFT_OUT)
            if why not in index_of:
                index_of[why] = len(kinds)
                kinds.append(why)
            kind_of[row] = index_of[why]
        diagnosis.replace_index(kind_of, kinds)


def rows_to_clear(table: NodeTable, member: QueuedPod, now: float) -> RowMask | None:
    """The rows on which pods may be evicted for a pod; None if these are all."""
    closed = member.refused_nominations.closed(now)
    if not closed:
        return None
    rows = np.ones(table.size, dtype=np.bool_)
    rows[table.rows(closed)] = False
    return RowMask(rows, _IN_VAIN)
