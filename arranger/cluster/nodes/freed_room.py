"""Room that is free as if pods had left: for who compares sums, and looks at few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from arranger.api.types.core import Pod
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

    def on_pods_moved(self, pods: Iterable[tuple[PodInfo, str]], sign: int) -> None:
        """The same of pods and their nodes, where there is something to count."""


@dataclass(slots=True, eq=False)
class FreedRoom:
    """Pods that request nothing on their nodes, and use nothing of their queues.

    Those that are looked at are hidden beside that: who looks at the pods of a node, or of a
    namespace, does not find them. The others are there in all else.

    Attributes:
        left: uid → node, of those that nobody finds: the hidden ones, and those that are gone.
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
    #: uid → the pod and its row, of those that are looked at.
    _hidden: dict[str, tuple[PodInfo, int]] = field(default_factory=dict, init=False)
    #: Namespace → these and their rows.
    _spaces: dict[str, list[tuple[Pod, int]]] = field(default_factory=dict, init=False)
    #: Row → the pods that were there.
    _before: dict[int, dict[str, PodInfo]] = field(default_factory=dict, init=False)

    def free(
        self,
        pods: Iterable[PodInfo],
        node_of: Mapping[str, str],
        looked_at: Callable[[PodInfo], bool],
    ) -> list[PodInfo]:
        """What pods request on their nodes is free; returns those that are more than sums, and are
        to leave in all.

        Args:
            node_of: uid → node.
            looked_at: whether somebody looks at a pod.
        """
        rows, row_of, column_of = self._rows, self._table.index, self._table.resource_column
        counts_use = self._quota is not None and self._quota.active
        others = list[PodInfo]()
        for pod in pods:
            node = node_of[pod.uid]
            row, key = row_of.get(node), pod.sums_key(column_of)
            if key is None or row is None:
                others.append(pod)
                self.left[pod.uid] = node
                continue
            if looked_at(pod):
                self._note_hidden(pod.uid, row)
                self.left[pod.uid] = node
            if (on := rows.get(key)) is None:
                on = rows[key] = []
            on.append(row)
            if counts_use:
                self._used.append((pod, node))
        sum_up(self._table, rows.items(), -1)
        self._count_use(self._used, -1)
        self._hide()
        return others

    def put_back(self, pod: PodInfo, node: str) -> None:
        """A pod requests there again what it did."""
        self._back[pod.uid] = pod, node
        self._move(pod, node, 1)
        if (found := self._hidden.get(pod.uid)) is not None:
            info, row = found
            self._table.pods[row][pod.uid] = info
            self._table.placed.add(info.pod, row)

    def take_again(self, pod: PodInfo) -> bool:
        """Undo :meth:`put_back`; False if there is nothing to undo."""
        found = self._back.pop(pod.uid, None)
        if found is None:
            return False
        self._move(*found, -1)
        if pod.uid in self._hidden:
            info, row = self._hidden[pod.uid]
            del self._table.pods[row][pod.uid]
            self._table.placed.remove(info.pod)
        return True

    def end(self) -> None:
        """All are there as they were, the order of the pods on their nodes included."""
        for pod, node in self._back.values():
            self._move(pod, node, -1)
        self._show()
        sum_up(self._table, self._rows.items(), 1)
        self._count_use(self._used, 1)

    # --- inside ----------------------------------------------------------------------------

    def _note_hidden(self, uid: str, row: int) -> None:
        pods = self._table.pods[row]
        self._before[row] = pods
        pod = pods[uid]
        self._hidden[uid] = pod, row
        raw = pod.pod
        if (space := self._spaces.get(raw.metadata.namespace)) is None:
            space = self._spaces[raw.metadata.namespace] = []
        space.append((raw, row))

    def _hide(self) -> None:
        table, hidden = self._table, self._hidden
        for row, pods in self._before.items():
            table.pods[row] = {uid: pod for uid, pod in pods.items() if uid not in hidden}
        for namespace, found in self._spaces.items():
            table.placed.remove_all(namespace, [pod for pod, _ in found])

    def _show(self) -> None:
        table = self._table
        for namespace, pods in self._spaces.items():
            table.placed.add_all(namespace, pods)
        for uid, (pod, row) in self._hidden.items():
            table.pods[row][uid] = pod
        for row, before in self._before.items():
            table.restore_order(row, before)

    def _move(self, pod: PodInfo, node: str, sign: int) -> None:
        key = pod.sums_key(self._table.resource_column)
        assert key is not None, "it is more than sums"
        sum_up(self._table, [(key, [self._table.index[node]])], sign)
        self._count_use([(pod, node)], sign)

    def _count_use(self, pods: Iterable[tuple[PodInfo, str]], sign: int) -> None:
        if self._quota is not None and self._quota.active:
            self._quota.on_pods_moved(pods, sign)
