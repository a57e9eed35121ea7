"""``arranger simulate --trace``: what people and scripts get to see of a comparison."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from arranger.replay import Comparison, compare, draw_svg, read_trace

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


def run_replay(
    path: Path,
    policies: Sequence[str],
    *,
    seed: int,
    speedup: float,
    svg: Path | None,
    output: str,
) -> None:
    """Replay the trace under each policy; print a table or JSON, and write the plot if wanted.

    Progress goes to the standard error.

    Raises:
        TraceError: the trace cannot be used.
        PolicyError: a policy is not known.
        OSError: the plot cannot be written.
    """
    comparison = compare(
        read_trace(path), policies, seed=seed, speedup=speedup, on_start=_report_start
    )
    if svg is not None:
        svg.write_text(draw_svg(comparison), encoding="utf-8")
    if output == "json":
        click.echo(json.dumps(comparison.as_json(), indent=2))
    else:
        print_comparison(comparison)


def _report_start(policy: str) -> None:
    click.echo(f"replaying under {policy}", err=True)


def print_comparison(comparison: Comparison) -> None:
    """A row for each policy, and what one must know to read it."""
    console = Console()
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
    console.print(table)
    console.print(
        "GPU %: allocated when pods had asked for as many GPUs as there are, and at the end. "
        "Fragmentation: free GPUs that a pod of the trace cannot use, the mean until then.",
        soft_wrap=True,
    )
    for fact in comparison.footnotes():
        console.print(fact, soft_wrap=True)
