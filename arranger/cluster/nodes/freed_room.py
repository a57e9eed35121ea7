"""Room that is free as if pods had left, by the sums alone: for whoever compares nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from arranger.cluster.nodes.bulk_moves import sum_up
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo, SumsKey


@dataclass(slots=True, eq=False)
class FreedRoom:
    """Pods that request nothing on their nodes, use nothing of their queues, and are there in all
    else.

    Args:
        on_moved: told of a pod that takes (1) or leaves (-1) a node.
    """

    _table: NodeTable
    _on_moved: Callable[[PodInfo, str, int], None]
    #: uid → the pod and its node, of those that request nothing.
    _away: dict[str, tuple[PodInfo, str]] = field(default_factory=dict, init=False)
    #: uids of those that request again what they did.
    _back: set[str] = field(default_factory=set, init=False)

    def free(self, pods: Iterable[tuple[PodInfo, str]]) -> None:
        """What pods request on their nodes is free."""
        self._away = {pod.uid: (pod, node) for pod, node in pods}
        self._move_all(-1)

    def put_back(self, pod: PodInfo, node: str) -> bool:
        """Have a pod request again what it did; False if it is none of these."""
        if self._away.pop(pod.uid, None) is None:
            return False
        self._back.add(pod.uid)
        self._move(pod, node, 1)
        return True

    def take_again(self, pod: PodInfo, node: str) -> bool:
        """Undo :meth:`put_back`; False if there is nothing to undo."""
        if pod.uid not in self._back:
            return False
        self._back.remove(pod.uid)
        self._away[pod.uid] = pod, node
        self._move(pod, node, -1)
        return True

    def end(self) -> None:
        """All request again what they did."""
        self._move_all(1)
        self._away.clear()

    # --- inside ----------------------------------------------------------------------------

    def _move_all(self, sign: int) -> None:
        row_of, on_moved, alike = self._table.index, self._on_moved, dict[SumsKey, list[int]]()
        for pod, node in self._away.values():
            on_moved(pod, node, sign)
            alike.setdefault(self._sums(pod), []).append(row_of[node])
        sum_up(self._table, alike, sign)

    def _move(self, pod: PodInfo, node: str, sign: int) -> None:
        self._on_moved(pod, node, sign)
        sum_up(self._table, {self._sums(pod): [self._table.index[node]]}, sign)

    def _sums(self, pod: PodInfo) -> SumsKey:
        key = pod.sums_key(self._table.resource_column)
        assert key is not None, "it is more than sums"
        return key
