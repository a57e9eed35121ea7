"""What ``arranger simulate`` and ``arranger demo`` print on a terminal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Column, Table

from arranger.api.listing import first_names
from arranger.cli.simulation.result import SimulationResult
from arranger.framework.diagnosis import filters_part


class LiveProgress:
    """One line of progress, redrawn on a terminal; elsewhere printed whenever it changes."""

    def __init__(self) -> None:
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._last = ""

    def __enter__(self) -> LiveProgress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def serving(self, url: str, kubeconfig: Path) -> None:
        """Where the cluster is, and how to look at it."""
        self._console.print(f"embedded cluster at {url}")
        self._console.print(f"kubectl --kubeconfig {kubeconfig} get pods -A", soft_wrap=True)

    def show(self, outcome: SimulationResult) -> None:
        """What has happened so far."""
        phases = Counter(placement["phase"] for placement in outcome.placements)
        counts = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
        line = f"{counts or 'nothing placed yet'}; {len(outcome.pending)} waiting"
        for job, stage in outcome.stages.items():
            line += f"; TYJob {job} {stage}"
        if self._console.is_terminal:
            self._live.update(line, refresh=True)
        elif line != self._last:
            self._console.print(line)
        self._last = line


def print_result(outcome: SimulationResult, *, clock: str = "virtual seconds") -> None:
    """Where every pod went, and why the rest waits."""
    console = Console()
    placed, waiting = len(outcome.placements), len(outcome.pending)
    passed = f"{outcome.virtual_seconds:.0f} {clock}"
    console.print(f"{placed} pods placed, {waiting} waiting, after {passed}")
    for what in outcome.ignored:
        console.print(f"ignored: {escape(what)}", soft_wrap=True)
    for what in outcome.not_made:
        console.print(f"without pods: {escape(what)}", soft_wrap=True)
    nodes = Counter(placement["node"] for placement in outcome.placements)
    table = Table("node", "pods", Column("which", overflow="fold"))
    for node, count in sorted(nodes.items()):
        names = [p["pod"] for p in outcome.placements if p["node"] == node]
        table.add_row(node, str(count), first_names(names, 6))
    console.print(table)
    if outcome.stages:
        jobs = Table("TYJob", "stage")
        for job, stage in sorted(outcome.stages.items()):
            jobs.add_row(job, stage)
        console.print(jobs)
    if outcome.evictions:
        evictions = Table(Column("evicted", overflow="fold"), Column("why", overflow="fold"))
        for eviction in outcome.evictions:
            evictions.add_row(eviction["pod"], eviction["note"])
        console.print(evictions)
    if outcome.pending:
        pending = Table(Column("waiting", overflow="fold"), Column("because", overflow="fold"))
        for pod in outcome.pending:
            pending.add_row(pod["pod"], escape(filters_part(pod["reason"])))
        console.print(pending)
    if outcome.end is not None:
        console.print(escape(outcome.end), soft_wrap=True)
