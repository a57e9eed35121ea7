"""Many pods that take or leave their nodes at once, in memory only: as one by one, for less."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from arranger.cluster.columns import CPU, MEMORY
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo, SumsKey

#: Pods and their rows.
Placed = Iterable[tuple[PodInfo, int]]
#: Rows up to which sums are changed one by one.
_FEW: Final = 8


def add_pods(table: NodeTable, placed: Placed) -> None:
    """Count each pod as running on its row, as :meth:`NodeTable.add_pod` does.

    Raises:
        ValueError: one is already there.
    """
    column_of, on_rows, index = table.resource_column, table.pods, table.placed
    alike: dict[SumsKey, list[int]] = {}
    for pod, row in placed:
        key = pod.sums_key(column_of)
        if key is None:
            table.add_pod(pod, row)
            continue
        uid, on_row = pod.pod.metadata.uid, on_rows[row]
        if uid in on_row:
            raise ValueError(f"{pod.key} is already on {table.name(row)}")
        on_row[uid] = pod
        index.add(pod.pod, row)
        alike.setdefault(key, []).append(row)
    sum_up(table, alike, 1)


def remove_pods(table: NodeTable, placed: Placed) -> None:
    """Take each pod off its row; the exact inverse of :func:`add_pods`.

    Raises:
        KeyError: one is not there.
    """
    column_of, on_rows, index = table.resource_column, table.pods, table.placed
    alike: dict[SumsKey, list[int]] = {}
    for pod, row in placed:
        key = pod.sums_key(column_of)
        if key is None:
            table.remove_pod(pod, row)
            continue
        del on_rows[row][pod.pod.metadata.uid]
        index.remove(pod.pod)
        alike.setdefault(key, []).append(row)
    sum_up(table, alike, -1)


def sum_up(table: NodeTable, alike: Mapping[SumsKey, list[int]], sign: int) -> None:
    """Count what pods request on their rows (1), or count it no more (-1)."""
    requested, nonzero = table.requested, table.nonzero_requested
    changed = dict[int, None]()
    for (columns, amounts, (cpu, memory)), rows in alike.items():
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
