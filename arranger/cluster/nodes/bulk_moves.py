"""Many pods that take or leave their nodes at once, in memory only: as one by one, for less."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import numpy as np

from arranger.api.types.core import Pod
from arranger.cluster.columns import CPU, MEMORY
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo, SumsKey

K = TypeVar("K")
T = TypeVar("T")

#: Pods and their rows.
Placed = Iterable[tuple[PodInfo, int]]
#: Rows up to which sums are changed one by one.
_FEW: Final = 8


def add_pods(table: NodeTable, placed: Placed) -> None:
    """Count each pod as running on its row, as :meth:`NodeTable.add_pod` does.

    Raises:
        ValueError: one is already there.
    """
    on_rows, moves = table.pods, _Moves(table, placed)
    for pod, row in moves.others:
        table.add_pod(pod, row)
    for pod, row in moves.sums:
        on_row, uid = on_rows[row], pod.uid
        if uid in on_row:
            raise ValueError(f"{pod.key} is already on {table.name(row)}")
        on_row[uid] = pod
    for namespace, pods in moves.by_namespace():
        table.placed.add_all(namespace, pods)
    for pod, row in moves.indexed:
        table.index_uses(pod, row, 1)
    sum_up(table, moves.by_key(), 1)


def remove_pods(table: NodeTable, placed: Placed) -> None:
    """Take each pod off its row; the exact inverse of :func:`add_pods`.

    Raises:
        KeyError: one is not there.
    """
    on_rows, moves = table.pods, _Moves(table, placed)
    for pod, row in moves.others:
        table.remove_pod(pod, row)
    for pod, row in moves.sums:
        del on_rows[row][pod.uid]
    for namespace, pods in moves.by_namespace():
        table.placed.remove_all(namespace, [pod for pod, _ in pods])
    for pod, row in moves.indexed:
        table.index_uses(pod, row, -1)
    sum_up(table, moves.by_key(), -1)


class _Moves:
    """Pods and their rows.

    Attributes:
        others: whose requests are not counted by adding alone.
        sums: all others; ``keys`` tell what is added for each of these.
        indexed: those of ``sums`` of whom more is counted than that.
    """

    def __init__(self, table: NodeTable, placed: Placed) -> None:
        column_of = table.resource_column
        self.sums, self.others = list(placed), list[tuple[PodInfo, int]]()
        keys = [pod.requests_key(column_of) for pod, _ in self.sums]
        if None in keys:
            both = list(zip(self.sums, keys, strict=True))
            self.others = [each for each, key in both if key is None]
            self.sums = [each for each, key in both if key is not None]
        self.keys = [key for key in keys if key is not None]
        self.indexed = [each for each in self.sums if each[0].is_indexed]

    def by_namespace(self) -> Iterable[tuple[str, list[tuple[Pod, int]]]]:
        """Of each namespace the pods and their rows."""
        pods = [(pod.pod, row) for pod, row in self.sums]
        return _grouped([pod.metadata.namespace for pod, _ in pods], pods)

    def by_key(self) -> Iterable[tuple[SumsKey, list[int]]]:
        """What pods request, and the rows of all that request just that.

        Equal keys are one object nearly always, and where they are two that does no harm.
        """
        rows = [row for _, row in self.sums]
        if self.keys and self.keys.count(self.keys[0]) == len(self.keys):
            return [(self.keys[0], rows)]
        key_of = {id(key): key for key in self.keys}
        return [(key_of[number], each) for number, each in _grouped(map(id, self.keys), rows)]


def _grouped(names: Iterable[K], values: Sequence[T]) -> Iterable[tuple[K, list[T]]]:
    """Those of each name together: all of one most often."""
    names = list(names)
    if names and names.count(names[0]) == len(names):
        return [(names[0], list(values))]
    found = dict[K, list[T]]()
    for name, value in zip(names, values, strict=True):
        if (group := found.get(name)) is None:
            group = found[name] = []
        group.append(value)
    return found.items()


def sum_up(table: NodeTable, alike: Iterable[tuple[SumsKey, list[int]]], sign: int) -> None:
    """Count what pods request on their rows (1), or count it no more (-1)."""
    requested, nonzero = table.requested, table.nonzero_requested
    changed = dict[int, None]()
    for (columns, amounts, (cpu, memory)), rows in alike:
        changed.update(dict.fromkeys(rows))
        if len(rows) <= _FEW:
            for row in rows:
                for column, amount in zip(columns, amounts, strict=True):
                    requested[column, row] += sign * amount
                nonzero[CPU, row] += sign * cpu
                nonzero[MEMORY, row] += sign * memory
            continue
        counts = np.bincount(np.array(rows, dtype=np.int64), minlength=requested.shape[1])
        for column, amount in zip(columns, amounts, strict=True):
            requested[column] += sign * amount * counts
        nonzero[CPU] += sign * cpu * counts
        nonzero[MEMORY] += sign * memory * counts
    table.note_usage_changes(changed)
