"""How many pods on each node a selector matches, counted once and kept current.

Where there are many pods to look at, this is put off from one attempt to the next.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from arranger.cluster.attempt_work import AttemptWork
from arranger.cluster.columns import IntArray, resized
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.nodes.placed_pods import MAX_LABELS
from arranger.cluster.pod_info import PodInfo

#: Selectors that counts are kept for; each costs eight bytes a node.
_MAX_CACHED: Final = 256
#: Those of them whose selectors are large, and kept with the counts.
_MAX_LARGE: Final = 4
#: Rows that are counted at once, and pods, however little an attempt may spend.
_FEW_ROWS: Final = 16
_FEW_PODS: Final = 512


class SelectorCounts:
    """Row → how many pods of some namespaces match.

    Args:
        namespaces: ``None`` for all.
        cost: units of work to look at one pod.
        labels: (key, value) of labels that every pod has that matches.
    """

    def __init__(
        self,
        table: NodeTable,
        namespaces: frozenset[str] | None,
        matches: Callable[[PodInfo], bool],
        work: AttemptWork | None = None,
        cost: int = 1,
        labels: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._table = table
        self._labels = labels
        self._namespaces = namespaces
        self._matches = matches
        self._work = work or AttemptWork()
        self._cost = cost
        self._version = -1
        self._counts: IntArray = np.zeros(0, dtype=np.int64)
        #: Rows that are still to be counted, or counted again.
        self._stale: set[int] = set()

    def by_row(self) -> IntArray:
        """Row → how many match now; read only, and only until the next change.

        Raises:
            UnfinishedError: they have not all been counted.
        """
        table = self._table
        if self._version != table.version:
            changes = None if self._version < 0 else table.changed_since(self._version)
            self._version = table.version
            if len(self._counts) < table.size:
                self._counts = resized(self._counts, len(table.alive), 0)
            self._follow(changes)
        if self._stale:
            self._count_stale()
        return self._counts[: table.size]

    def _follow(self, changes: Sequence[tuple[object, int]] | None) -> None:
        """Count what has changed; ``None``: anything may have."""
        if changes is None or (len(changes) > self._table.size and self._labels):
            # With so many changes it costs more to see which rows these are.
            self._count_all(changes)
            return
        rows = {row for _, row in changes}
        if len(rows) > _FEW_ROWS and self._labels:
            self._count_all(changes)
        elif self._stale or len(rows) > _FEW_ROWS:
            self._stale |= rows
        else:  # the usual case
            for row in rows:
                self._counts[row] = self._count(row)

    def _count_all(self, changes: Sequence[tuple[object, int]] | None) -> None:
        """Count anew: few pods at once, many row by row, and of these the changed ones if given."""
        table, spaces = self._table, self._namespaces
        found: list[Mapping[str, int]] = []
        for space in table.placed.by_namespace if spaces is None else spaces:
            pods, looked_at = table.placed.candidates(space, self._labels, table.pods)
            self._work.count(looked_at // 4)
            found.append(pods)
        many = sum(map(len, found)) > _FEW_PODS
        if many and changes is not None:
            self._stale.update(row for _, row in changes)
            return
        self._stale.clear()
        self._counts[:] = 0
        if many:
            self._stale.update(row for pods in found for row in pods.values())
            return
        for pods in found:
            self._work.count(self._cost * len(pods))
            for uid, row in pods.items():
                if self._matches(table.pods[row][uid]):
                    self._counts[row] += 1

    def _count_stale(self) -> None:
        stale, work = self._stale, self._work
        many = len(stale) > _FEW_ROWS
        while stale:
            if many:
                work.check()
            row = stale.pop()
            self._counts[row] = self._count(row)
            work.count(1 + self._cost * len(self._table.pods[row]))

    def _count(self, row: int) -> int:
        spaces = self._namespaces
        return sum(
            (spaces is None or pod.pod.metadata.namespace in spaces) and self._matches(pod)
            for pod in self._table.pods[row].values()
        )


class SelectorCountCache:
    """The counts in use, by selector and namespaces."""

    def __init__(self, table: NodeTable, work: AttemptWork | None = None) -> None:
        self._table = table
        self._work = work or AttemptWork()
        self._counts: OrderedDict[Hashable, SelectorCounts] = OrderedDict()
        self._large: deque[Hashable] = deque()

    def get(
        self,
        selector_key: Hashable,
        namespaces: frozenset[str] | None,
        matches: Callable[[PodInfo], bool],
        cost: Callable[[], int] = lambda: 1,
        labels: Callable[[], Sequence[tuple[str, str]]] = tuple,
        *,
        large: bool = False,
    ) -> SelectorCounts:
        """The counts for ``selector_key``.

        Equal keys must come with equal ``matches``, and so with equal ``cost``, units of work to
        look at one pod, and ``labels``, (key, value) that every pod has that matches. Of
        ``large`` selectors few are kept.
        """
        key = (selector_key, namespaces)
        counts = self._counts.get(key)
        if counts is None:
            few = labels()[:MAX_LABELS]
            found = SelectorCounts(self._table, namespaces, matches, self._work, cost(), few)
            counts = self._counts[key] = found
            if large:
                self._large.append(key)
                if len(self._large) > _MAX_LARGE:
                    self._counts.pop(self._large.popleft(), None)
            if len(self._counts) > _MAX_CACHED:
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(key)
        return counts
