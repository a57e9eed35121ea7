"""On which nodes there are pods of which class of victims, kept current by the nodes that change.

A policy says the same of all pods of a class (:meth:`~arranger.framework.preemption.EvictionPolicy.
victim_class`), so it need not be asked about each of a hundred thousand pods.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final

from arranger.cluster.attempt_work import AttemptWork
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo

#: Units of work to tell the class of a pod.
_LOOK_AT_POD: Final = 3


class VictimClasses:
    """The classes of all pods that are on nodes.

    Args:
        table: the nodes.
        class_of: the class of a pod.
    """

    def __init__(self, table: NodeTable, class_of: Callable[[PodInfo], Hashable]) -> None:
        self._table, self._class_of = table, class_of
        self._version: tuple[int, Hashable] = -1, None
        #: Rows that have changed and have not been looked at yet.
        self._stale: set[int] = set()
        #: Class → row → one of its pods there.
        self._classes: dict[Hashable, dict[int, PodInfo]] = {}
        self._of_row: dict[int, tuple[Hashable, ...]] = {}

    def rows_by_pod(
        self, state: Hashable, work: AttemptWork | None = None
    ) -> Iterator[tuple[PodInfo, dict[int, PodInfo]]]:
        """For each class one of its pods, and the rows on which there are some.

        ``state`` changes when pods may have become of other classes.

        Raises:
            UnfinishedError: there is more to look at than ``work`` has left; ask again.
        """
        self._note_changes(state)
        while self._stale:
            row = self._stale.pop()
            self._look_at(row)
            if work is not None and self._stale:
                work.count(_LOOK_AT_POD * len(self._table.pods[row]))
                work.check()
        return ((next(iter(rows.values())), rows) for rows in self._classes.values())

    def _note_changes(self, state: Hashable) -> None:
        table = self._table
        version, before = self._version
        if (version, before) == (table.version, state):
            return
        changes = table.changed_since(version) if before == state and version >= 0 else None
        self._version = table.version, state
        if changes is None:
            self._classes.clear()
            self._of_row.clear()
            self._stale = set(range(table.size))
        else:
            self._stale.update(row for _, row in changes)

    def _look_at(self, row: int) -> None:
        for known in self._of_row.pop(row, ()):
            rows = self._classes[known]
            del rows[row]
            if not rows:
                del self._classes[known]
        class_of = self._class_of
        if here := {class_of(pod): pod for pod in self._table.pods[row].values()}:
            self._of_row[row] = tuple(here)
            for each, pod in here.items():
                self._classes.setdefault(each, {})[row] = pod
