"""What people read on a terminal."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table

from arranger.cli.simulating import Outcome


def print_outcome(outcome: Outcome) -> None:
    """Where every pod went, and why the rest waits."""
    console = Console()
    placed, waiting = len(outcome.placements), len(outcome.pending)
    passed = f"{outcome.virtual_seconds:g} virtual seconds"
    console.print(f"{placed} pods placed, {waiting} waiting, after {passed}")
    nodes = Counter(placement["node"] for placement in outcome.placements)
    table = Table("node", "pods", "which")
    for node, count in sorted(nodes.items()):
        names = [p["pod"] for p in outcome.placements if p["node"] == node]
        shown = ", ".join(names[:6]) + (f" and {count - 6} more" if count > 6 else "")
        table.add_row(node, str(count), shown)
    console.print(table)
    if outcome.pending:
        why = Table("waiting", "because")
        for pod in outcome.pending:
            why.add_row(pod["pod"], pod["reason"])
        console.print(why)
