"""Records a run of ``arranger demo`` as ``docs/demo.svg``: ``python -m docs.generator.picture``."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console

PICTURE = Path(__file__).resolve().parents[1] / "demo.svg"
COMMAND = "arranger demo"
COLUMNS = 88


def record() -> str:
    """What the command prints where it is not run on a terminal: one line for each change."""
    return subprocess.run(
        [sys.executable, "-m", "arranger.cli.main", *COMMAND.split()[1:]],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": str(COLUMNS)},
    ).stdout


def draw(output: str) -> str:
    """A picture of a terminal with that output."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(f"[bold green]$[/] [bold]{COMMAND}[/]")
    console.print(output.rstrip("\n"), markup=False, highlight=False)
    # A fixed id, so that only what has changed in the output changes in the file.
    return console.export_svg(title=COMMAND, unique_id="arranger-demo")


if __name__ == "__main__":
    PICTURE.write_text(draw(record()))
