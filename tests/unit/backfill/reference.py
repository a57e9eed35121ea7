"""What a timeline and a planner must answer, in plain Python: one pod and one second at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

Amounts = tuple[int, ...]


@dataclass(frozen=True)
class Taken:
    """Room on a node from ``start`` on, before ``end``."""

    node: int
    amounts: Amounts
    start: float
    end: float


@dataclass
class World:
    """Nodes with what they offer, and what is taken when."""

    nodes: list[Amounts]
    taken: list[Taken] = field(default_factory=list)

    def free(self, node: int, at: float) -> list[int]:
        """What is left on a node at a moment."""
        free = list(self.nodes[node])
        for each in self.taken:
            if each.node == node and each.start <= at < each.end:
                free = [n - m for n, m in zip(free, each.amounts, strict=True)]
        return free

    def moments(self, start: float, end: float) -> list[float]:
        """The first moment and every later one at which something changes."""
        times = {t for each in self.taken for t in (each.start, each.end)}
        return [start, *sorted(t for t in times if start < t < end)]

    def capacity(self, node: int, amounts: Amounts, start: float, end: float) -> int:
        """How many pods fit on a node all the time from ``start`` to ``end``."""
        least = math.inf
        for at in self.moments(start, end):
            free = self.free(node, at)
            fits = [free[n] // a for n, a in enumerate(amounts) if a > 0]
            least = min(least, max(0, min(fits)))
        return int(least)

    def earliest(
        self, amounts: Amounts, count: int, lasts: float, now: float, allowed: Sequence[int]
    ) -> float | None:
        """When so many pods alike fit first, for so long."""
        for at in self.moments(now, math.inf):
            room = sum(self.capacity(node, amounts, at, at + lasts) for node in allowed)
            if room >= count:
                return at
        return None

    def delays(self, node: int, amounts: Amounts, now: float, end: float) -> bool:
        """Whether a pod that starts now and ends then takes room that is taken later."""
        return any(
            any(left < a for left, a in zip(self.free(node, at), amounts, strict=True) if a > 0)
            for at in self.moments(now, end)
        )
