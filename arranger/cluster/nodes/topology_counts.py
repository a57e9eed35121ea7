"""Sums by topology domain, kept current by the rows that change."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from arranger.cluster.columns import ABSENT, BoolArray, IdArray, IntArray, occurring
from arranger.cluster.nodes.node_table import NodeTable

#: With more changes than this, counting all rows is cheaper.
_MAX_INCREMENTAL_CHANGES = 64


def sum_by_domain(ids: IdArray, counts: IntArray, among: BoolArray, domains: int) -> IntArray:
    """Domain id → sum of ``counts`` over the rows ``among``; absent ids must not be among them."""
    sums = np.bincount(ids[among], weights=counts[among], minlength=domains)
    return sums.astype(np.int64)


def sum_by_label(table: NodeTable, key: str, counts: IntArray | Mapping[int, int]) -> IntArray:
    """Domain of a label → sum of ``counts`` over its rows, worked out once; the last entry is 0."""
    ids = table.label_column(key)[: table.size]
    if isinstance(counts, Mapping):
        ids, counts = ids[list(counts)], np.array(list(counts.values()))
    return np.append(sum_by_domain(ids, counts, ids != ABSENT, len(table.label_values(key))), 0)


class TopologyCounts:
    """Sums, by the value of a label, over the rows that carry it.

    Args:
        rows: the rows that count; all with the label, if None. May depend on the nodes only.

    Attributes:
        domains: the domains that these rows are in.
    """

    def __init__(self, table: NodeTable, key: str, rows: BoolArray | None = None) -> None:
        ids = table.label_column(key)[: table.size]
        counted = ids != ABSENT if rows is None else rows & (ids != ABSENT)
        self._table, self._key = table, key
        self._values = table.label_values(key)
        self._size = len(self._values) + 1
        #: Row → its domain; rows that do not count have the last one.
        self._domain_of = np.where(counted, ids, self._size - 1)
        self.domains: IntArray = occurring(ids[counted], self._size)
        self._last: IntArray = np.zeros(table.size, dtype=np.int64)
        self._sums: IntArray = np.zeros(self._size, dtype=np.int64)
        self._version = -1
        self._nodes_version = table.nodes_version

    @property
    def is_current(self) -> bool:
        """Whether the nodes are still those that it was made for."""
        table = self._table
        return (
            self._nodes_version == table.nodes_version
            and self._values is table.label_values(self._key)
            and len(self._last) == table.size
        )

    def sums_for(self, counts: IntArray | Mapping[int, int]) -> IntArray:
        """Domain → sum of ``counts`` over its rows; the last entry, that of ABSENT, is 0.

        One object is for one kind of counts: what has changed since the last call is added up.
        The result is read only, and only until the next call.
        """
        table = self._table
        changes = None if self._version < 0 else table.changed_since(self._version)
        if changes is None or len(changes) > _MAX_INCREMENTAL_CHANGES:
            self._count_all(counts)
        else:
            for row in {row for _, row in changes}:
                now = counts.get(row, 0) if isinstance(counts, Mapping) else int(counts[row])
                self._sums[self._domain_of[row]] += now - self._last[row]
                self._last[row] = now
        self._sums[-1] = 0
        self._version = table.version
        return self._sums

    def _count_all(self, counts: IntArray | Mapping[int, int]) -> None:
        if isinstance(counts, Mapping):
            self._last[:] = 0
            self._last[list(counts)] = list(counts.values())
        else:
            self._last[:] = counts
        sums = np.bincount(self._domain_of, weights=self._last, minlength=self._size)
        self._sums = sums.astype(np.int64)
