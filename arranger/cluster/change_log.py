"""A numbered log of changes, of which only the younger part is kept."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class ChangeLog(Generic[T]):
    """Lets caches catch up: each remembers the version up to which it has followed.

    Args:
        limit: at this length the log is cut to its younger half; slower readers start over.

    Attributes:
        version: number of changes so far.
    """

    __slots__ = ("_entries", "_limit", "version")

    def __init__(self, limit: int) -> None:
        self.version = 0
        self._limit = limit
        self._entries: list[T] = []

    def append(self, change: T) -> None:
        """Note a change."""
        entries = self._entries
        if len(entries) >= self._limit:
            del entries[: self._limit // 2]
        entries.append(change)
        self.version += 1

    def extend(self, changes: list[T]) -> None:
        """Note several changes."""
        for change in changes:
            self.append(change)

    def since(self, version: int) -> list[T] | None:
        """The changes after ``version`` in order, or ``None`` when that is too long ago."""
        first = version - self.version + len(self._entries)
        return None if first < 0 else self._entries[first:]
