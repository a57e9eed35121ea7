"""What the lines of a trace mean, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from arranger.replay.trace import TraceError, read_trace
from tests.unit.replay.traces import NODES, PODS, a_trace_node, a_trace_pod, write_trace

NODE = "n0,8000,8192,2,T4"
POD = "p0,1000,1024,1,1000,,LS,Running,5,105,25"


@pytest.mark.parametrize(
    ("line", "pod"),
    [
        pytest.param(
            POD,
            a_trace_pod("p0", arrival=5.0, duration=80.0),
            id="a pod runs from when it was scheduled until it was deleted",
        ),
        pytest.param(
            "p0,1000,1024,1,1000,,LS,Pending,5,105,",
            a_trace_pod("p0", arrival=5.0, duration=100.0),
            id="one that was never scheduled would have run since it was created",
        ),
        pytest.param(
            "p0,1000,1024,1,1000,,LS,Running,5,,5",
            a_trace_pod("p0", arrival=5.0, duration=None),
            id="without a deletion the trace does not tell how long it ran",
        ),
        pytest.param(
            "p0,1000,1024,1,460,,LS,Running,0,,0",
            a_trace_pod("p0"),
            id="a fraction of a GPU is a whole one",
        ),
        pytest.param(
            "p0,1000,1024,2,1000,V100M16|V100M32,LS,Running,0,,0",
            a_trace_pod("p0", gpus=2, models=("V100M16", "V100M32")),
            id="models are separated by bars",
        ),
    ],
)
def test_a_line_of_the_pod_list(line: str, pod: object, tmp_path: Path) -> None:
    assert read_trace(write_trace(tmp_path, [NODE], [line])).pods == (pod,)


def test_pods_without_gpus_are_kept_and_their_models_do_not_matter(tmp_path: Path) -> None:
    lines = [POD, "p1,1000,1024,0,0,T4,LS,Running,6,,6"]
    trace = read_trace(write_trace(tmp_path, [NODE], lines))
    assert trace.pods[1] == a_trace_pod("p1", gpus=0, arrival=6.0)
    assert trace.fractional_pods == 0


def test_pods_come_in_the_order_of_their_arrival_and_fractions_are_counted(tmp_path: Path) -> None:
    lines = ["late,1,1,1,500,,LS,Running,9,,9", "soon,1,1,1,1000,,LS,Running,3,,3"]
    trace = read_trace(write_trace(tmp_path, [NODE], lines))
    assert [pod.name for pod in trace.pods] == ["soon", "late"]
    assert trace.fractional_pods == 1
    assert trace.nodes == (a_trace_node("n0"),)
    assert trace.gpus == 2


def test_a_pod_list_is_read_with_the_node_list_beside_it(tmp_path: Path) -> None:
    write_trace(tmp_path, [NODE], [POD])
    other = tmp_path / "other_pod_list.csv"
    other.write_text(f"{PODS}\n{POD.replace('p0', 'other')}\n")
    assert [pod.name for pod in read_trace(other).pods] == ["other"]
    with pytest.raises(TraceError, match=r"found a_pod_list.csv, other_pod_list.csv; name the pod"):
        read_trace(tmp_path)


def test_a_folder_without_lists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"expected one \*node_list\*.csv, found none"):
        read_trace(tmp_path)


REFUSED_PODS = {
    "what is no number": ("p1,some,1,1,1000,,LS,Running,0,,0", "line 3: Expected `int`"),
    "less than nothing": ("p1,-1,1,1,1000,,LS,Running,0,,0", "line 3: Expected `int` >= 0"),
    "a missing request": ("p1,,1,1,1000,,LS,Running,0,,0", "required field `cpu_milli`"),
    "a line that breaks off": ("p1,1000", "line 3: Object missing required field"),
    "a line with more": (POD + ",7", "line 3: more fields than the header"),
    "a name that comes twice": (POD, "line 3: p0 stands in line 2 already"),
    "an end before the start": ("p1,1,1,1,1000,,LS,Failed,5,3,4", "p1 ends before it starts"),
    "a time that is none": (
        "p1,1,1,1,1000,,LS,Running,nan,,",
        "line 3: p1: a time is longer than a century",
    ),
    "a time that no calendar has": (
        "p1,1,1,1,1000,,LS,Running,1e300,,",
        "line 3: p1: a time is longer than a century",
    ),
    "more cores than there are": (f"p1,{10**40},1,1,1000,,LS,Running,0,,", "line 3: "),
    "a number of 5,000 digits": (f"p1,{'9' * 5000},1,1,1000,,LS,Running,0,,", "line 3: "),
}


@pytest.mark.parametrize(("line", "message"), REFUSED_PODS.values(), ids=REFUSED_PODS)
def test_a_pod_list_is_refused_with_file_and_line_for(
    line: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceError) as error:
        read_trace(write_trace(tmp_path, [NODE], [POD, line]))
    assert str(error.value).startswith(str(tmp_path / "a_pod_list.csv"))
    assert message in str(error.value)


REFUSED_NODES = {
    "GPUs without a model": ("n1,1,1,2,", "a_node_list.csv, line 3: n1 has GPUs and no model"),
    "a name that comes twice": (NODE, "a_node_list.csv, line 3: n0 stands in line 2 already"),
    "a part of a GPU": ("n1,1,1,0.5,T4", "a_node_list.csv, line 3: Expected `int`"),
}


@pytest.mark.parametrize(("line", "message"), REFUSED_NODES.values(), ids=REFUSED_NODES)
def test_a_node_list_is_refused_with_file_and_line_for(
    line: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceError) as error:
        read_trace(write_trace(tmp_path, [NODE, line], [POD]))
    assert message in str(error.value)


USELESS = {
    "no node has a GPU": (["n0,1,1,0,"], [POD]),
    "no pod asks for a GPU": ([NODE], ["p0,1,1,0,0,,LS,Running,0,,0"]),
}


@pytest.mark.parametrize(("nodes", "pods"), USELESS.values(), ids=USELESS)
def test_a_trace_tells_nothing_if(
    nodes: list[str], pods: list[str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with pytest.raises(TraceError, match=request.node.callspec.id):
        read_trace(write_trace(tmp_path, nodes, pods))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    write_trace(tmp_path, [NODE], [POD])
    (tmp_path / "a_node_list.csv").write_bytes(NODES.encode() + b"\n\xff\xfe\n")
    with pytest.raises(TraceError, match=r"a_node_list\.csv: not text in UTF-8"):
        read_trace(tmp_path)
