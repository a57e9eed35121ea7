"""The report of a simulation as one HTML page: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from arranger.api.printable import printable
from arranger.cli.output.gantt import draw_timeline
from arranger.cli.output.timeline_table import clock, moments
from arranger.cli.simulation.result import SimulationResult, count_pods
from arranger.cli.simulation.stays import stays

#: Lines of the list of what happened, and of each other table.
_MOST_LINES: Final = 2_000
_STYLE: Final = """
:root{color-scheme:light dark}
body{font:15px/1.45 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%;margin:.5rem 0 2rem}
th,td{text-align:left;vertical-align:top;padding:.25rem .6rem;border-bottom:1px solid #8886}
td{overflow-wrap:anywhere}figure{margin:0;overflow-x:auto}caption{text-align:left;color:#777}
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def html_report(outcome: SimulationResult) -> str:
    """The document; equal results give equal text."""
    placed, waiting = count_pods(len(outcome.placements)), len(outcome.pending)
    passed = clock(outcome.virtual_seconds)
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Simulation</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<style>{_STYLE}</style></head><body><main><h1>Simulation</h1>",
        f"<p>{placed} placed, {waiting} waiting, after {passed} of virtual time.</p>",
        f"<p>{_text(outcome.end)}</p>" if outcome.end else "",
        *(f"<p>ignored: {_text(what)}</p>" for what in outcome.ignored),
        *(f"<p>without pods: {_text(what)}</p>" for what in outcome.not_made),
        *(f"<p>failed: {_text(what)}</p>" for what in outcome.failed),
        "<h2>Pods on nodes</h2>",
        f"<figure>{draw_timeline(outcome.timeline, outcome.virtual_seconds)}</figure>",
    ]
    pending = ((pod["pod"], pod["reason"]) for pod in outcome.pending)
    lines += _table("What waits", ("pod", "because"), pending)
    evicted = ((each["pod"], each["note"]) for each in outcome.evictions)
    lines += _table("What was evicted", ("pod", "why"), evicted)
    lines += _table("Workloads", ("workload", "pods", "waited", "ended"), _workloads(outcome))
    happened = (
        (clock(each.at), each.what, each.told(), each.details())
        for each in moments(outcome.timeline)
    )
    lines += _table("What happened", ("time", "what", "who", "where and why"), happened)
    return "\n".join([*filter(None, lines), "</main></body></html>", ""])


def _workloads(outcome: SimulationResult) -> Iterator[tuple[str, ...]]:
    """For each owner: pods, the longest and the mean wait for a node, and what became of them."""
    by_owner: dict[str, list[tuple[float, str]]] = {}
    for stay in stays(outcome.timeline):
        until = next((t for t in (stay.bound, stay.ended) if t is not None), None)
        wait = (outcome.virtual_seconds if until is None else until) - stay.created
        by_owner.setdefault(stay.owner, []).append((max(0.0, wait), stay.outcome))
    for owner, pods in sorted(by_owner.items()):
        waits = [wait for wait, _ in pods]
        ends = sorted({end for _, end in pods if end})
        told = ", ".join(f"{sum(e == end for _, e in pods)} {end}" for end in ends)
        mean = sum(waits) / len(waits)
        yield owner, str(len(pods)), f"{mean:.0f}s, at most {max(waits):.0f}s", told


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table under a heading; nothing without rows."""
    found = list(rows)
    if not found:
        return
    yield f"<h2>{_text(title)}</h2><table>"
    if len(found) > _MOST_LINES:
        yield f"<caption>the first {_MOST_LINES} of {len(found)}</caption>"
    heads = "".join(f'<th scope="col">{_text(column)}</th>' for column in columns)
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for row in found[:_MOST_LINES]:
        yield f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>"
    yield "</tbody></table>"


def _text(content: object) -> str:
    """What others say, as text."""
    return escape(printable(str(content)))
