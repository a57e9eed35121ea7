"""What would be free if some pods had left, by their requests alone."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import IntArray
from arranger.cluster.excess_amounts import LARGE
from arranger.cluster.pod_info import PodInfo
from arranger.engine.queue.nominator import Nominator

#: Pods that are looked at before it is asked whether to go on in another step.
_SLICE: Final = 1000
#: Units of :mod:`~arranger.cluster.attempt_work` for a pod that was not asked about before, and how
#: many pods that were are one unit.
_LOOKING: Final = 4
_KNOWN_PER_UNIT: Final = 4
#: Bits of a row in a number that tells both a row and what is requested there.
_ROW_BITS: Final = 32
_NOWHERE: Final = -1


@dataclass(slots=True, eq=False)
class LeavingRequests:
    """Adds up what pods request on their nodes, many times for many of the same pods.

    Those that are nominated count as gone, too, and those that are being evicted.

    Where a pod was is remembered from the first question on. One that has left since is counted as
    if it were still there, so that there may be less free than told, and never more.
    """

    _cluster: Cluster
    _nominator: Nominator
    #: Pod → its row and the number of what it requests.
    _places: dict[PodInfo, int] = field(default_factory=dict)
    #: (columns, amounts) → its number, in the order of the numbers.
    _vectors: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = field(default_factory=dict)
    #: Whether some pod requests more than sums can tell.
    _too_large: bool = False

    def free_without(self, pods: Sequence[PodInfo]) -> Generator[None, None, IntArray | None]:
        """(resource × row) what is free and what these pods request; None if that is too much.

        Yields wherever it may be left.
        """
        work, places = self._cluster.work, self._places
        for start in range(0, len(pods), _SLICE):
            if work.is_spent:
                yield
            some = [pod for pod in pods[start : start + _SLICE] if pod not in places]
            places.update((pod, self._place_of(pod)) for pod in some)
            work.count(_LOOKING * len(some) + _SLICE // _KNOWN_PER_UNIT)
        if work.is_spent:
            yield
        table, size = self._cluster.table, self._cluster.table.size
        free: IntArray = table.allocatable[:, :size] - table.requested[:, :size]
        if self._too_large or not self._add_nominated(free):
            return None
        self._add(pods, free)
        return free

    def _add_nominated(self, free: IntArray) -> bool:
        """And who is being evicted; False if one requests more than sums can tell."""
        table, leaving = self._cluster.table, self._nominator.terminating_pods()
        for pod in (*self._nominator.visible_pods(), *leaving):
            row = table.index.get(self._cluster.node_of(pod.uid) or "")
            if row is None:
                continue
            columns, amounts = pod.request_vector(table.resource_column)
            if max(amounts) >= LARGE:
                return False
            for column, amount in zip(columns, amounts, strict=True):
                free[column, row] += amount
        return True

    def _place_of(self, pod: PodInfo) -> int:
        table = self._cluster.table
        row = table.index.get(self._cluster.node_of(pod.uid) or "")
        if row is None:
            return _NOWHERE
        columns, amounts = pod.request_vector(table.resource_column)
        self._too_large |= max(amounts) >= LARGE
        vector = tuple(columns), tuple(amounts)
        return self._vectors.setdefault(vector, len(self._vectors)) << _ROW_BITS | row

    def _add(self, pods: Sequence[PodInfo], free: IntArray) -> None:
        places = np.fromiter(map(self._places.__getitem__, pods), np.int64, len(pods))
        places = places[places != _NOWHERE]
        rows, numbers = places & ((1 << _ROW_BITS) - 1), places >> _ROW_BITS
        requested = np.zeros((len(free), len(self._vectors)), dtype=np.int64)
        for (columns, amounts), number in self._vectors.items():
            requested[columns, number] = amounts
        for column in np.flatnonzero(requested.any(axis=1)).tolist():
            np.add.at(free[column], rows, requested[column, numbers])
