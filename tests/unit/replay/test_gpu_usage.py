"""Fragmentation as Weng et al. define it, by hand."""

from __future__ import annotations

import pytest

from arranger.replay.gpu_usage import GpuUsage
from arranger.replay.trace import TraceNode, TracePod
from tests.unit.replay.traces import a_trace_node, a_trace_pod

ONE, TWO = a_trace_pod("one"), a_trace_pod("two", gpus=2)
NONE = a_trace_pod("none", gpus=0)

CASES: dict[str, tuple[list[TraceNode], list[TracePod], float]] = {
    "what everybody can use is whole": ([a_trace_node("a")], [ONE, TWO], 0.0),
    "a node with too few GPUs is in fragments for those that want more": (
        [a_trace_node("a"), a_trace_node("b", gpus=1)],
        [ONE, TWO],
        0.5 * 1,
    ),
    "all GPUs are lost on pods that want none": ([a_trace_node("a")], [ONE, NONE], 0.5 * 2),
    "GPUs without the CPU to use them": (
        [a_trace_node("a", cpu=999), a_trace_node("b")],
        [ONE],
        2.0,
    ),
    "GPUs without the memory to use them": ([a_trace_node("a", memory=1023)], [ONE], 2.0),
    "GPUs of a model that some cannot use": (
        [a_trace_node("a"), a_trace_node("b", gpus=4, model="G2")],
        [ONE, a_trace_pod("picky", models=("G2", "A10"))],
        0.5 * 2,
    ),
    "the popular count for more": (
        [a_trace_node("a", gpus=1)],
        [ONE, a_trace_pod("like one"), a_trace_pod("so too"), TWO],
        0.25 * 1,
    ),
}


@pytest.mark.parametrize(("nodes", "pods", "fragmented"), CASES.values(), ids=CASES)
def test_fragmented_gpus(nodes: list[TraceNode], pods: list[TracePod], fragmented: float) -> None:
    assert GpuUsage(nodes, pods).fragmented_gpus() == pytest.approx(fragmented)


def test_pods_take_room_and_give_it_back() -> None:
    room = GpuUsage([a_trace_node("a"), a_trace_node("b")], [TWO])
    room.allocate(ONE, "b")
    assert (room.gpus, room.free_gpus, room.fragmented_gpus()) == (4, 3, 1.0)
    room.release(ONE, "b")
    assert (room.gpus, room.free_gpus, room.fragmented_gpus()) == (4, 4, 0.0)
