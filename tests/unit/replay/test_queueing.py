"""Waiting on one node with one GPU, by hand."""

from __future__ import annotations

import pytest

from arranger.replay.policies import POLICIES
from arranger.replay.queueing import QueueingResult, run_queueing
from arranger.replay.trace import TracePod
from tests.unit.replay.traces import a_trace_node, a_trace_pod


def a_run(arrival: float, duration: float | None, **fields: int) -> TracePod:
    return a_trace_pod(f"from {arrival:g}", arrival=arrival, duration=duration, **fields)


#: (pods, speed-up, waits of those that were bound in the order of their binding, never placed)
CASES: dict[str, tuple[list[TracePod], float, tuple[float, ...], int]] = {
    "pods that meet nobody do not wait": ([a_run(0, 5), a_run(10, 5)], 1, (0, 0), 0),
    "one waits until the other ends": ([a_run(0, 100), a_run(10, 5)], 1, (0, 90), 0),
    "who comes first goes first": (
        [a_run(0, 100), a_run(10, 50), a_run(20, 5)],
        1,
        (0, 90, 130),
        0,
    ),
    "pods come faster, and run as long": ([a_run(0, 100), a_run(10, 5)], 2, (0, 95), 0),
    "it does not wait for its back-off to end": ([a_run(0, 10.5), a_run(10, 5)], 1, (0, 0.5), 0),
    "some never end": ([a_run(0, None), a_run(10, 5)], 1, (0,), 1),
    "some fit nowhere": ([a_run(0, 5, gpus=2), a_run(10, 5)], 1, (0,), 1),
    "one that ends at once makes room at once": ([a_run(0, 0), a_run(0.5, 1)], 1, (0, 0), 0),
    "nobody comes": ([], 1, (), 0),
}


@pytest.mark.parametrize(("pods", "speedup", "waits", "unplaced"), CASES.values(), ids=CASES)
def test_waits(
    pods: list[TracePod], speedup: float, waits: tuple[float, ...], unplaced: int
) -> None:
    flowed = run_queueing([a_trace_node("n", gpus=1)], pods, POLICIES["BinPack"], speedup=speedup)
    assert flowed.waits == pytest.approx(waits)
    assert flowed.unplaced == unplaced


def test_the_summary_of_waits() -> None:
    flowed = QueueingResult((0.0,) * 18 + (30.0, 60.0), unplaced=2)
    assert (flowed.waited, flowed.mean) == (2, 4.5)
    assert [flowed.percentile(p) for p in (50, 90, 95, 100)] == [0.0, 0.0, 30.0, 60.0]


def test_without_a_bound_pod_nobody_has_waited() -> None:
    flowed = QueueingResult((), unplaced=2)
    assert (flowed.mean, flowed.percentile(95)) == (0.0, 0.0)
