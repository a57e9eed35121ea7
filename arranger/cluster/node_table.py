"""All nodes as NumPy columns.

One row a node. Plugins read columns, so that judging 5,000 nodes costs a handful of array
operations. A removed node leaves a dead row that the next new node takes over. Every change of a
row is written to a log, from which cached evaluations learn which rows to judge again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import numpy as np

from arranger.api.resource_requests import Amounts, amounts
from arranger.api.types.core import Node, Taint
from arranger.cluster.affinity_terms import NO_TERMS, AffinityIndex
from arranger.cluster.columns import (
    ABSENT,
    BASIC_RESOURCES,
    CPU,
    MEMORY,
    PODS,
    BoolArray,
    IdArray,
    IntArray,
    Interner,
    LabelColumns,
    grown,
)
from arranger.cluster.pod_info import Claim, HostPort, PodInfo

_FIRST_CAPACITY: Final = 64
#: The log is cut to its younger half at this length; slower readers start over.
_LOG_LIMIT: Final = 65536


class Change(IntEnum):
    """What happened to a row."""

    USAGE = 0  # pods came or went
    NODE = 1  # the node object changed, appeared or vanished


class NodeTable:
    """The nodes and what runs on them.

    Attributes:
        size: rows in use, dead ones included; columns are longer.
        alive: row → whether a node is there.
        allocatable, requested: ``[resource column, row]``, cpu in millicores, the rest in units.
        non_zero: ``[0 cpu | 1 memory, row]`` requested, as the scoring plugins count it.
        unschedulable: row → ``spec.unschedulable``.
        taints: row → id in ``taint_lists``.
        pods: row → uid → pod; empty for dead rows.
        by_namespace: namespace → uid → row, of all pods in the table.
        affinity: which rows hold pods with which (anti-)affinity terms.
        claims: how many pods in the table name a claim.
        ports: row → host ports in use.
        nodes_version: rises with every change of a node, and not when pods come and go.
    """

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self.index: dict[str, int] = {}
        self.nodes: list[Node | None] = []
        self.pods: list[dict[str, PodInfo]] = []
        self.ports: list[dict[HostPort, int]] = []
        self.resources: Interner[str] = Interner()
        for name in BASIC_RESOURCES:
            self.resources.id(name)
        self.taint_lists: Interner[tuple[tuple[str, str, str], ...]] = Interner()
        self.taint_lists.id(())
        self.images: dict[str, dict[int, int]] = {}
        self.port_rows: dict[int, int] = {}
        self.by_namespace: dict[str, dict[str, int]] = {}
        self.affinity = AffinityIndex()
        self.claims: Counter[Claim] = Counter()
        self.alive: BoolArray = np.zeros(_FIRST_CAPACITY, dtype=np.bool_)
        self.unschedulable: BoolArray = np.zeros(_FIRST_CAPACITY, dtype=np.bool_)
        self.taints: IdArray = np.zeros(_FIRST_CAPACITY, dtype=np.int32)
        shape = (len(BASIC_RESOURCES), _FIRST_CAPACITY)
        self.allocatable: IntArray = np.zeros(shape, dtype=np.int64)
        self.requested: IntArray = np.zeros(shape, dtype=np.int64)
        self.non_zero: IntArray = np.zeros((2, _FIRST_CAPACITY), dtype=np.int64)
        self._labels = LabelColumns()
        self._label_dicts: list[dict[str, str]] = []
        self._free: list[int] = []
        self._log: list[tuple[Change, int]] = []
        self._log_start = 0
        self.nodes_version = 0

    # --- nodes -----------------------------------------------------------------------------

    def set_node(self, node: Node) -> int:
        """Add a node or bring its row up to date; returns the row.

        Raises:
            QuantityError: an allocatable amount is not a quantity; the table is unchanged.
        """
        offered = amounts(node.status.allocatable)
        row = self.index.get(node.metadata.name)
        if row is None:
            row = self._take_row()
            self.index[node.metadata.name] = row
            self.alive[row] = True
            self.count += 1
        else:
            self._forget_images(row)
        self.nodes[row] = node
        self._label_dicts[row] = node.metadata.labels
        self._labels.set_row(row, node.metadata.labels)
        self._offer(row, offered)
        self.unschedulable[row] = node.spec.unschedulable
        self.taints[row] = self.taint_lists.id(_taint_key(node.spec.taints))
        for image in node.status.images:
            for name in image.names:
                self.images.setdefault(name, {})[row] = image.size_bytes
        self._note(Change.NODE, row)
        return row

    def remove_node(self, name: str) -> dict[str, PodInfo]:
        """Drop a node; returns the pods that were on it.

        Raises:
            KeyError: there is no such node.
        """
        row = self.index.pop(name)
        stranded = self.pods[row]
        self._forget_images(row)
        for pod in stranded.values():
            self._index(pod, row, -1)
        self.alive[row] = False
        self.count -= 1
        self.nodes[row] = None
        self.pods[row] = {}
        self.ports[row] = {}
        self.port_rows.pop(row, None)
        self._label_dicts[row] = {}
        self._labels.set_row(row, {})
        self.unschedulable[row] = False
        self.taints[row] = 0
        self.allocatable[:, row] = 0
        self.requested[:, row] = 0
        self.non_zero[:, row] = 0
        self._free.append(row)
        self._note(Change.NODE, row)
        return stranded

    def node(self, row: int) -> Node:
        """The node of a living row."""
        node = self.nodes[row]
        assert node is not None, f"row {row} is dead"
        return node

    def name(self, row: int) -> str:
        """The node name of a living row."""
        return self.node(row).metadata.name

    # --- pods ------------------------------------------------------------------------------

    def place(self, pod: PodInfo, row: int) -> None:
        """Count ``pod`` as running on ``row``.

        Raises:
            ValueError: it is already there.
        """
        if pod.uid in self.pods[row]:
            raise ValueError(f"{pod.key} is already on {self.name(row)}")
        self.pods[row][pod.uid] = pod
        self._charge(pod, row, 1)

    def unplace(self, pod: PodInfo, row: int) -> None:
        """Take ``pod`` off ``row``; the exact inverse of :meth:`place`.

        Raises:
            KeyError: it is not there.
        """
        del self.pods[row][pod.uid]
        self._charge(pod, row, -1)

    def reorder(self, row: int, uids: Iterable[str]) -> None:
        """Put those pods of a row that ``uids`` names into this order, before the others."""
        pods = self.pods[row]
        self.pods[row] = {uid: pods[uid] for uid in uids if uid in pods} | pods

    def swap(self, pod: PodInfo, row: int) -> None:
        """Replace a pod by a newer state of itself that takes up exactly the same."""
        pod.vector = self.pods[row][pod.uid].vector
        self.pods[row][pod.uid] = pod

    def column_of(self, resource: str) -> int:
        """The column of ``resource``, made now if no node or pod has mentioned it before."""
        column = self.resources.id(resource)
        if column >= len(self.allocatable):
            fresh = np.zeros((1, self.allocatable.shape[1]), dtype=np.int64)
            self.allocatable = np.concatenate([self.allocatable, fresh])
            self.requested = np.concatenate([self.requested, fresh])
        return column

    def vector(self, pod: PodInfo) -> tuple[list[int], list[int]]:
        """(columns, amounts) of what ``pod`` takes from a node's row, its one pod slot included."""
        if pod.vector is None:
            asked = {self.column_of(name): n for name, n in pod.requests.items() if n}
            asked[PODS] = 1
            pod.vector = (list(asked), list(asked.values()))
        return pod.vector

    # --- columns ---------------------------------------------------------------------------

    def slots(self, pod: PodInfo, *, empty: bool = False) -> IntArray:
        """Row → how many pods like this one its free resources would hold, or all it has."""
        columns, amounts = self.vector(pod)
        free = self.allocatable[:, : self.size]
        if not empty:
            free = free - self.requested[:, : self.size]
        room: IntArray = free[PODS]
        for column, amount in zip(columns, amounts, strict=True):
            if amount > 0:
                room = np.minimum(room, free[column] // amount)
        slots: IntArray = np.maximum(room, 0)
        return slots

    def label_column(self, key: str) -> IdArray:
        """Row → id of the value of label ``key`` (:data:`~arranger.cluster.columns.ABSENT`)."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels.build(key, self._label_dicts, len(self.alive))
        return column

    @property
    def label_values(self) -> Interner[str]:
        """The numbering of label values that :meth:`label_column` uses."""
        return self._labels.values

    def taints_of(self, number: int) -> list[Taint]:
        """The taint list of that number in ``taint_lists``."""
        return [Taint(*taint) for taint in self.taint_lists.values[number]]

    def rows(self, names: Iterable[str]) -> list[int]:
        """The rows of those of ``names`` that are nodes."""
        return [self.index[name] for name in names if name in self.index]

    # --- change log ------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Number of changes so far."""
        return self._log_start + len(self._log)

    def changed_since(self, version: int) -> list[tuple[Change, int]] | None:
        """The changes after ``version`` in order, or ``None`` when that is too long ago."""
        if version < self._log_start:
            return None
        return self._log[version - self._log_start :]

    def check_consistent(self) -> None:
        """Recount every row from its pods.

        Raises:
            AssertionError: a column disagrees with the pods and nodes it sums up.
        """
        assert self.count == len(self.index) == int(self.alive.sum()), "node count"
        affinity = AffinityIndex()
        claims: Counter[Claim] = Counter()
        for row in range(self.size):
            requested = np.zeros(len(self.requested), dtype=np.int64)
            non_zero = [0, 0]
            ports: dict[HostPort, int] = {}
            for pod in self.pods[row].values():
                columns, wanted = self.vector(pod)
                requested[columns] += wanted
                non_zero[0] += pod.non_zero[0]
                non_zero[1] += pod.non_zero[1]
                for port in pod.ports:
                    ports[port] = ports.get(port, 0) + 1
            where = f"row {row} ({self.nodes[row] and self.name(row)})"
            assert (self.requested[:, row] == requested).all(), f"{where}: requested"
            assert list(self.non_zero[:, row]) == non_zero, f"{where}: non-zero requested"
            assert self.ports[row] == ports, f"{where}: ports"
            assert bool(self.alive[row]) == (self.nodes[row] is not None), f"{where}: alive"
            assert self.alive[row] or not self.pods[row], f"{where}: pods on a dead row"
            for pod in self.pods[row].values():
                affinity.charge(pod.terms, row, 1)
                claims.update(pod.claims)
                here = self.by_namespace[pod.pod.metadata.namespace][pod.uid]
                assert here == row, f"{where}: pods by namespace"
        assert self.affinity == affinity, "affinity terms"
        assert self.claims == claims, "claims in use"
        indexed = sum(map(len, self.by_namespace.values()))
        assert indexed == sum(map(len, self.pods)), "pods by namespace"
        for name, row in self.index.items():
            assert self.name(row) == name, f"index of {name}"

    # --- inside ----------------------------------------------------------------------------

    def _index(self, pod: PodInfo, row: int, sign: int) -> None:
        namespace = pod.pod.metadata.namespace
        members = self.by_namespace.setdefault(namespace, {})
        if sign > 0:
            members[pod.uid] = row
        else:
            del members[pod.uid]
            if not members:
                del self.by_namespace[namespace]
        if pod.terms is not NO_TERMS:
            self.affinity.charge(pod.terms, row, sign)
        for claim in pod.claims:
            self.claims[claim] += sign
            if not self.claims[claim]:
                del self.claims[claim]

    def _charge(self, pod: PodInfo, row: int, sign: int) -> None:
        self._index(pod, row, sign)
        columns, wanted = self.vector(pod)
        requested = self.requested
        for column, amount in zip(columns, wanted, strict=True):
            requested[column, row] += sign * amount
        self.non_zero[CPU, row] += sign * pod.non_zero[CPU]
        self.non_zero[MEMORY, row] += sign * pod.non_zero[MEMORY]
        if pod.ports:
            in_use = self.ports[row]
            for port in pod.ports:
                left = in_use.get(port, 0) + sign
                if left:
                    in_use[port] = left
                else:
                    del in_use[port]
            if in_use:
                self.port_rows[row] = len(in_use)
            else:
                self.port_rows.pop(row, None)
        self._note(Change.USAGE, row)

    def _offer(self, row: int, offered: Mapping[str, int] | Amounts) -> None:
        columns = {self.column_of(name): amount for name, amount in offered.items()}
        self.allocatable[:, row] = 0
        for column, amount in columns.items():
            self.allocatable[column, row] = amount

    def _forget_images(self, row: int) -> None:
        old = self.nodes[row]
        if old is None:
            return
        for image in old.status.images:
            for name in image.names:
                holders = self.images.get(name)
                if holders is not None:
                    holders.pop(row, None)
                    if not holders:
                        del self.images[name]

    def _take_row(self) -> int:
        if self._free:
            return self._free.pop()
        row = self.size
        self.size += 1
        if self.size > len(self.alive):
            self._grow(2 * len(self.alive))
        self.nodes.append(None)
        self.pods.append({})
        self.ports.append({})
        self._label_dicts.append({})
        return row

    def _grow(self, capacity: int) -> None:
        self.alive = grown(self.alive, capacity, False)
        self.unschedulable = grown(self.unschedulable, capacity, False)
        self.taints = grown(self.taints, capacity, 0)
        self.allocatable = grown(self.allocatable, capacity, 0)
        self.requested = grown(self.requested, capacity, 0)
        self.non_zero = grown(self.non_zero, capacity, 0)
        self._labels.grow(capacity)

    def _note(self, change: Change, row: int) -> None:
        self.nodes_version += change is Change.NODE
        if len(self._log) >= _LOG_LIMIT:
            del self._log[: _LOG_LIMIT // 2]
            self._log_start += _LOG_LIMIT // 2
        self._log.append((change, row))


def _taint_key(taints: list[Taint]) -> tuple[tuple[str, str, str], ...]:
    return tuple((t.key, t.value, t.effect) for t in taints)


__all__ = ["ABSENT", "Change", "NodeTable"]
