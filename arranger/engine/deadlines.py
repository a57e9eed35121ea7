"""When whom is to be told something, each at most once at a time."""

from __future__ import annotations

import heapq
import math


class Notices:
    """Keys with the earliest time any notice about them is due, in the engine's clock."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._due)

    def schedule(self, key: str, due: float) -> None:
        """A notice is due, unless an earlier one is already."""
        if due < self._due.get(key, math.inf):
            self._due[key] = due
            heapq.heappush(self._heap, (due, key))

    def take(self, now: float) -> list[str]:
        """The keys whose time has come."""
        keys = []
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                keys.append(key)
        return keys

    def next(self) -> float | None:
        """When :meth:`take` will have something to give."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
