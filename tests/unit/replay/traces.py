"""Traces small enough to be worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from arranger.replay.trace import TraceNode, TracePod

NODES = "sn,cpu_milli,memory_mib,gpu,model"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time"
)


def a_trace_node(name: str, **fields: Any) -> TraceNode:
    """8 CPU, 8 GiB and two T4."""
    given = {"cpu": 8000, "memory": 8192, "gpus": 2, "model": "T4", **fields}
    return TraceNode(name=name, **given)


def a_trace_pod(name: str, **fields: Any) -> TracePod:
    """1 CPU, 1 GiB and a GPU of any model; it comes at once and never ends."""
    given = {"cpu": 1000, "memory": 1024, "gpus": 1, "models": (), "arrival": 0.0, **fields}
    return TracePod(name=name, **{"duration": None, **given})


def write_trace(folder: Path, nodes: list[str], pods: list[str]) -> Path:
    """Both lists, below their headers; returns the folder."""
    (folder / "a_node_list.csv").write_text("\n".join([NODES, *nodes, ""]))
    (folder / "a_pod_list.csv").write_text("\n".join([PODS, *pods, ""]))
    return folder


def write_mixed_trace(folder: Path) -> Path:
    """Six nodes and 40 pods of several sizes, more than fit, a third of them of a part of a GPU."""
    nodes = [f"n{n},16000,65536,{2 + 2 * (n % 2)},{'T4' if n % 2 else 'G2'}" for n in range(6)]
    pods = [
        f"p{n},{1000 + 700 * (n % 5)},{2048 * (1 + n % 3)},{(1, 1, 2, 0)[n % 4]},"
        f"{500 if n % 3 == 0 else 1000},{'T4' if n % 7 == 0 else ''},LS,Running,"
        f"{n},{100 + 13 * n},{n}"
        for n in range(40)
    ]
    return write_trace(folder, nodes, pods)
