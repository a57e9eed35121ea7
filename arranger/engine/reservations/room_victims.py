"""Who has to leave a node of which a Reservation has only a part: as few as take what is reserved.

The most important are let stay first, as with the victims of preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.reservations.entry import Entry
from arranger.engine.reservations.kept_room import requests_of
from arranger.preemption.importance import by_importance


@dataclass(frozen=True, slots=True)
class RoomVictims:
    """Chooses them.

    Args:
        is_user: whether a pod may use a Reservation.
        may_leave: whether we may ask a pod to leave.
        end_of: when a pod will have ended, in seconds since 1970; None if nothing tells of it.
    """

    _cluster: Cluster
    _is_user: Callable[[Entry, PodInfo], bool]
    _may_leave: Callable[[PodInfo], bool]
    _end_of: Callable[[PodInfo], float | None]

    def on_row(
        self, entry: Entry, row: int, until: float, leaving: Callable[[PodInfo], bool]
    ) -> frozenset[str]:
        """Uids of those on a row that must leave it so that the part is free.

        Args:
            until: who ends by then leaves by itself.
            leaving: whether a pod leaves already.
        """
        table, left = self._cluster.table, dict[int, int]()
        for column, part in entry.part.items():
            left[column] = table.allocatable[column, row].item() - part
        own, others = dict.fromkeys(left, 0), list[PodInfo]()
        for pod in table.pods[row].values():
            ends = self._end_of(pod)
            requests = _within(requests_of(pod, self._cluster), left)
            if not requests or leaving(pod) or (ends is not None and ends <= until):
                continue
            if self._is_user(entry, pod):
                own = {column: n + requests.get(column, 0) for column, n in own.items()}
            elif self._may_leave(pod):
                others.append(pod)
            else:
                left = {column: n - requests.get(column, 0) for column, n in left.items()}
        for column, part in entry.part.items():
            left[column] -= max(own[column] - part, 0)
        victims = set[str]()
        for pod in by_importance(others):
            requests = _within(requests_of(pod, self._cluster), left)
            if any(n > left[column] for column, n in requests.items()):
                victims.add(pod.uid)
            else:
                left = {column: n - requests.get(column, 0) for column, n in left.items()}
        return frozenset(victims)


def _within(requests: Mapping[int, int], columns: Mapping[int, object]) -> dict[int, int]:
    return {column: n for column, n in requests.items() if column in columns}
