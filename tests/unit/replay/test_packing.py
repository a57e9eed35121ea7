"""Filling clusters of two nodes, by hand."""

from __future__ import annotations

import pytest

from arranger.replay.packing import PackingResult, Sample, run_packing
from arranger.replay.policies import POLICIES
from tests.unit.replay.traces import a_trace_node, a_trace_pod

NODES = [a_trace_node("a"), a_trace_node("b")]
#: Two small ones, and one that needs a whole node.
PODS = [a_trace_pod("one"), a_trace_pod("another"), a_trace_pod("big", gpus=2)]

POLICY_CASES = {
    "LeastAllocated": 1,
    "MostAllocated": 0,
    "BinPack": 0,
    "MinFragment": 0,
}


@pytest.mark.parametrize(("policy", "unplaced"), POLICY_CASES.items(), ids=POLICY_CASES)
def test_spread_pods_leave_no_whole_node(policy: str, unplaced: int) -> None:
    filled = run_packing(NODES, PODS, POLICIES[policy])
    assert filled.unplaced == unplaced
    assert filled.allocated == 100 - 50 * unplaced


def test_every_policy_has_its_case() -> None:
    assert POLICY_CASES.keys() == POLICIES.keys()


def test_min_fragment_differs_from_bin_pack_where_memory_runs_out_first() -> None:
    nodes = [a_trace_node("even", gpus=4), a_trace_node("odd", gpus=4, cpu=1500)]
    # Alone on "odd" it would use 67 % of the CPU and 12 % of the memory: full, but unevenly.
    pods = [a_trace_pod("first"), a_trace_pod("second", gpus=4, cpu=1000)]
    filled = {name: run_packing(nodes, pods, POLICIES[name]) for name in ("BinPack", "MinFragment")}
    assert filled["BinPack"].samples != filled["MinFragment"].samples


def test_samples_tell_what_arrived_what_was_allocated_and_what_is_fragmented() -> None:
    samples = run_packing(NODES, PODS, POLICIES["LeastAllocated"]).samples
    assert [(s.arrived, s.allocated) for s in samples] == [(0, 0), (25, 25), (50, 50), (100, 50)]
    # A third of the pods wants two GPUs, and finds one on one node, then on both.
    fragmentation = [s.fragmentation for s in samples]
    assert fragmentation == pytest.approx([0, 100 / 9, 100 / 3, 100 / 3])


def test_a_cluster_without_a_free_gpu_has_no_fragments() -> None:
    last = run_packing(NODES, PODS, POLICIES["BinPack"]).samples[-1]
    assert last == Sample(arrived=100, allocated=100, fragmentation=0)


def test_pods_go_only_to_models_that_they_name() -> None:
    nodes = [a_trace_node("a"), a_trace_node("b", model="G2")]
    picky = [a_trace_pod(f"p{n}", models=("G2", "A10")) for n in range(3)]
    filled = run_packing(nodes, picky, POLICIES["BinPack"])
    assert (filled.unplaced, filled.allocated) == (1, 50)


def test_a_pod_that_finds_no_node_is_not_tried_again_and_holds_nobody_up() -> None:
    pods = [a_trace_pod("huge", gpus=3), *PODS]
    filled = run_packing(NODES, pods, POLICIES["BinPack"])
    assert (filled.unplaced, filled.allocated) == (1, 100)


def test_the_summary_of_samples() -> None:
    filled = PackingResult(
        (Sample(0, 0, 10), Sample(99, 90, 20), Sample(101, 95, 90), Sample(120, 97, 100)), 3
    )
    assert filled.allocated_at_capacity == 95
    assert filled.allocated == 97
    assert filled.fragmentation == 15


def test_too_few_pods_never_reach_capacity() -> None:
    filled = PackingResult((Sample(0, 0, 10), Sample(40, 38, 20)), 1)
    assert filled.allocated_at_capacity == filled.allocated == 38
