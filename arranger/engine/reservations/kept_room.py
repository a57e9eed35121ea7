"""Room that Reservations keep on nodes of which they have only a part.

What its users take of a resource there counts as the reserved part first: so much as they have not
taken of it is kept free for them, and the rest of the node is for all. Whatever runs there counts
as if it stayed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

import numpy as np

from arranger.api.settings.reservation_windows import Window
from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.pod_info import PodInfo
from arranger.engine.reservations.entry import Entry

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class KeptRoom:
    """How much of each node is kept for the users of Reservations."""

    _cluster: Cluster
    #: Whether a pod on a node may use a Reservation.
    _is_user: Callable[[Entry, PodInfo], bool]
    #: Another value whenever others may be users, though no pod was edited.
    _users_version: Callable[[], Hashable]
    #: Those that have parts of nodes, by name.
    _entries: Mapping[str, Entry] = field(default_factory=dict, init=False)
    #: Name → ``[number of the column, row]``: what its users have not taken of the part.
    _kept: dict[str, IntArray] = field(default_factory=dict, init=False)
    #: Rows that any of them has.
    _rows: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_), init=False)
    #: Rows whose pods have been edited, which no log tells of.
    _edited: set[int] = field(default_factory=set, init=False)
    #: Up to which changes of nodes, and of users, it is known who is where.
    _seen: tuple[int, Hashable] = field(default=(-1, None), init=False)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def use(self, entries: Iterable[Entry]) -> None:
        """These are the Reservations from now on."""
        self._entries = {entry.name: entry for entry in entries if entry.part}
        self._rows = np.zeros(self._cluster.table.size, dtype=np.bool_)
        for entry in self._entries.values():
            self._rows |= entry.rows
        self._seen = (-1, None)

    def observe(self, pod: PodInfo) -> None:
        """A pod was edited on its node: it may be a user of others now."""
        if self._entries:
            row = self._cluster.table.index.get(self._cluster.node_of(pod.uid) or "")
            self._edited.update(() if row is None else (row,))

    def of(self, entry: Entry) -> Mapping[int, IntArray]:
        """Column → row → how much is kept there for users of a Reservation."""
        self._follow()
        return dict(zip(entry.part, self._kept[entry.name], strict=True))

    def kept_with(self, entry: Entry, row: int, at: float) -> list[Entry]:
        """A Reservation, and the others that have a part of a node at a time (since 1970), too."""
        windows = self._windows_beside(entry, row, at)
        return [entry, *(each for each, window in windows if window.start <= at)]

    def next_edge_beside(self, entry: Entry, row: int, now: float) -> float:
        """When another that has a part of a node opens or ends next; infinity if none does."""
        windows = (window for _, window in self._windows_beside(entry, row, now))
        return min((each.start if now < each.start else each.end for each in windows), default=inf)

    def beside(self, entries: Collection[Entry]) -> list[Entry]:
        """Those that have parts of nodes of which some Reservations have parts, too."""
        rows = [each.rows for each in entries if each.part]
        names = {each.name for each in entries}
        others = [each for name, each in self._entries.items() if name not in names]
        return [each for each in others if any((each.rows & some).any() for some in rows)]

    def closed_to(
        self,
        requests: Mapping[int, int],
        kept_by: Iterable[tuple[T, Entry]],
        claims: Iterable[Mapping[int, IntArray]] = (),
    ) -> Iterator[tuple[T, BoolArray]]:
        """Who keeps room from a pod, with the rows on which what is left is too little for it.

        Args:
            requests: what it asks for, by column; 0 for what it has already.
            kept_by: the Reservations that it is no user of, each with what is returned of it.
            claims: column → row → what else is to be left free.
        """
        table, taken = self._cluster.table, dict[int, IntArray]()
        for claim in claims:
            for column, amounts in claim.items():
                taken[column] = taken.get(column, 0) + amounts
        for told, entry in kept_by:
            closed = np.zeros(table.size, dtype=np.bool_)
            for column, kept in self.of(entry).items():
                if column not in requests:
                    continue
                taken[column] = taken.get(column, 0) + kept
                free = (
                    table.allocatable[column, : table.size] - table.requested[column][: table.size]
                )
                closed |= entry.rows & (free - taken[column] < requests[column])
            if closed.any():
                yield told, closed

    def in_all(self, entries: Sequence[Entry]) -> IntArray | None:
        """``[column, row]``: what is kept by some Reservations together; None for nothing."""
        table = self._cluster.table
        if not entries:
            return None
        total: IntArray = np.zeros((len(table.requested), table.size), dtype=np.int64)
        for entry in entries:
            for column, kept in self.of(entry).items():
                total[column] += kept
        return total

    def check_consistent(self) -> None:
        """Compare with the same counted anew.

        Raises:
            AssertionError: they differ.
        """
        if self._rows.size != self._cluster.table.size:
            return  # Reservations are read anew before the next question
        self._follow()
        anew = KeptRoom(self._cluster, self._is_user, self._users_version)
        anew.use(self._entries.values())
        anew._follow()
        for name, kept in self._kept.items():
            assert np.array_equal(kept, anew._kept[name]), f"room of Reservation {name}"

    # --- inside ----------------------------------------------------------------------------

    def _windows_beside(self, entry: Entry, row: int, at: float) -> Iterator[tuple[Entry, Window]]:
        """The others that have a part of a node, with the window that holds or comes next."""
        for each in self._entries.values():
            if each.rows[row] and each is not entry and (window := each.windows.at(at)) is not None:
                yield each, window

    def _follow(self) -> None:
        cluster = self._cluster
        table, now = cluster.table, (cluster.table.version, self._users_version())
        if now == self._seen and not self._edited:
            return
        changed = None
        if now[1] == self._seen[1]:
            changed = table.changed_since(self._seen[0])
        if changed is None:
            self._kept = {
                name: np.zeros((len(entry.part), table.size), dtype=np.int64)
                for name, entry in self._entries.items()
            }
            rows = np.flatnonzero(self._rows).tolist()
        else:
            some = {row for _, row in changed} | self._edited
            rows = [row for row in some if row < self._rows.size and self._rows[row]]
        self._seen, self._edited = now, set()
        for row in rows:
            for name, entry in self._entries.items():
                if entry.rows[row]:
                    self._kept[name][:, row] = self._left(entry, row)

    def _left(self, entry: Entry, row: int) -> list[int]:
        """What the users of a Reservation have not taken on a row, of each column of its part."""
        left = dict(entry.part)
        for pod in self._cluster.table.pods[row].values():
            requests = requests_of(pod, self._cluster)
            wanted = requests.keys() & left.keys()
            if wanted and self._is_user(entry, pod):
                for column in wanted:
                    left[column] -= requests[column]
        return [max(n, 0) for n in left.values()]


def requests_of(pod: PodInfo, cluster: Cluster) -> dict[int, int]:
    """What a pod asks for, by column of the node table: nothing that it does not need."""
    columns, amounts = pod.request_vector(cluster.table.resource_column)
    return {column: n for column, n in zip(columns, amounts, strict=True) if n > 0}
