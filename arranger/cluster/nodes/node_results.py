"""What has been worked out from the objects of the nodes alone, until one of them changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.nodes.node_table import NodeTable

#: Results kept, those used last; each takes up to eight bytes a node.
_MAX_KEPT: Final = 64


class NodeResults:
    """Row → what a plugin says of the node, by plugin and by what of a pod it depends on."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._versions = -1, -1
        self._masks: OrderedDict[Hashable, BoolArray] = OrderedDict()
        self._scores: OrderedDict[Hashable, IntArray] = OrderedDict()
        #: Keys of the scores that are all 0.
        self._zero: set[Hashable] = set()

    def mask(self, key: Hashable, work_out: Callable[[], BoolArray]) -> BoolArray:
        """Which nodes pass; read only. ``work_out`` is asked if it is not known."""
        self._forget_outdated()
        found = self._masks.get(key)
        if found is None:
            found = self._masks[key] = work_out()
            if len(self._masks) > _MAX_KEPT:
                self._masks.popitem(last=False)
        else:
            self._masks.move_to_end(key)
        return found

    def scores(self, key: Hashable, work_out: Callable[[], IntArray]) -> IntArray:
        """How good the nodes are; read only. ``work_out`` is asked if it is not known."""
        self._forget_outdated()
        found = self._scores.get(key)
        if found is None:
            found = self._scores[key] = work_out()
            if not found.any():
                self._zero.add(key)
            if len(self._scores) > _MAX_KEPT:
                self._zero.discard(self._scores.popitem(last=False)[0])
        else:
            self._scores.move_to_end(key)
        return found

    def are_zero(self, key: Hashable) -> bool:
        """Whether the scores of a key, which have just been asked for, are all 0."""
        return key in self._zero

    def _forget_outdated(self) -> None:
        versions = self._table.nodes_version, self._table.minor_version
        if self._versions != versions:
            self._versions = versions
            self._masks.clear()
            self._scores.clear()
            self._zero.clear()
