"""Verdicts as people read them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from arranger.explain import Snapshot, evaluate, render
from arranger.explain.report import headline, nearest_fit, reason_counts
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, expr

Members = list[NodeBuilder | PodBuilder]
SMALL = a_node("small").offers(cpu=2, memory="4Gi", pods=2)
LARGE = a_node("large").offers(cpu=8, memory="8Gi")


def _snapshot(pod: PodBuilder, members: Members) -> Snapshot:
    return Snapshot.from_objects([*(m.manifest() for m in members), pod.manifest()], "test")


CASES: dict[str, tuple[PodBuilder, Members, str, list[tuple[str, int]], str]] = {
    "it fits": (
        a_pod().needs(cpu=1),
        [SMALL, LARGE],
        "default/p: 2 of 2 nodes fit, best large (463)",
        [("fit", 2)],
        "",
    ),
    "it fits on some": (
        a_pod().needs(cpu=3),
        [SMALL, LARGE],
        "default/p: 1 of 2 nodes fit, best large (444)",
        [("fit", 1), ("Insufficient cpu (NodeResourcesFit)", 1)],
        "",
    ),
    "the closest node lacks a little": (
        a_pod().needs(cpu="8500m", memory="6Gi"),
        [SMALL, LARGE],
        "default/p: no node fits (of 2)",
        [
            ("Insufficient cpu (NodeResourcesFit)", 1),
            ("Insufficient cpu, Insufficient memory (NodeResourcesFit)", 1),
        ],
        "nearest: large lacks cpu 500m",
    ),
    "memory reads as people write it": (
        a_pod().needs(memory="5Gi"),
        [SMALL],
        "default/p: no node fits (of 1)",
        [("Insufficient memory (NodeResourcesFit)", 1)],
        "nearest: small lacks memory 1Gi",
    ),
    "devices and slots": (
        a_pod().needs({"example.com/gpu": 2}),
        [SMALL.offers({"example.com/gpu": 1, "pods": 0})],
        "default/p: no node fits (of 1)",
        [("Insufficient example.com/gpu, Too many pods (NodeResourcesFit)", 1)],
        "nearest: small lacks example.com/gpu 1, 1 pod slot",
    ),
    "the closest node is one that has such devices, however few are free": (
        a_pod().needs({"nvidia.com/gpu": 4, "cpu": 1}),
        [
            a_node("cpu-1").offers(cpu=64),
            a_node("gpu-1").offers({"nvidia.com/gpu": 4}, cpu=8),
            a_pod("busy").needs({"nvidia.com/gpu": 4, "cpu": 8}).on("gpu-1"),
        ],
        "default/p: no node fits (of 2)",
        [
            ("Insufficient cpu, Insufficient nvidia.com/gpu (NodeResourcesFit)", 1),
            ("Insufficient nvidia.com/gpu (NodeResourcesFit)", 1),
        ],
        "nearest: gpu-1 lacks nvidia.com/gpu 4, cpu 1000m",
    ),
    "devices that no node has": (
        a_pod().needs({"nvidia.com/gpu": 4}),
        [a_node("cpu-1"), a_node("cpu-2")],
        "default/p: no node fits (of 2)",
        [("Insufficient nvidia.com/gpu (NodeResourcesFit)", 2)],
        "no node has nvidia.com/gpu",
    ),
    "a node that lacks room and devices": (
        a_pod().needs({"nvidia.com/gpu": 4}, cpu=4),
        [a_node("gpu-1").offers({"nvidia.com/gpu": 4}).cordoned(), a_node("cpu-1").offers(cpu=2)],
        "default/p: no node fits (of 2)",
        [
            ("Insufficient cpu, Insufficient nvidia.com/gpu (NodeResourcesFit)", 1),
            ("node(s) were unschedulable (NodeUnschedulable)", 1),
        ],
        "nearest: cpu-1 lacks cpu 2000m and has no nvidia.com/gpu",
    ),
    "ports that others may give up": (
        a_pod().host_port(80),
        [SMALL, a_pod("b").host_port(80).on("small")],
        "default/p: no node fits (of 1)",
        [("node(s) didn't have free ports for the requested pod ports (NodePorts)", 1)],
        "nearest: small, node(s) didn't have free ports for the requested pod ports",
    ),
    "nothing that could change": (
        a_pod().selects(disk="ssd"),
        [SMALL, LARGE],
        "default/p: no node fits (of 2)",
        [("node(s) didn't match Pod's node affinity/selector (NodeAffinity)", 2)],
        "",
    ),
    "nodes that were not looked at count, too": (
        a_pod().requires(fields=[expr("metadata.name", "In", "small")]).needs(cpu=3),
        [SMALL, LARGE],
        "default/p: no node fits (of 2)",
        [
            ("Insufficient cpu (NodeResourcesFit)", 1),
            ("node is not in the PreFilter result (PreFilterResult)", 1),
        ],
        "nearest: small lacks cpu 1000m",
    ),
    "a pod refused as a whole": (
        a_pod().with_claim("data"),
        [SMALL, LARGE],
        "default/p: no node fits (of 2)",
        [('persistentvolumeclaim "data" not found (VolumeRestrictions)', 2)],
        "",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_explains(
    case: tuple[PodBuilder, Members, str, list[tuple[str, int]], str],
) -> None:
    pod, members, answer, counts, near = case
    snapshot = _snapshot(pod, members)
    (verdict,) = evaluate(snapshot)
    assert headline(snapshot, verdict) == answer
    assert reason_counts(snapshot.cluster.table.count, verdict) == counts
    assert sum(count for _, count in counts) == snapshot.cluster.table.count
    if not verdict["feasible"]:
        assert nearest_fit(snapshot, snapshot.pending[0], verdict) == near
    text = _text(snapshot)
    assert text.splitlines()[0] == answer
    assert near in text


def test_a_pod_larger_than_every_node_is_told_so() -> None:
    text = _text(_snapshot(a_pod().needs(cpu=64), [SMALL, LARGE]))
    assert "Unsatisfiable: pod default/p asks for cpu 64, and the largest node has cpu 8." in text
    assert "Unsatisfiable" not in _text(_snapshot(a_pod().needs(cpu=1), [SMALL, LARGE]))


def test_a_snapshot_without_pending_pods_says_so() -> None:
    assert _text(Snapshot.from_objects([SMALL.manifest()], "nodes.yaml")) == (
        "nodes.yaml: no pod is pending\n"
    )


def _text(snapshot: Snapshot) -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(render(snapshot, evaluate(snapshot)))
    return out.getvalue()


@pytest.mark.parametrize("cpu", [1, 99], ids=["it fits", "it does not"])
def test_of_a_member_of_a_gang_it_is_said_that_the_others_were_not_asked_about(cpu: int) -> None:
    snapshot = _snapshot(a_pod().needs(cpu=cpu).in_gang("g", 3), [SMALL])
    assert _text(snapshot).splitlines()[-1].strip() == "as a pod on its own, without gang default/g"
    assert "gang" not in _text(_snapshot(a_pod().needs(cpu=cpu), [SMALL]))
