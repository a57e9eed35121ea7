"""Free shares of all nodes at once, against integer arithmetic where they are about to turn."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from arranger.cluster.columns import BASIC_RESOURCES, CPU, MEMORY
from arranger.cluster.nodes.resource_shares import ResourceShares
from arranger.plugins.helpers.resource_scoring import least_allocated_everywhere

ROWS = 400
LARGEST = 10**13 - 1


class _Nodes:
    """A node table that nobody changes."""

    def __init__(self, sizes: list[int], used: list[int]) -> None:
        self.size, self.version = len(sizes), 1
        self.alive = np.ones(self.size, dtype=np.bool_)
        columns = len(BASIC_RESOURCES)
        self.allocatable = np.zeros((columns, self.size), dtype=np.int64)
        self.allocatable[CPU], self.allocatable[MEMORY] = sizes, sizes
        self.requested = np.zeros((columns, self.size), dtype=np.int64)
        self.nonzero_requested = np.array([used, used], dtype=np.int64)

    def changed_since(self, version: int) -> list[tuple[int, int]] | None:
        return []


def _just_about(random: Random, most: int) -> tuple[int, int, int]:
    """A size and two amounts that leave a whole per cent of it, or one unit less or more."""
    size = 100 * random.randrange(1, most // 100 + 1) + random.choice((0, -1, 1, 37))
    size = min(max(size, 1), most)
    left = -(-random.randrange(101) * size // 100) + random.choice((-1, 0, 0, 1))
    taken = size - min(max(left, 0), size)
    extra = random.choice((0, 1, taken, random.randrange(taken + 1)))
    return size, taken - extra, extra


@pytest.mark.parametrize("most", [1000, 32_000, 2**37, 2**41, LARGEST])
def test_a_share_turns_where_the_integer_quotient_does(most: int) -> None:
    random = Random(most)
    for _ in range(60):
        _, _, extra = _just_about(random, most)
        cases = [_just_about(random, most) for _ in range(ROWS)]
        sizes = [max(size, 1) for size, _, _ in cases]
        used = [max(taken + own - extra, 0) for _, taken, own in cases]
        shares = ResourceShares(_Nodes(sizes, used))
        assert shares.refresh()
        found = least_allocated_everywhere(shares, np.array([[extra], [extra]], dtype=np.int64))
        expected = [
            100 * max(size - taken - extra, 0) // size
            for size, taken in zip(sizes, used, strict=True)
        ]
        assert found.tolist() == expected


def test_a_larger_node_has_all_worked_out_in_integers() -> None:
    assert not ResourceShares(_Nodes([LARGEST + 1, 4], [0, 0])).refresh()
    assert ResourceShares(_Nodes([LARGEST, 4], [0, 0])).refresh()
