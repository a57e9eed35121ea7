"""What ``arranger simulate`` and ``arranger demo`` print on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Column, Table

from arranger.api.listing import first_names
from arranger.cli.output.screen import Screen, text
from arranger.cli.output.timeline_table import timeline_lines, timeline_table
from arranger.cli.simulation.result import SimulationResult, count_pods
from arranger.framework.diagnosis import filters_part


class LiveProgress:
    """What happens, a line each; below them on a terminal how far it is, redrawn.

    Args:
        introductions: what there will be to see: a name, and what it is about.
    """

    def __init__(self, introductions: Iterable[tuple[str, str]] = ()) -> None:
        self._screen = Screen()
        self._introductions = introductions
        self._live = Live(console=self._screen, auto_refresh=False, transient=True)
        self._told = 0

    def __enter__(self) -> LiveProgress:
        if self._screen.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def serving(self, url: str, kubeconfig: Path) -> None:
        """What there will be to see; where the cluster is, and how to look at it."""
        table = Table.grid(padding=(0, 2))
        for each in self._introductions:
            table.add_row(*each)
        if table.row_count:
            self._screen.print(table)
        self._screen.print(f"embedded cluster at {url}")
        self._screen.print(f"kubectl --kubeconfig {kubeconfig} get pods -A", soft_wrap=True)
        self._screen.print(f"arranger ui --kubeconfig {kubeconfig}", soft_wrap=True)

    def show(self, outcome: SimulationResult) -> None:
        """What has happened since the last time, and how far it is."""
        for told in timeline_lines(outcome.timeline[self._told :]):
            self._screen.print(told, soft_wrap=True)
        self._told = len(outcome.timeline)
        if self._screen.is_terminal:
            phases = Counter(placement["phase"] for placement in outcome.placements)
            counts = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
            line = f"{counts or 'nothing placed yet'}; {len(outcome.pending)} waiting"
            self._live.update(text(line), refresh=True)


def print_result(
    outcome: SimulationResult, *, clock: str = "virtual seconds", timeline: bool = False
) -> None:
    """Where every pod went, and why the rest waits; on request what happened before."""
    screen = Screen()
    placed, waiting = count_pods(len(outcome.placements)), len(outcome.pending)
    ended = sum(_has_ended(each) for each in outcome.placements)
    passed = f"{outcome.virtual_seconds:.0f} {clock}"
    if timeline:
        happened, left_out = timeline_table(outcome.timeline)
        screen.print(happened)
        if left_out:
            screen.print(f"{left_out} more lines: -o json has all, --html a page")
    gone = f", {outcome.gone} come and gone" if outcome.gone else ""
    done = f" ({ended} ended)" if ended else ""
    screen.print(f"{placed} placed{done}, {waiting} waiting{gone}, after {passed}")
    for what in outcome.ignored:
        screen.print(f"ignored: {what}", soft_wrap=True)
    for what in outcome.not_made:
        screen.print(f"without pods: {what}", soft_wrap=True)
    for what in outcome.failed:
        screen.print(f"failed: {what}", soft_wrap=True)
    nodes = Counter(placement["node"] for placement in outcome.placements)
    table = Table("node", "pods", Column("which", overflow="fold"))
    for node, count in sorted(nodes.items()):
        here = [p for p in outcome.placements if p["node"] == node]
        names = [p["pod"] for p in here if not _has_ended(p)]
        over = len(here) - len(names)
        others = [f"{over} that {'has' if over == 1 else 'have'} ended"] if over else []
        told = ", ".join([*([first_names(names, 6)] if names else []), *others])
        table.add_row(node, str(count), told)
    if nodes:
        screen.print(table)
    if outcome.stages:
        jobs = Table("TYJob", "stage")
        for job, stage in sorted(outcome.stages.items()):
            jobs.add_row(job, stage)
        screen.print(jobs)
    if outcome.evictions:
        evictions = Table(Column("evicted", overflow="fold"), Column("why", overflow="fold"))
        for eviction in outcome.evictions:
            evictions.add_row(eviction["pod"], eviction["note"])
        screen.print(evictions)
    if outcome.pending:
        pending = Table(Column("waiting", overflow="fold"), Column("because", overflow="fold"))
        for pod in outcome.pending:
            pending.add_row(pod["pod"], filters_part(pod["reason"]))
        screen.print(pending)
    if outcome.end is not None:
        screen.print(outcome.end, soft_wrap=True)


def _has_ended(placement: Mapping[str, Any]) -> bool:
    return placement["phase"] in ("Succeeded", "Failed")
