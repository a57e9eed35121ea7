"""Comparisons: equal seeds, other seeds, what a reader must know, and the plot."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from arranger.replay import Comparison, PolicyError, Trace, compare, draw_svg, read_trace
from arranger.replay.policies import POLICIES
from tests.unit.replay.traces import a_trace_node, a_trace_pod, write_mixed_trace

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return read_trace(write_mixed_trace(tmp_path))


def told(comparison: Comparison) -> tuple[str, str]:
    return json.dumps(comparison.as_json()), draw_svg(comparison)


def test_equal_seeds_give_equal_bytes(trace: Trace) -> None:
    first, second = (told(compare(trace, ["MinFragment"], seed=3, speedup=10)) for _ in range(2))
    assert first == second


def test_another_seed_draws_another_order(trace: Trace) -> None:
    first, second = (compare(trace, ["BinPack"], seed=seed).results for seed in (1, 2))
    assert first[0].packing.samples != second[0].packing.samples


def test_the_policies_are_told_apart(trace: Trace) -> None:
    runs = compare(trace).results
    assert [run.policy for run in runs] == list(POLICIES)
    outcomes = {run.policy: run.packing for run in runs}
    assert outcomes["LeastAllocated"] != outcomes["BinPack"]
    assert outcomes["BinPack"] != outcomes["MinFragment"]
    assert outcomes["LeastAllocated"] != outcomes["MinFragment"]


def test_policies_run_in_the_order_given_and_once(trace: Trace) -> None:
    heard: list[str] = []
    names = ["MinFragment", "BinPack", "MinFragment"]
    runs = compare(trace, names, on_start=heard.append).results
    assert heard == [run.policy for run in runs] == ["MinFragment", "BinPack"]


def test_an_unknown_policy_is_refused_with_those_that_are_known(trace: Trace) -> None:
    with pytest.raises(PolicyError, match="no policy named 'Binpack'; there are LeastAllocated"):
        compare(trace, ["Binpack"])


def test_fractions_are_told(trace: Trace) -> None:
    comparison = compare(trace, ["BinPack"])
    fractions = comparison.as_json()["fractionalPodsCountedWhole"]
    assert fractions == 10  # every third of those that want a GPU
    assert comparison.footnotes()[1].startswith(
        "10 pods ask for a fraction of a GPU, which counts as"
    )


def test_pods_that_are_in_no_waiting_time_are_told() -> None:
    pods = (a_trace_pod("p"), a_trace_pod("huge", gpus=3))
    comparison = compare(Trace((a_trace_node("n"),), pods, 0), ["BinPack"])
    assert comparison.footnotes()[-1] == "Never placed, and in no waiting time: 1 (BinPack)."


def test_the_plot_has_a_line_for_each_policy_in_both_panels(trace: Trace) -> None:
    comparison = compare(trace, ["BinPack", "LeastAllocated"])
    root = ET.fromstring(draw_svg(comparison))
    lines = root.findall(f".//{SVG}polyline")
    samples = [len(run.packing.samples) for run in comparison.results]
    assert [len(line.attrib["points"].split()) for line in lines] == samples * 2
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"BinPack", "LeastAllocated", "allocated GPUs, % of all"} <= set(texts)


def test_points_lie_where_the_axes_say() -> None:
    trace = Trace((a_trace_node("n"),), (a_trace_pod("p"), a_trace_pod("q")), 0)
    root = ET.fromstring(draw_svg(compare(trace, ["BinPack"])))
    line = root.find(f".//{SVG}polyline")
    assert line is not None
    # A square of 340: nothing, half and all of the GPUs, each of them allocated at once.
    assert line.attrib["points"] == "0.00,340.00 170.00,170.00 340.00,0.00"


HUGE = 2**40
WORST = {
    "a node of more GPUs than there are": ({"cpu": HUGE, "memory": HUGE, "gpus": HUGE}, {}),
    "a pod that asks for them": ({}, {"gpus": HUGE}),
    "a pod that lives for a century": ({}, {"duration": 36_525 * 86_400.0}),
}


@pytest.mark.parametrize("case", WORST.values(), ids=WORST.keys())
def test_the_worst_that_a_trace_can_say_is_compared_and_drawn(
    case: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    node, pod = case
    nodes = (a_trace_node("n", **node),)
    pods = tuple(a_trace_pod(f"p{n}", **pod) for n in range(3))
    comparison = compare(Trace(nodes, pods, 0), ["BinPack"])
    assert len(draw_svg(comparison)) < 100_000
