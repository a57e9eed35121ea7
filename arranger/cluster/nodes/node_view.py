"""What a plugin sees of the nodes: all rows, or only those to be evaluated again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from arranger.api.types.core import Node
from arranger.cluster.columns import NOT_OFFERED, BoolArray, IdArray, IntArray
from arranger.cluster.exclusive_uses import HostPort
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo


class NodeView:
    """Rows of the node table; every array a plugin gets or gives has one entry per row here.

    Attributes:
        table: the whole table.
        rows: which rows: a slice (no copies) or an array of row numbers.
        length: number of rows.
    """

    __slots__ = ("length", "rows", "table")

    def __init__(self, table: NodeTable, rows: slice | IntArray | None = None) -> None:
        self.table = table
        self.rows: slice | IntArray = slice(0, table.size) if rows is None else rows
        if isinstance(self.rows, slice):
            self.length = self.rows.stop - self.rows.start
        else:
            self.length = len(self.rows)

    @property
    def only_row(self) -> int:
        """The number of the row, where there is one and it is told by a slice; else -1."""
        rows = self.rows
        return rows.start if self.length == 1 and isinstance(rows, slice) else -1

    def row_numbers(self) -> IntArray:
        """The row number of each entry."""
        if isinstance(self.rows, slice):
            return np.arange(self.rows.start, self.rows.stop, dtype=np.int64)
        return self.rows

    @property
    def alive(self) -> BoolArray:
        """Whether a node is there."""
        return self.table.alive[self.rows]

    def allocatable(self, column: int) -> IntArray:
        """What the nodes have of a resource, for pods to request."""
        entries: IntArray = self.table.allocatable[column][self.rows]
        return entries

    def requested(self, column: int) -> IntArray:
        """What the pods on the nodes have requested of a resource."""
        entries: IntArray = self.table.requested[column][self.rows]
        return entries

    @property
    def unschedulable(self) -> BoolArray:
        """Whether the nodes are cordoned."""
        return self.table.unschedulable[self.rows]

    @property
    def taints(self) -> IdArray:
        """Ids of the nodes' taint lists, in ``table.taint_lists``."""
        return self.table.taints[self.rows]

    def label(self, key: str) -> IdArray:
        """Ids of the values of label ``key``, in its ``table.label_values``."""
        return self.table.label_column(key)[self.rows]

    def empty_mask(self) -> BoolArray:
        """A mask with no row set."""
        return np.zeros(self.length, dtype=np.bool_)

    def full_mask(self) -> BoolArray:
        """A mask with all rows set."""
        return np.ones(self.length, dtype=np.bool_)

    def nodes(self) -> Iterator[tuple[int, NodeInfo]]:
        """(index in this view, node) of the nodes there are, for plugins of the per-node form."""
        for place, row in enumerate(self.row_numbers().tolist()):
            if self.table.alive[row]:
                yield place, NodeInfo(self.table, row)


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One node, for plugins that evaluate nodes one at a time."""

    table: NodeTable
    row: int

    @property
    def node(self) -> Node:
        """The node object."""
        return self.table.node(self.row)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.node.metadata.labels

    @property
    def pods(self) -> list[PodInfo]:
        """The pods on the node, those we have just assumed there included."""
        return list(self.table.pods[self.row].values())

    @property
    def ports(self) -> Mapping[HostPort, int]:
        """Host ports in use on the node."""
        return self.table.ports.on_row(self.row)

    def allocatable(self, resource: str) -> int:
        """What the node has for pods: cpu in millicores, the rest in units."""
        return int(self.table.allocatable[self.table.resource_column(resource), self.row])

    def requested(self, resource: str) -> int:
        """What its pods have requested: cpu in millicores, the rest in units."""
        column = self.table.resource_column(resource)
        if column == NOT_OFFERED:
            return sum(pod.requests.get(resource, 0) for pod in self.pods)
        return int(self.table.requested[column, self.row])

    def free(self, resource: str) -> int:
        """What is allocatable and not requested."""
        return self.allocatable(resource) - self.requested(resource)
