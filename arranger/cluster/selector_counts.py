"""How many pods on each node a selector matches, counted once and kept current."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Final

import numpy as np

from arranger.api.types.core import Pod
from arranger.cluster.columns import IntArray, resized
from arranger.cluster.node_table import NodeTable

#: Selectors that counts are kept for; each costs eight bytes a node.
_MAX_CACHED: Final = 256


class SelectorCounts:
    """Row → how many pods of some namespaces match."""

    def __init__(
        self, table: NodeTable, namespaces: frozenset[str] | None, matches: Callable[[Pod], bool]
    ) -> None:
        """``namespaces`` of ``None`` are all namespaces."""
        self._table = table
        self._namespaces = namespaces
        self._matches = matches
        self._version = -1
        self._counts: IntArray = np.zeros(0, dtype=np.int64)

    def by_row(self) -> IntArray:
        """Row → how many match now; read only, and only until the next change."""
        table = self._table
        if self._version != table.version:
            changes = None if self._version < 0 else table.changed_since(self._version)
            if changes is None or len(changes) > table.size:
                self._count_all()
            else:
                if len(self._counts) < table.size:
                    self._counts = resized(self._counts, len(table.alive), 0)
                for row in {row for _, row in changes}:
                    self._counts[row] = self._count(row)
            self._version = table.version
        return self._counts[: table.size]

    def _count_all(self) -> None:
        table = self._table
        self._counts = np.zeros(len(table.alive), dtype=np.int64)
        spaces: Iterable[str] = (
            table.pods_by_namespace if self._namespaces is None else self._namespaces
        )
        for space in spaces:
            for uid, row in table.pods_by_namespace.get(space, {}).items():
                if self._matches(table.pods[row][uid].pod):
                    self._counts[row] += 1

    def _count(self, row: int) -> int:
        spaces = self._namespaces
        return sum(
            (spaces is None or pod.pod.metadata.namespace in spaces) and self._matches(pod.pod)
            for pod in self._table.pods[row].values()
        )


class SelectorCountCache:
    """The counts in use, by selector and namespaces."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._counts: OrderedDict[Hashable, SelectorCounts] = OrderedDict()

    def get(
        self,
        selector_key: Hashable,
        namespaces: frozenset[str] | None,
        matches: Callable[[Pod], bool],
    ) -> SelectorCounts:
        """The counts for ``selector_key``: equal keys must come with equal ``matches``."""
        key = (selector_key, namespaces)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = SelectorCounts(self._table, namespaces, matches)
            if len(self._counts) > _MAX_CACHED:
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(key)
        return counts
