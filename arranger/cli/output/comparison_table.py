"""What ``arranger simulate --trace`` prints on a terminal."""

from __future__ import annotations

from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from arranger.cli.output.screen import Screen
from arranger.replay import Comparison

_HEADINGS: Final = (
    "GPU %\nat 100",
    "GPU %\nat end",
    "fragm.\n%",
    "not\nplaced",
    "wait s\nmean",
    "\np50",
    "\np95",
    "\nmax",
)


def print_comparison(comparison: Comparison) -> None:
    """A row for each policy, and footnotes that explain the columns."""
    screen = Screen()
    table = Table(
        Column("policy", no_wrap=True), box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    for run in comparison.results:
        packing, queueing = run.packing, run.queueing
        table.add_row(
            run.policy,
            f"{packing.allocated_at_capacity:.1f}",
            f"{packing.allocated:.1f}",
            f"{packing.fragmentation:.1f}",
            str(packing.unplaced),
            f"{queueing.mean:.1f}",
            *(f"{queueing.percentile(percent):.1f}" for percent in (50, 95, 100)),
        )
    screen.print(table)
    screen.print(
        "GPU %: allocated when pods had asked for as many GPUs as there are, and at the end. "
        "Fragmentation: free GPUs that a pod of the trace cannot use, the mean until then.",
        soft_wrap=True,
    )
    for fact in comparison.footnotes():
        screen.print(fact, soft_wrap=True)
