"""Room that is free as if pods had left, by the sums alone: for whoever compares nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from arranger.cluster.nodes.bulk_moves import sum_up
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo, SumsKey


class PodQuota(Protocol):
    """Counts what pods use together, wherever they are."""

    @property
    def active(self) -> bool:
        """Whether there is anything to count."""

    def on_pod_moved(self, pod: PodInfo, node: str, sign: int) -> None:
        """A pod takes (1) or leaves (-1) a node, in a simulation too."""


@dataclass(slots=True, eq=False)
class FreedRoom:
    """Pods that request nothing on their nodes, use nothing of their queues, and are there in all
    else.

    Attributes:
        left: uid → node, of those that are more than sums, and are gone in all.
    """

    _table: NodeTable
    _quota: PodQuota | None
    left: dict[str, str] = field(default_factory=dict, init=False)
    #: What pods request → the rows of all of these.
    _rows: dict[SumsKey, list[int]] = field(default_factory=dict, init=False)
    #: All of these, where their use is counted.
    _used: list[tuple[PodInfo, str]] = field(default_factory=list, init=False)
    #: uid → the pod and its node, of those that request again what they did.
    _back: dict[str, tuple[PodInfo, str]] = field(default_factory=dict, init=False)

    def free(
        self,
        pods: Iterable[PodInfo],
        node_of: Mapping[str, str],
        looked_at: Callable[[PodInfo], bool],
    ) -> list[PodInfo]:
        """What pods request on their nodes is free; returns those that are to leave in all.

        Args:
            node_of: uid → node.
            looked_at: whether of a pod more counts than that.
        """
        rows, row_of, column_of = self._rows, self._table.index, self._table.resource_column
        counts_use = self._quota is not None and self._quota.active
        others = list[PodInfo]()
        for pod in pods:
            node = node_of[pod.uid]
            row, key = row_of.get(node), pod.sums_key(column_of)
            if key is None or row is None or looked_at(pod):
                others.append(pod)
                self.left[pod.uid] = node
                continue
            if (on := rows.get(key)) is None:
                on = rows[key] = []
            on.append(row)
            if counts_use:
                self._used.append((pod, node))
        sum_up(self._table, rows.items(), -1)
        self._count_use(self._used, -1)
        return others

    def put_back(self, pod: PodInfo, node: str) -> None:
        """A pod requests there again what it did."""
        self._back[pod.uid] = pod, node
        self._move(pod, node, 1)

    def take_again(self, pod: PodInfo) -> bool:
        """Undo :meth:`put_back`; False if there is nothing to undo."""
        found = self._back.pop(pod.uid, None)
        if found is not None:
            self._move(*found, -1)
        return found is not None

    def end(self) -> None:
        """All request again what they did."""
        for pod, node in self._back.values():
            self._move(pod, node, -1)
        sum_up(self._table, self._rows.items(), 1)
        self._count_use(self._used, 1)

    # --- inside ----------------------------------------------------------------------------

    def _move(self, pod: PodInfo, node: str, sign: int) -> None:
        key = pod.sums_key(self._table.resource_column)
        assert key is not None, "it is more than sums"
        sum_up(self._table, [(key, [self._table.index[node]])], sign)
        self._count_use([(pod, node)], sign)

    def _count_use(self, pods: Iterable[tuple[PodInfo, str]], sign: int) -> None:
        if self._quota is not None and self._quota.active:
            for pod, node in pods:
                self._quota.on_pod_moved(pod, node, sign)
