"""What ``arranger doctor`` prints on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.table import Table

from arranger.cli.doctor.finding import Finding
from arranger.cli.output.screen import Screen, text

_COLOURS: Final = {"ok": "green", "wrong": "bold red", "unseen": "yellow"}


def print_findings(found: Sequence[Finding]) -> None:
    """Print a line for each finding, and below it how to mend it."""
    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column()
    for each in found:
        grid.add_row(text(each.state, _COLOURS[each.state]), text(each.check), text(each.text))
        if each.mend:
            grid.add_row("", "", text(f"→ {each.mend}", "cyan"))
    Screen().print(grid)
