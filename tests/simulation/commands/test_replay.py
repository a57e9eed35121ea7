"""``arranger simulate --trace``: what people see, what scripts read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from arranger.cli.main import main
from arranger.replay import read_trace
from arranger.replay.packing import run_packing
from arranger.replay.policies import POLICIES
from tests.paths import TRACES
from tests.unit.replay.traces import write_mixed_trace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_mixed_trace(tmp_path)


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, args)])


def test_people_get_a_row_for_each_policy_and_are_told_of_fractions(folder: Path) -> None:
    result = run("--trace", folder)
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    assert rows.keys() >= POLICIES.keys()
    assert {len(rows[policy]) for policy in POLICIES} == {9}
    assert "ask for a fraction of a GPU, which counts as a whole one" in result.stdout


def test_scripts_get_json_and_the_plot_is_written(folder: Path) -> None:
    svg = folder / "plot.svg"
    args = ("--trace", folder, "--policy", "BinPack", "--seed", "5", "-o", "json", "--svg", svg)
    first = run(*args)
    assert first.exit_code == 0, first.output
    told, drawn = json.loads(first.stdout), svg.read_bytes()
    assert told["seed"] == 5
    (binpack,) = told["policies"]
    assert binpack["samples"][-1]["allocatedGpuPercent"] == binpack["allocatedGpuPercent"]
    assert run(*args).stdout_bytes == first.stdout_bytes
    assert svg.read_bytes() == drawn


def test_a_trace_that_cannot_be_used_is_refused_with_file_and_line(folder: Path) -> None:
    with (folder / "a_pod_list.csv").open("a") as pods:
        pods.write("odd,1,1,one,1000,,LS,Running,0,,0\n")
    result = run("--trace", folder)
    assert result.exit_code == 1
    assert "a_pod_list.csv, line 42: Expected `int`" in result.output
    assert "Traceback" not in result.output


WRONG_USE: dict[str, tuple[list[str], str]] = {
    "neither manifests nor a trace": ([], "give manifests with -f, or a trace with --trace"),
    "manifests and a trace": (["-f", "{}", "--trace", "{}"], "--filename: not with --trace"),
    "a policy for manifests": (
        ["-f", "{}", "--policy", "BinPack", "--svg", "x.svg"],
        "--policy: not without --trace",
    ),
    "a policy that nobody knows": (["--trace", "{}", "--policy", "Best"], "no policy named 'Best'"),
    "a plot that cannot be written": (["--trace", "{}", "--svg", "{}/no/x.svg"], "No such file"),
    "a standstill": (["--trace", "{}", "--speedup", "0"], "0.0 is not in the range x>0"),
}


@pytest.mark.parametrize(("args", "message"), WRONG_USE.values(), ids=WRONG_USE)
def test_what_would_be_ignored_or_cannot_be_is_refused(
    args: list[str], message: str, folder: Path
) -> None:
    result = run(*(arg.format(folder) for arg in args))
    assert result.exit_code != 0
    assert message in result.output
    assert "Traceback" not in result.output


def test_the_openb_trace_tells_the_policies_apart() -> None:
    if not TRACES.is_dir():
        pytest.skip(f"no traces at {TRACES}; set ARRANGER_SHARED to the folder that holds them")
    trace = read_trace(TRACES)
    assert (len(trace.nodes), len(trace.pods), trace.gpus) == (1213, 8152, 6212)
    # Every second node and pod: what sets the policies apart shows there too, in half the time.
    nodes, pods = trace.nodes[::2], trace.pods[::2]
    spread, packed, even = (
        run_packing(nodes, pods, POLICIES[policy])
        for policy in ("LeastAllocated", "BinPack", "MinFragment")
    )
    assert spread.allocated_at_capacity < packed.allocated_at_capacity < even.allocated_at_capacity
    assert spread.fragmentation < even.fragmentation < packed.fragmentation
