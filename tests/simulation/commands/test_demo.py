"""``arranger demo``, as `make demo` runs it: over HTTP, in real time."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from arranger.cli.main import main
from tests.paths import REPO


def test_the_demo_ends_by_itself_and_shows_the_whole_mission() -> None:
    """A gang that waits, a tide, a preemption, a TYJob, why a pod stays, and where to look."""
    done = subprocess.run(
        [sys.executable, "-m", "arranger.cli.main", "demo"],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    happened, _, result = done.stdout.partition("pods placed")
    lines = [line.split(maxsplit=1)[1] for line in happened.splitlines() if ":" in line[:9]]
    gangs = [line for line in lines if "Job default/red" in line or "Job default/blue" in line]
    words = [line.split()[0] for line in gangs if line.startswith(("Bound", "Complete"))]
    assert words in (
        ["Bound", "Complete", "Bound", "Complete"],
        ["Bound", "Bound", "Complete", "Complete"],
    ), "one gang after the other"
    assert any(re.match(r"Evicted +(2 pods of Job|Pod) default/training", line) for line in lines)
    assert any(re.match(r"Evicted +Pod default/reports-", line) for line in lines)
    assert any(re.match(r"Bound +Pod default/alarm +edge-1", line) for line in lines)
    assert any(re.match(r"Succeeded +TYJob default/average", line) for line in lines)
    assert any(re.match(r"Complete +Job default/training", line) for line in lines)
    assert any(re.match(r"Scheduling +Gang default/(red|blue) +0/4 nodes", line) for line in lines)
    assert "queue inference" in result, "for whom training was evicted"
    assert not re.search(r"pod [0-9a-f]{8}-", done.stdout), "pods are named"
    assert "Two gangs of three pods that fit only one after the other" in happened
    assert "pod default/too-big" in result
    assert "would help" in result
    assert "arranger ui --kubeconfig" in happened
    assert "arranger demo --keep" in result


@pytest.mark.parametrize("port", ["-1", "65536", "99999"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    result = CliRunner().invoke(main, ["demo", "--port", port])
    assert result.exit_code == 2
    assert f"{port} is not in the range 0<=x<=65535" in result.output
