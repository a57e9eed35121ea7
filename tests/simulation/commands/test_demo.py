"""``arranger demo``, as `make demo` runs it: over HTTP, in real time."""

from __future__ import annotations

import subprocess
import sys

from tests.paths import REPO


def test_the_demo_ends_by_itself_and_shows_what_happened() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "arranger.cli.main", "demo"],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "TYJob default/average Succeeded" in done.stdout
    placed = done.stdout.split("pods placed")[-1]
    for pod in ("web", "trainer", "second-trainer", "red-0", "blue-2"):
        assert f"default/{pod}" in placed
    assert "too-big" in placed
