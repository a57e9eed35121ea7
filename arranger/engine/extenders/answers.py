"""What extenders have said about the pods of one entity, for as long as its attempt takes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from arranger.api.effects import ExtenderDecision, QueryExtenders
from arranger.cluster.attempt_work import AttemptWork
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.nodes.row_change import RowChange
from arranger.engine.pod.attempt_limits import NAMES_PER_UNIT
from arranger.engine.pod.extender_result import ExtenderResult


class ExtenderAnswers(Mapping[Hashable, ExtenderResult]):
    """Equivalence key → the answer about such pods, as rows of the node table as it is now.

    Each is worked out when it is needed first, and again when nodes have come or gone.
    """

    def __init__(self, table: NodeTable, work: AttemptWork) -> None:
        """``work``: what an attempt spends on it."""
        self._table, self._work = table, work
        self._version = table.version
        self._answers: dict[Hashable, tuple[QueryExtenders, ExtenderDecision]] = {}
        self._results: dict[Hashable, ExtenderResult] = {}

    def add(self, kind: Hashable, question: QueryExtenders, decision: ExtenderDecision) -> None:
        """Extenders have decided about the pods of an equivalence key."""
        self._answers[kind] = question, decision

    def __getitem__(self, kind: Hashable) -> ExtenderResult:
        """See :meth:`Mapping.get`."""
        self._follow()
        if (result := self._results.get(kind)) is None:
            question, decision = self._answers[kind]
            told = (question.nodes, decision.nodes, decision.scores, decision.failed)
            names = sum(map(len, told)) + len(decision.unresolvable)
            self._work.count(names // NAMES_PER_UNIT)
            result = self._results[kind] = ExtenderResult(self._table, question.nodes, decision)
        return result

    def __iter__(self) -> Iterator[Hashable]:
        """The equivalence keys."""
        return iter(self._answers)

    def __len__(self) -> int:
        """How many equivalence keys there are."""
        return len(self._answers)

    def _follow(self) -> None:
        if self._version == self._table.version:
            return
        changes = self._table.changed_since(self._version)
        self._version = self._table.version
        if changes is None or any(change is RowChange.NODE for change, _ in changes):
            self._results.clear()
