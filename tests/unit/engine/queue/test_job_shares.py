"""Dominant shares, with the example of docs/design/tyjob.md."""

from __future__ import annotations

import pytest

from arranger.engine.queue.order.job_shares import job_share

#: The seed's cluster: 10 CPU, 20 GB, and no GPU.
CAPACITY = {"cpu": 10_000, "memory": 20, "gpu": 0}

SHARES: dict[str, tuple[dict[str, int], float]] = {
    "the seed's first job, two pods of 1 CPU and 4 GB": ({"cpu": 2_000, "memory": 8}, 0.4),
    "the seed's second job, 2 CPU and 2 GB, 3 CPU and 2 GB": ({"cpu": 5_000, "memory": 4}, 0.5),
    "what the cluster has none of does not count": ({"cpu": 1_000, "gpu": 8}, 0.1),
    "what nobody has heard of does not count": ({"cpu": 1_000, "fpga": 8}, 0.1),
    "nothing": ({}, 0.0),
    "more than there is": ({"memory": 30}, 1.5),
}


@pytest.mark.parametrize("case", SHARES.values(), ids=SHARES.keys())
def test_job_share(case: tuple[dict[str, int], float]) -> None:
    requests, expected = case
    assert job_share(requests, CAPACITY) == expected
