"""Which of the faults that there can be are tried."""

from __future__ import annotations

import random
from collections.abc import Iterable

from tests.faults.callables import Callee


def sample(
    found: Iterable[Callee], rng: random.Random, count: int
) -> list[tuple[Callee, bool, int | None]]:
    """So many faults, or all for a count of 0: (in what, after its work, how often or always)."""
    all_of_them = [
        (callee, after, times)
        for callee in sorted(found)
        for after in (False, True)
        for times in (None, 1)
    ]
    if not count:
        return all_of_them
    return rng.sample(all_of_them, min(count, len(all_of_them)))
