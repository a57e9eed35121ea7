"""Many pods that take or leave their nodes at once, in memory only: as one by one, for less."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from arranger.api.types.core import Pod
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
    column_of, on_rows = table.resource_column, table.pods
    alike, sums = dict[int, list[int]](), dict[int, SumsKey]()
    spaces: dict[str, list[tuple[Pod, int]]] = {}
    for pod, row in placed:
        key = pod.sums_key(column_of)
        if key is None:
            table.add_pod(pod, row)
            continue
        on_row = on_rows[row]
        if pod.uid in on_row:
            raise ValueError(f"{pod.key} is already on {table.name(row)}")
        on_row[pod.uid] = pod
        _note(spaces, alike, sums, pod, row, key)
    for namespace, pods in spaces.items():
        table.placed.add_all(namespace, pods)
    sum_up(table, ((sums[number], rows) for number, rows in alike.items()), 1)


def remove_pods(table: NodeTable, placed: Placed) -> None:
    """Take each pod off its row; the exact inverse of :func:`add_pods`.

    Raises:
        KeyError: one is not there.
    """
    column_of, on_rows = table.resource_column, table.pods
    alike, sums = dict[int, list[int]](), dict[int, SumsKey]()
    spaces: dict[str, list[tuple[Pod, int]]] = {}
    for pod, row in placed:
        key = pod.sums_key(column_of)
        if key is None:
            table.remove_pod(pod, row)
            continue
        del on_rows[row][pod.uid]
        _note(spaces, alike, sums, pod, row, key)
    for namespace, pods in spaces.items():
        table.placed.remove_all(namespace, [pod for pod, _ in pods])
    sum_up(table, ((sums[number], rows) for number, rows in alike.items()), -1)


def _note(
    spaces: dict[str, list[tuple[Pod, int]]],
    alike: dict[int, list[int]],
    sums: dict[int, SumsKey],
    pod: PodInfo,
    row: int,
    key: SumsKey,
) -> None:
    """A pod is one of its namespace, and of those that request the same.

    ``alike`` is by the identity of keys, which are kept once each; two equal ones do no harm.
    """
    raw, number = pod.pod, id(key)
    namespace = raw.metadata.namespace
    if (pods := spaces.get(namespace)) is None:
        pods = spaces[namespace] = []
    pods.append((raw, row))
    if (rows := alike.get(number)) is None:
        rows = alike[number] = []
        sums[number] = key
    rows.append(row)


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
