"""A numbered log of changes, of which only the younger part is kept."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from typing import Final, Generic, TypeVar

T = TypeVar("T")

#: Stretches of undone changes that are remembered; who is older than these starts over.
_MAX_STRETCHES: Final = 256


class ChangeLog(Generic[T]):
    """Lets caches catch up: each remembers the version up to which it has followed.

    Args:
        limit: at this length the log is cut to its younger half; slower readers start over.

    Attributes:
        version: number of changes so far.
    """

    __slots__ = ("_befores", "_entries", "_limit", "_oldest", "_undone", "version")

    def __init__(self, limit: int) -> None:
        self.version = 0
        self._limit = limit
        self._entries: list[T] = []
        #: Of each stretch of changes that were undone, the version before it, and (version after
        #: it, how many were undone in all stretches up to this one).
        self._befores: list[int] = []
        self._undone: list[tuple[int, int]] = []
        #: Whoever has seen less starts over.
        self._oldest = 0

    def append(self, change: T) -> None:
        """Note a change."""
        entries = self._entries
        if len(entries) >= self._limit:
            del entries[: self._limit // 2]
        entries.append(change)
        self.version += 1

    def extend(self, changes: Collection[T]) -> None:
        """Note several changes."""
        if len(self._entries) + len(changes) <= self._limit:
            self._entries.extend(changes)
            self.version += len(changes)
            return
        for change in changes:
            self.append(change)

    def forget_since(self, version: int) -> None:
        """All changes after ``version`` have been undone: nobody need hear of them.

        Whoever has seen some of them, and not all, starts over.
        """
        count = self.version - version - self._undone_since(version)
        if not count:
            return
        del self._entries[max(0, len(self._entries) - count) :]
        while self._befores and self._undone[-1][0] > version:
            version = min(version, self._befores.pop())
            self._undone.pop()
        earlier = self._undone[-1][1] if self._undone else 0
        self._befores.append(version)
        self._undone.append((self.version, earlier + self.version - version))
        if len(self._befores) > _MAX_STRETCHES:
            half = _MAX_STRETCHES // 2
            self._oldest, dropped = self._undone[half - 1]
            self._befores = self._befores[half:]
            self._undone = [(after, count - dropped) for after, count in self._undone[half:]]

    def since(self, version: int) -> list[T] | None:
        """The changes after ``version`` in order, or ``None`` when that is too long ago, or in the
        midst of changes that were undone."""
        undone = 0
        if self._befores:
            number = bisect_left(self._befores, version)
            if version < self._oldest or (number and version < self._undone[number - 1][0]):
                return None
            undone = self._undone_since(version)
        first = version - self.version + undone + len(self._entries)
        return None if first < 0 else self._entries[first:]

    def _undone_since(self, version: int) -> int:
        """How many changes after a version, at the edge of a stretch or outside, were undone."""
        number = bisect_left(self._befores, version)
        if number == len(self._befores):
            return 0
        earlier = self._undone[number - 1][1] if number else 0
        return self._undone[-1][1] - earlier
