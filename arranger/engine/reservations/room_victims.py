"""Who has to leave a node of which a Reservation has only a part: as few as take what is reserved.

The most important are let stay first, as with the victims of preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.reservations.entry import Entry
from arranger.engine.reservations.kept_room import requests_of
from arranger.preemption.importance import by_importance

#: A pod, what it asks for by column, and the numbers of the Reservations that it may use.
_Other = tuple[PodInfo, dict[int, int], list[int]]


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
        self,
        entries: Sequence[Entry],
        row: int,
        until: float,
        leaving: Callable[[PodInfo], bool],
    ) -> frozenset[str]:
        """Uids of those on a row that must leave it so that the parts of Reservations are free.

        Users within the part that is theirs stay, then other users, then the rest; a pod leaves
        only for Reservations that it is no user of, which the caller is to see to.

        Args:
            entries: all that have a part of the node then.
            until: who ends by then leaves by itself.
            leaving: whether a pod leaves already.
        """
        table = self._cluster.table
        columns = {column for entry in entries for column in entry.part}
        room = _Room(
            {column: table.allocatable[column, row].item() for column in columns},
            [dict(each.part) for each in entries],
        )
        others: tuple[list[_Other], list[_Other]] = [], []
        for pod in by_importance(table.pods[row].values()):
            ends = self._end_of(pod)
            requests = _within(requests_of(pod, self._cluster), columns)
            if not requests or leaving(pod) or (ends is not None and ends <= until):
                continue
            uses = [n for n, each in enumerate(entries) if self._is_user(each, pod)]
            within = any(room.is_kept_for(each, requests) for each in uses)
            if within or not self._may_leave(pod):
                room.take(requests, uses)
            else:
                others[not uses].append((pod, requests, uses))
        victims = set[str]()
        for pod, requests, uses in chain(*others):
            if len(uses) == len(entries) or room.has_room_for(requests, uses):
                room.take(requests, uses)
            else:
                victims.add(pod.uid)
        return frozenset(victims)


@dataclass(slots=True)
class _Room:
    """What is left of a node, by column of the node table.

    Attributes:
        free: what nobody takes; less than nothing where more is taken than there is.
        kept: of each Reservation what its users have not taken of its part.
    """

    free: dict[int, int]
    kept: list[dict[int, int]]

    def take(self, requests: Mapping[int, int], uses: Iterable[int]) -> None:
        """A pod stays, which may use these Reservations."""
        for column, n in requests.items():
            self.free[column] -= n
            for each in uses:
                if column in self.kept[each]:
                    self.kept[each][column] = max(0, self.kept[each][column] - n)

    def is_kept_for(self, user_of: int, requests: Mapping[int, int]) -> bool:
        """Whether so much is left of the part of a Reservation."""
        return all(n <= self.kept[user_of].get(column, 0) for column, n in requests.items())

    def has_room_for(self, requests: Mapping[int, int], uses: Collection[int]) -> bool:
        """Whether a pod takes nothing of what is kept for others, once it has what is its own."""
        return all(n <= self.free[c] - self._kept_from(c, n, uses) for c, n in requests.items())

    def _kept_from(self, column: int, n: int, uses: Collection[int]) -> int:
        kept = (each.get(column, 0) for each in self.kept)
        return sum(max(0, k - n) if i in uses else k for i, k in enumerate(kept))


def _within(requests: Mapping[int, int], columns: Collection[int]) -> dict[int, int]:
    return {column: n for column, n in requests.items() if column in columns}
