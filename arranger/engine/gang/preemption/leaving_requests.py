"""What would be free if some pods had left, by their requests alone."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import IntArray
from arranger.cluster.excess_amounts import LARGE
from arranger.cluster.pod_info import PodInfo
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy

#: Pods that are looked at before it is asked whether to go on in another step.
_SLICE: Final = 1000
#: Units of :mod:`~arranger.cluster.attempt_work` for a pod that was not asked about before, and how
#: many pods that were are one unit.
_LOOKING: Final = 4
_KNOWN_PER_UNIT: Final = 4
#: Bits of a row in a number that tells both a row and what is requested there.
_ROW_BITS: Final = 32
_NOWHERE: Final = -1
#: Kinds of members up to which nominated pods are told apart by who of them may evict these.
_MAX_KINDS: Final = 4


@dataclass(slots=True, eq=False)
class LeavingRequests:
    """Adds up what pods request on their nodes, many times for many of the same pods.

    Those count as gone, too, that are being evicted, and nominated pods that step aside for a
    member.

    Where a pod was is remembered from the first question on. One that has left since is counted as
    if it were still there, so that there may be less free than told, and never more.

    Args:
        policy: whose nominated pods step aside for whom.
        members: who is to be placed.
    """

    _cluster: Cluster
    _nominator: Nominator
    _policy: EvictionPolicy
    _members: Sequence[PodInfo]
    #: Class of members that may evict the same → one of it; empty where nobody is told apart.
    _kinds: dict[Hashable, PodInfo] = field(init=False)
    #: Pod → its row and the number of what it requests.
    _places: dict[PodInfo, int] = field(default_factory=dict)
    #: (columns, amounts) → its number, in the order of the numbers.
    _vectors: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = field(default_factory=dict)
    #: Whether some pod requests more than sums can tell.
    _too_large: bool = False
    #: Nominated pods that step aside, and what was so when they were looked for.
    _aside: tuple[Hashable, list[PodInfo]] = (None, [])

    def __post_init__(self) -> None:
        kinds = {self._policy.lasting_preemptor_class(pod): pod for pod in self._members}
        self._kinds = {} if None in kinds or len(kinds) > _MAX_KINDS else kinds

    def free_without(self, pods: Sequence[PodInfo]) -> Generator[None, None, IntArray | None]:
        """(resource × row) what is free and what these pods request; None if that is too much.

        Yields wherever it may be left.
        """
        work = self._cluster.work
        for start in range(0, len(pods), _SLICE):
            if work.is_spent:
                yield
            self._look(pods[start : start + _SLICE])
        if work.is_spent:
            yield
        aside, leaving = self._stepping_aside(), self._nominator.terminating_pods()
        for others in (aside, leaving):
            self._look(others)
        if self._too_large:
            return None
        table, size = self._cluster.table, self._cluster.table.size
        free: IntArray = table.allocatable[:, :size] - table.requested[:, :size]
        self._add([*pods, *aside, *leaving], free)
        return free

    def _look(self, pods: Sequence[PodInfo]) -> None:
        places = self._places
        unknown = [pod for pod in pods if pod not in places]
        places.update((pod, self._place_of(pod)) for pod in unknown)
        self._cluster.work.count(_LOOKING * len(unknown) + len(pods) // _KNOWN_PER_UNIT)

    def _stepping_aside(self) -> Sequence[PodInfo]:
        """The nominated pods that may be hidden from a member; all where that is not known."""
        policy, kinds, nominator = self._policy, self._kinds, self._nominator
        if not all(policy.lasting_preemptor_class(pod) == kind for kind, pod in kinds.items()):
            self._kinds = kinds = {}
        looked_at, found = self._aside
        if looked_at != (now := (nominator.changes, bool(kinds))):
            for pod in found:  # it may be nominated for another node
                self._places.pop(pod, None)
            found, members = nominator.visible_pods(), {pod.uid for pod in self._members}
            if kinds:
                takers = kinds.values()
                found = [
                    pod
                    for pod in found
                    if pod.uid in members or any(policy.can_preempt(each, pod) for each in takers)
                ]
            self._aside = now, found
        return found

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
