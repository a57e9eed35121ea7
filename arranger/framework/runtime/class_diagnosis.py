"""Why the nodes are infeasible for a class of pods, kept current cheaply."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from arranger.cluster import Cluster, NodeView, PodInfo
from arranger.cluster.columns import IdArray
from arranger.framework.diagnosis import PRE_FILTER_RESULT, Diagnosis, PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.interface import DependsOn, Plugin
from arranger.framework.runtime.feasible_rows import FeasibleRows
from arranger.framework.runtime.pre_filter import PreFilterOutcome
from arranger.framework.runtime.run import explain_filter
from arranger.framework.status import Code, CycleState

#: With more changed rows, or more different rejections, all are explained again.
_FEW_ROWS: Final = 256


class ClassDiagnosis:
    """For each row the first plugin that rejects it.

    After a change only the rows that have changed are explained again, unless a plugin has a say
    that looks at the whole cluster, or explains itself before others.
    """

    def __init__(
        self,
        cluster: Cluster,
        pod: PodInfo,
        state: CycleState,
        outcome: PreFilterOutcome,
        filters: Sequence[Plugin],
        feasible: FeasibleRows,
    ) -> None:
        self._cluster, self._pod, self._state, self._outcome = cluster, pod, state, outcome
        self._feasible = feasible
        self._filters = _in_order_of_explanation(filters)
        self._by_row = all(
            p.depends_on is not DependsOn.CLUSTER and not p.explains_first for p in filters
        )
        self._known: Diagnosis | None = None
        self._stale: set[int] = set()

    def on_changed(self, rows: Collection[int]) -> None:
        """These rows have been filtered again."""
        if self._known is not None:
            self._stale.update(rows)
            kinds = len(self._known.rejections)
            if not self._by_row or len(self._stale) > _FEW_ROWS or kinds > _FEW_ROWS:
                self._known = None
                self._stale.clear()

    def current(self) -> Diagnosis:
        """The diagnosis, of which nothing is changed later."""
        if self._stale and self._known is not None:
            self._known = self._explain_again(self._known, sorted(self._stale))
            self._stale.clear()
        if self._known is None:
            self._known = self._explain()
        return replace(self._known)

    def _explain(self) -> Diagnosis:
        table, outcome = self._cluster.table, self._outcome
        diagnosis = Diagnosis(nodes=table.count, pre_filter_status=outcome.status)
        if outcome.status is not None:
            return diagnosis
        view = NodeView(table)
        rejection_index: IdArray = np.full(table.size, -1, dtype=np.int32)
        undecided = table.alive[: table.size].copy()
        allowed = outcome.allowed_rows
        if allowed is not None and (outside := undecided & ~allowed).any():
            diagnosis.rejections.append(self._not_allowed())
            rejection_index[outside] = 0
            undecided &= allowed
        for plugin in self._filters:
            if not undecided.any() and not plugin.explains_first:
                continue
            rejections, index_here = explain_filter(plugin, self._state, self._pod, view)
            hit = undecided & (index_here >= 0)
            if hit.any():
                told, places = np.unique(index_here[hit], return_inverse=True)
                rejection_index[hit] = places + len(diagnosis.rejections)
                rejections = [rejections[kind] for kind in told.tolist()]
                undecided &= ~hit
            elif not plugin.explains_first or (index_here < 0)[table.alive[: table.size]].any():
                continue
            diagnosis.rejections += [PluginRejection(plugin.name, kind) for kind in rejections]
        diagnosis.rejection_index = rejection_index
        if self._by_row:
            count = np.bincount(rejection_index + 1, minlength=len(diagnosis.rejections) + 1)
            diagnosis.rows_by_rejection = count[1:].tolist()
        return diagnosis

    def _explain_again(self, known: Diagnosis, rows: list[int]) -> Diagnosis:
        """As :meth:`_explain`, where only these rows have changed."""
        index, kinds = known.rejection_index.copy(), list(known.rejections)
        counts = list(known.rows_by_rejection or ())
        number_of = {kind: number for number, kind in enumerate(kinds)}
        for row, kind in zip(rows, self._first_rejections(rows), strict=True):
            before: int = index.item(row)
            if before >= 0:
                counts[before] -= 1
            number = -1
            if kind is not None:
                number = number_of.setdefault(kind, len(kinds))
                if number == len(kinds):
                    kinds.append(kind)
                    counts.append(0)
                counts[number] += 1
            index[row] = number
        for number in reversed([number for number, count in enumerate(counts) if not count]):
            last = len(kinds) - 1
            if number < last:
                index[index == last] = number
                kinds[number], counts[number] = kinds[last], counts[last]
            del kinds[last], counts[last]
        return replace(
            known,
            nodes=self._cluster.table.count,
            rejections=kinds,
            rejection_index=index,
            rows_by_rejection=counts,
        )

    def _first_rejections(self, rows: list[int]) -> list[PluginRejection | None]:
        """Of each row the first rejection."""
        table, allowed = self._cluster.table, self._outcome.allowed_rows
        feasible, static = self._feasible.all, self._feasible.static
        found: list[PluginRejection | None] = [None] * len(rows)
        undecided = [n for n, row in enumerate(rows) if table.alive[row] and not feasible[row]]
        by_usage = all(static[rows[n]] for n in undecided)
        if allowed is not None:
            for n in [n for n in undecided if not allowed[rows[n]]]:
                found[n] = self._not_allowed()
                undecided.remove(n)
        for plugin in self._filters:
            if not undecided:
                break
            if by_usage and plugin.depends_on is not DependsOn.USAGE:
                continue  # it has passed them all
            view = NodeView(table, np.array([rows[n] for n in undecided], dtype=np.int64))
            if len(undecided) == 1:
                view = NodeView(table, slice(rows[undecided[0]], rows[undecided[0]] + 1))
            rejections, index = explain_filter(plugin, self._state, self._pod, view)
            left = list[int]()
            for n, kind in zip(undecided, index.tolist(), strict=True):
                if kind >= 0:
                    found[n] = PluginRejection(plugin.name, rejections[kind])
                else:
                    left.append(n)
            undecided = left
        return found

    def _not_allowed(self) -> PluginRejection:
        plugins = " ".join(self._outcome.restricted_by)
        reason = f"node(s) didn't satisfy plugin(s) [{plugins}]"
        return PluginRejection(PRE_FILTER_RESULT, Rejection((reason,), Code.UNRESOLVABLE))


def _in_order_of_explanation(filters: Sequence[Plugin]) -> list[Plugin]:
    """The filters in the order in which their reasons are told."""
    first = [plugin for plugin in filters if plugin.explains_first]
    if not first:
        return list(filters)
    others = [plugin for plugin in filters if not plugin.explains_first]
    usage = (n for n, plugin in enumerate(others) if plugin.depends_on >= DependsOn.USAGE)
    at = next(usage, len(others))
    return [*others[:at], *first, *others[at:]]
