"""Keys that are due at some time, each at most once."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Final

#: Entries of keys that were cancelled which may stay in any case.
_SPARE: Final = 64


@dataclass(slots=True, eq=False)
class DeadlineSet:
    """Keys with the earliest time any notice about them is due, in the engine's clock."""

    _heap: list[tuple[float, str]] = field(default_factory=list, init=False)
    _deadline_of: dict[str, float] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._deadline_of)

    def schedule(self, key: str, due: float) -> None:
        """A notice is due, unless an earlier one is already."""
        if due < self._deadline_of.get(key, math.inf):
            self._deadline_of[key] = due
            heapq.heappush(self._heap, (due, key))

    def cancel(self, key: str) -> None:
        """Nothing is due for a key any more."""
        if self._deadline_of.pop(key, None) is None:
            return
        if len(self._heap) > 2 * len(self._deadline_of) + _SPARE:
            self._heap = [(due, each) for each, due in self._deadline_of.items()]
            heapq.heapify(self._heap)

    def is_scheduled(self, key: str, due: float) -> bool:
        """Whether a notice is due by then already."""
        return self._deadline_of.get(key, math.inf) <= due

    def pop_due(self, now: float, most: float = math.inf) -> list[str]:
        """The keys whose time has come, the earliest first, and no more than so many."""
        keys = list[str]()
        while self._heap and self._heap[0][0] <= now and len(keys) < most:
            due, key = heapq.heappop(self._heap)
            if self._deadline_of.get(key) == due:
                del self._deadline_of[key]
                keys.append(key)
        return keys

    def next_deadline(self) -> float | None:
        """When :meth:`pop_due` will have something to give."""
        while self._heap and self._deadline_of.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
