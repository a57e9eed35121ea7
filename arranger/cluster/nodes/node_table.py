"""All nodes as NumPy columns.

One row a node: filtering 5,000 nodes costs a handful of array operations. A removed node leaves a
dead row that the next new one takes. Changes are logged, and evaluations redo only their rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from arranger.api.resource_requests import MAX_AMOUNT, Amounts, parse_resource_list
from arranger.api.types.core import Node, Taint
from arranger.cluster.affinity_terms import NO_TERMS, AffinityIndex
from arranger.cluster.change_log import ChangeLog
from arranger.cluster.columns import (
    ABSENT,
    BASIC_RESOURCES,
    CPU,
    MEMORY,
    NOT_OFFERED,
    PODS,
    BoolArray,
    IdArray,
    IntArray,
    Interner,
    LabelColumns,
    least_of,
    resized,
)
from arranger.cluster.excess_amounts import LARGE, ExcessAmounts
from arranger.cluster.exclusive_uses import DiskUses, HostPorts
from arranger.cluster.nodes.node_images import NodeImages
from arranger.cluster.nodes.placed_pods import PlacedPods
from arranger.cluster.nodes.resource_shares import ResourceShares
from arranger.cluster.nodes.row_change import MINOR_CHANGES, RowChange, node_row_change
from arranger.cluster.pod_info import PodInfo, PvcKey

_FIRST_CAPACITY: Final = 64
#: Changes kept in the log.
_LOG_LIMIT: Final = 65536
#: No node counts for more pods: their number on all nodes stays within 64 bits.
MAX_PODS: Final = 2**31 - 1


class NodeTable:
    """The nodes and what runs on them.

    Attributes:
        size: rows in use, dead ones included; columns are longer.
        count: number of nodes.
        index: name of a node → its row.
        alive: row → whether a node is there.
        resources: those that nodes offer, or have offered, by column.
        allocatable, requested: ``[resource column, row]``, cpu in millicores, the rest in units.
        nonzero_requested: ``[0 cpu | 1 memory, row]`` requested, as the scoring plugins count it.
        unschedulable: row → ``spec.unschedulable``.
        taints: row → id in ``taint_lists``.
        pods: row → uid → pod; empty for dead rows.
        placed: the pods in the table, by namespace and label.
        affinity: which rows hold pods with which (anti-)affinity terms.
        pvc_use_counts: PersistentVolumeClaim → how many pods in the table name it.
        ports, disks: what pods use that others of their node may not.
        images: which images are on which rows.
        nodes_version: number of changes so far of nodes, pods and minor ones not counted.
        minor_version: number of changes so far of images, annotations and conditions alone.
        shares: what scores of cpu and memory are worked out from.
    """

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self.index: dict[str, int] = {}
        self.nodes: list[Node | None] = []
        self.pods: list[dict[str, PodInfo]] = []
        self.resources: Interner[str] = Interner((*BASIC_RESOURCES, ""))
        #: Pods that request what no node offers, and their rows.
        self._rows_of_unmet: dict[str, int] = {}
        self.taint_lists: Interner[tuple[tuple[str, str, str], ...]] = Interner([()])
        self.images = NodeImages()
        self.ports, self.disks = HostPorts(), DiskUses()
        self.placed = PlacedPods()
        self.affinity = AffinityIndex()
        self.pvc_use_counts: Counter[PvcKey] = Counter()
        self.alive: BoolArray = np.zeros(_FIRST_CAPACITY, dtype=np.bool_)
        self.unschedulable: BoolArray = np.zeros(_FIRST_CAPACITY, dtype=np.bool_)
        self.taints: IdArray = np.zeros(_FIRST_CAPACITY, dtype=np.int32)
        shape = (len(self.resources), _FIRST_CAPACITY)
        self.allocatable: IntArray = np.zeros(shape, dtype=np.int64)
        self.requested: IntArray = np.zeros(shape, dtype=np.int64)
        self.nonzero_requested: IntArray = np.zeros((2, _FIRST_CAPACITY), dtype=np.int64)
        self._excess, self._nonzero_excess = ExcessAmounts(), ExcessAmounts()
        self._labels = LabelColumns(_FIRST_CAPACITY)
        self._free_rows: list[int] = []
        self._replaced: set[int] = set()
        self._log: ChangeLog[tuple[RowChange, int]] = ChangeLog(_LOG_LIMIT)
        self.nodes_version = self.minor_version = 0
        self.shares = ResourceShares(self)

    def set_node(self, node: Node) -> int:
        """Add a node or bring its row up to date; returns the row.

        Raises:
            QuantityError: an allocatable amount is not a quantity; the table is unchanged.
        """
        row = self.index.get(node.metadata.name)
        change = node_row_change(None if row is None else self.nodes[row], node)
        if row is not None and change is None:
            self.nodes[row] = node
            return row
        allocatable = parse_resource_list(node.status.allocatable)
        if row is None:
            row = self._allocate_row()
            self.index[node.metadata.name] = row
            self.alive[row] = True
            self.count += 1
        self.images.set_row(row, self.nodes[row], node)
        self.nodes[row] = node
        self._labels.set_row(row, node.metadata.labels)
        self._set_allocatable(row, allocatable)
        self.unschedulable[row] = node.spec.unschedulable
        self.taints[row] = self.taint_lists.id(
            tuple((t.key, t.value, t.effect) for t in node.spec.taints)
        )
        self._log_change(change or RowChange.NODE, row)
        return row

    def remove_node(self, name: str) -> dict[str, PodInfo]:
        """Drop a node; returns the pods that were on it.

        Raises:
            KeyError: there is no such node.
        """
        row = self.index.pop(name)
        stranded = self.pods[row]
        self.images.set_row(row, self.nodes[row], None)
        for pod in stranded.values():
            self._index_pod(pod, row, -1)
            self._rows_of_unmet.pop(pod.uid, None)
        self.alive[row] = False
        self.count -= 1
        self.nodes[row] = None
        self.pods[row] = {}
        self._labels.set_row(row, {})
        self.unschedulable[row] = False
        self.taints[row] = 0
        self.allocatable[:, row] = 0
        self.requested[:, row] = 0
        self.nonzero_requested[:, row] = 0
        self._excess.forget_row(row)
        self._nonzero_excess.forget_row(row)
        self._free_rows.append(row)
        self._log_change(RowChange.NODE, row)
        return stranded

    def node(self, row: int) -> Node:
        """The node of a living row."""
        node = self.nodes[row]
        assert node is not None, f"row {row} is dead"
        return node

    def name(self, row: int) -> str:
        """The node name of a living row."""
        return self.node(row).metadata.name

    def add_pod(self, pod: PodInfo, row: int) -> None:
        """Count ``pod`` as running on ``row``.

        Raises:
            ValueError: it is already there.
        """
        if pod.uid in self.pods[row]:
            raise ValueError(f"{pod.key} is already on {self.name(row)}")
        self.pods[row][pod.uid] = pod
        self._account(pod, row, 1)

    def remove_pod(self, pod: PodInfo, row: int) -> None:
        """Take ``pod`` off ``row``; the exact inverse of :meth:`add_pod`.

        Raises:
            KeyError: it is not there.
        """
        del self.pods[row][pod.uid]
        self._account(pod, row, -1)

    def restore_order(self, row: int, before: dict[str, PodInfo]) -> None:
        """Put those pods of a row that were there into the order they had, before the others."""
        pods = self.pods[row]
        known = before if pods == before else {u: pods[u] for u in before if u in pods} | pods
        self.pods[row] = known

    def note_usage_changes(self, rows: Iterable[int]) -> None:
        """Pods have come or gone on these rows, and are counted already."""
        self._log.extend([(RowChange.PODS_GONE, row) for row in rows])

    def replace_pod(self, pod: PodInfo, row: int) -> None:
        """Replace a pod by a newer state of itself with equal requests, ports and terms."""
        pod.share_request_vector(self.pods[row][pod.uid])
        self.pods[row][pod.uid] = pod
        self._replaced.add(row)

    def take_replaced(self) -> set[int]:
        """The rows with pods that were replaced since the last call: the log says nothing of it."""
        if replaced := self._replaced:
            self._replaced = set()
        return replaced

    def resource_column(self, resource: str) -> int:
        """The column of ``resource``; NOT_OFFERED, in which nodes have nothing, if none has it."""
        column = self.resources.find(resource)
        return NOT_OFFERED if column == ABSENT else column

    def free(self, row: int, columns: Sequence[int]) -> list[int]:
        """What is allocatable and not requested; negative where pods ask for more than there is."""
        requested = self._excess.exact(self.requested, row, columns)
        offered: list[int] = self.allocatable[columns, row].tolist()
        return [total - used for total, used in zip(offered, requested, strict=True)]

    def replica_capacity(self, *pods: PodInfo, empty: bool = False) -> IntArray:
        """Row → how many pods like this one fit into its free resources.

        Of several pods the least of every resource counts: of whatever kinds, more do not fit.
        ``empty`` counts all that the nodes have, as if nothing ran there.
        """
        columns, amounts = least_of(pod.request_vector(self.resource_column) for pod in pods)
        free = self.allocatable[:, : self.size]
        if not empty:
            free = free - self.requested[:, : self.size]
        fitting: IntArray = free[PODS]
        for column, amount in zip(columns, amounts, strict=True):
            if amount > 0:
                fitting = np.minimum(fitting, free[column] // amount)
        capacity: IntArray = np.maximum(fitting, 0)
        return capacity

    def label_column(self, key: str) -> IdArray:
        """Row → id of the value of label ``key`` (:data:`~arranger.cluster.columns.ABSENT`)."""
        return self._labels.get(key)[0]

    def label_values(self, key: str) -> Interner[str]:
        """The numbering of the values of label ``key`` that :meth:`label_column` uses."""
        return self._labels.get(key)[1]

    def label_numbers(self, key: str) -> tuple[IntArray, BoolArray]:
        """Id in :meth:`label_values` → the integer that the value spells, and whether it does."""
        return self._labels.numbers(key)

    def taints_of(self, number: int) -> list[Taint]:
        """The taint list of that number in ``taint_lists``."""
        return [Taint(*taint) for taint in self.taint_lists.values[number]]

    def rows(self, names: Iterable[str]) -> list[int]:
        """The rows of those of ``names`` that are nodes."""
        return [self.index[name] for name in names if name in self.index]

    @property
    def version(self) -> int:
        """Number of changes so far."""
        return self._log.version

    def changed_since(self, version: int) -> list[tuple[RowChange, int]] | None:
        """The changes after ``version`` in order, or ``None`` when that is too long ago."""
        return self._log.since(version)

    def forget_changes_since(self, version: int) -> None:
        """All changes after ``version`` have been undone: nobody need hear of them."""
        self._log.forget_since(version)

    def check_consistent(self) -> None:
        """Recount every row from its pods.

        Raises:
            AssertionError: a column disagrees with the pods and nodes it sums up.
        """
        assert self.count == len(self.index) == int(self.alive.sum()), "node count"
        affinity, ports, disks = AffinityIndex(), HostPorts(), DiskUses()
        claims: Counter[PvcKey] = Counter()
        for row in range(self.size):
            requested, nonzero = [0] * len(self.requested), [0, 0]
            for pod in self.pods[row].values():
                columns, wanted = pod.request_vector(self.resource_column)
                for column, amount in zip(columns, wanted, strict=True):
                    requested[column] += amount
                nonzero[0] += pod.nonzero_requests[0]
                nonzero[1] += pod.nonzero_requests[1]
                affinity.add(pod.affinity_terms, row, 1)
                ports.add(pod.ports, row, 1)
                disks.add(pod.volumes, row, 1)
                claims.update(pod.pvc_keys)
            where = f"row {row} ({self.nodes[row] and self.name(row)})"
            counted = self._excess.exact(self.requested, row, range(len(requested)))
            assert counted == requested, f"{where}: requested"
            counted = self._nonzero_excess.exact(self.nonzero_requested, row, (CPU, MEMORY))
            assert counted == nonzero, f"{where}: non-zero requested"
            assert bool(self.alive[row]) == (self.nodes[row] is not None), f"{where}: alive"
            assert self.alive[row] or not self.pods[row], f"{where}: pods on a dead row"
        assert self.affinity == affinity, "affinity terms"
        assert (self.ports, self.disks) == (ports, disks), "host ports and disks"
        assert self.pvc_use_counts == claims, "claims in use"
        self.shares.check_consistent()
        self.placed.check_consistent(
            (p.pod, r) for r, on in enumerate(self.pods) for p in on.values()
        )
        for name, row in self.index.items():
            assert self.name(row) == name, f"index of {name}"

    def _index_pod(self, pod: PodInfo, row: int, sign: int) -> None:
        if sign > 0:
            self.placed.add(pod.pod, row)
        else:
            self.placed.remove(pod.pod)
        if pod.is_indexed:
            self.index_uses(pod, row, sign)

    def index_uses(self, pod: PodInfo, row: int, sign: int) -> None:
        """Count a pod's terms, ports, disks and claims on its row (1), or no more (-1)."""
        if pod.affinity_terms is not NO_TERMS:
            self.affinity.add(pod.affinity_terms, row, sign)
        if pod.ports:
            self.ports.add(pod.ports, row, sign)
        if pod.volumes:
            self.disks.add(pod.volumes, row, sign)
        for claim in pod.pvc_keys:
            self.pvc_use_counts[claim] += sign
            if not self.pvc_use_counts[claim]:
                del self.pvc_use_counts[claim]

    def _count_requests(self, pod: PodInfo, row: int, sign: int) -> None:
        columns, wanted = pod.request_vector(self.resource_column)
        requested = self.requested
        for column, amount in zip(columns, wanted, strict=True):
            requested[column, row] += sign * amount
            if amount >= LARGE:
                self._excess.settle(requested, column, row)
            if column == NOT_OFFERED:
                self._rows_of_unmet[pod.uid] = row
                if sign < 0:
                    del self._rows_of_unmet[pod.uid]

    def _account(self, pod: PodInfo, row: int, sign: int) -> None:
        # Counted first, given back last: where this raises, a node never seems to have more left.
        for count in (self._count_requests, self._index_pod)[::sign]:
            count(pod, row, sign)
        for column, amount in zip((CPU, MEMORY), pod.nonzero_requests, strict=True):
            self.nonzero_requested[column, row] += sign * amount
            if amount >= LARGE:
                self._nonzero_excess.settle(self.nonzero_requested, column, row)
        self._log_change(RowChange.USAGE if sign > 0 else RowChange.PODS_GONE, row)

    def _set_allocatable(self, row: int, offered: Amounts) -> None:
        self.allocatable[:, row] = 0
        for name, amount in offered.items():
            if self.resources.find(name) == ABSENT:
                self._add_column(name)
            column = self.resources.id(name)
            most = {PODS: MAX_PODS, NOT_OFFERED: 0}.get(column, MAX_AMOUNT - 1)
            self.allocatable[column, row] = max(0, min(amount, most))

    def _add_column(self, resource: str) -> None:
        """A node is the first to offer a resource, which pods may have requested already."""
        unmet = ((self.pods[row][uid], row) for uid, row in self._rows_of_unmet.items())
        asking = [(pod, row) for pod, row in unmet if resource in pod.requests]
        for pod, row in asking:
            self._count_requests(pod, row, -1)
        self.resources.id(resource)
        fresh = np.zeros((1, self.allocatable.shape[1]), dtype=np.int64)
        matrices = self.allocatable, self.requested
        self.allocatable, self.requested = (np.concatenate([each, fresh]) for each in matrices)
        for pod, row in asking:
            self._count_requests(pod, row, 1)
            self._log_change(RowChange.USAGE, row)

    def _allocate_row(self) -> int:
        if self._free_rows:
            return self._free_rows.pop()
        row = self.size
        self.size += 1
        if self.size > len(self.alive):
            self._grow(2 * len(self.alive))
        self.nodes.append(None)
        self.pods.append({})
        self._labels.add_row()
        return row

    def _grow(self, capacity: int) -> None:
        self.alive = resized(self.alive, capacity, False)
        self.unschedulable = resized(self.unschedulable, capacity, False)
        self.taints = resized(self.taints, capacity, 0)
        self.allocatable = resized(self.allocatable, capacity, 0)
        self.requested = resized(self.requested, capacity, 0)
        self.nonzero_requested = resized(self.nonzero_requested, capacity, 0)
        self._labels.grow(capacity)

    def _log_change(self, change: RowChange, row: int) -> None:
        self.nodes_version += change is RowChange.NODE
        self.minor_version += change in MINOR_CHANGES
        self._log.append((change, row))
