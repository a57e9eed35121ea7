"""Nobody is overtaken, and nobody forgotten, in worlds in which something always ends.

More worlds: ``python -m tests.simulation.queue_order 10000``.
"""

from __future__ import annotations

import pytest

from tests.simulation.queue_order.churn import moments_taken_by_the_lower, tries_in_vain
from tests.simulation.queue_order.worlds import BusyWorld

WORLDS_PER_BLOCK = 25


@pytest.mark.parametrize("block", range(8))
def test_nobody_is_overtaken_or_forgotten(block: int) -> None:
    for seed in range(block * WORLDS_PER_BLOCK, (block + 1) * WORLDS_PER_BLOCK):
        judge = BusyWorld(seed).play()
        assert judge.overtakings == [], f"seed {seed}"
        assert judge.forgotten == [], f"seed {seed}"
        assert judge.moments, f"seed {seed}: nobody was placed"


def test_churn_on_a_node_of_no_use_lets_no_lower_job_go_first() -> None:
    assert moments_taken_by_the_lower(80) == 0


def test_churn_on_a_node_of_no_use_wakes_no_gang() -> None:
    assert tries_in_vain(80) == 2, "each is tried once, on arrival"
