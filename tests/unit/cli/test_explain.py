"""``arranger explain``: what a user sees and what a script reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from arranger.cli.main import main
from tests.builders import a_node, a_pod


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """One node with room for one of two pods."""
    content = {
        "nodes": [a_node("n1").offers(cpu=2).manifest()],
        "pods": [],
        "pending": [a_pod("fits").needs(cpu=1).manifest(), a_pod("big").needs(cpu=3).manifest()],
    }
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(content))
    return path


def test_json_is_one_line_a_snapshot_in_the_shape_of_the_corpora(snapshot: Path) -> None:
    result = CliRunner().invoke(main, ["explain", "--snapshot", str(snapshot), "-o", "json"])
    assert result.exit_code == 0, result.output
    (line,) = result.output.splitlines()
    fits, big = json.loads(line)["verdicts"]
    assert (fits["pod"], fits["feasible"]) == ("default/fits", ["n1"])
    assert big["rejected"]["n1"]["reasons"] == ["Insufficient cpu"]
    assert big["fitError"] == "0/1 nodes are available: 1 Insufficient cpu."


def test_the_table_says_why_a_pod_waits(snapshot: Path) -> None:
    result = CliRunner().invoke(main, ["explain", "--snapshot", str(snapshot)])
    assert result.exit_code == 0, result.output
    assert "Insufficient cpu" in result.output


def test_a_file_that_is_no_snapshot_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("{")
    result = CliRunner().invoke(main, ["explain", "--snapshot", str(path)])
    assert result.exit_code != 0
    assert "broken.json" in result.output
    assert "Traceback" not in result.output
