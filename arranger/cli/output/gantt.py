"""Draws a timeline as an SVG: each node's pods as bars, and how many waited meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from arranger.api.printable import printable
from arranger.cli.output.timeline_table import clock
from arranger.cli.simulation.stays import Stay, stays, waiting_over_time
from arranger.cli.simulation.timeline import Happening

#: Distinguishable by colour-blind people (Okabe and Ito), light enough for black letters.
_COLOURS: Final = ("#56b4e9", "#e69f00", "#4cc3a0", "#f0e442", "#e0a0c4", "#e8875a", "#a8b8d8")
_WIDTH, _LEFT, _RIGHT, _TOP = 1000, 150, 20, 34
_LANE, _GAP, _COUNTS = 14, 8, 110
#: Bars and lanes of a node that are drawn; a picture of more says nothing.
_MOST_BARS, _MOST_LANES, _MOST_NODES = 5_000, 40, 200
_TICKS: Final = 8


def draw_timeline(happenings: Sequence[Happening], seconds: float) -> str:
    """The SVG document; equal timelines give equal text."""
    found = stays(happenings)
    end = max(seconds, *(stay.ended or 0.0 for stay in found), 1.0) if found else 1.0
    bars = [stay for stay in found if stay.bound is not None]
    owners = {owner: n for n, owner in enumerate(dict.fromkeys(stay.owner for stay in bars))}
    scale = (_WIDTH - _LEFT - _RIGHT) / end
    parts, y = [], _TOP
    by_node: dict[str, list[Stay]] = {}
    for stay in bars[:_MOST_BARS]:
        by_node.setdefault(stay.node, []).append(stay)
    for node, here in sorted(by_node.items())[:_MOST_NODES]:
        lanes = _lanes(here, end)
        count = min(_MOST_LANES, 1 + max(lanes.values()))
        parts.append(_text(_LEFT - 8, y + 11, _short(node, 20), anchor="end"))
        parts += [
            _bar(stay, y + lane * _LANE, end, scale, owners[stay.owner])
            for stay in here
            if (lane := lanes[id(stay)]) < count
        ]
        y += count * _LANE + _GAP
    grid = list(_grid(end, scale, y))
    parts += _counts(found, end, scale, y + 16)
    height = y + _COUNTS + 46
    left_out = len(bars) - _MOST_BARS
    if left_out > 0 or len(by_node) > _MOST_NODES:
        parts.append(_text(_LEFT, height - 6, f"{max(0, left_out)} bars and some nodes left out"))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="11" role="img">'
    )
    title = "<title>pods on nodes, and pods that wait, over time</title>"
    ground = f'<rect width="{_WIDTH}" height="{height}" fill="white"/>'
    return "\n".join([head, title, ground, *grid, *parts, "</svg>", ""])


def _lanes(here: Sequence[Stay], end: float) -> Mapping[int, int]:
    """A lane for each bar, so that none covers another."""
    free: list[float] = []
    lanes: dict[int, int] = {}
    for stay in sorted(here, key=lambda s: (s.bound or 0.0, s.pod)):
        start = stay.bound or 0.0
        lane = next((n for n, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [_end_of(stay, end)]
        lanes[id(stay)] = lane
    return lanes


def _end_of(stay: Stay, end: float) -> float:
    return end if stay.ended is None else stay.ended


def _bar(stay: Stay, y: float, end: float, scale: float, colour: int) -> str:
    start = stay.bound or 0.0
    x, width = _LEFT + start * scale, max(1.0, (_end_of(stay, end) - start) * scale)
    edge = "#b00020" if stay.outcome in ("Evicted", "Failed") else "#555"
    until = f"until {clock(stay.ended)}, {stay.outcome}" if stay.ended is not None else "to the end"
    waited = f"waited {start - stay.created:.0f}s"
    told = f"{stay.pod} on {stay.node}: {waited}, from {clock(start)} {until}"
    label = _short(stay.pod.partition("/")[2], int(width / 6.2))
    shown = _text(x + 3, y + 10, label) if len(label) > 2 else ""
    return (
        f'<g><title>{escape(printable(told))}</title><rect x="{x:.1f}" y="{y:g}" '
        f'width="{width:.1f}" height="{_LANE - 2}" fill="{_COLOURS[colour % len(_COLOURS)]}" '
        f'stroke="{edge}" stroke-width="0.7"/>{shown}</g>'
    )


def _grid(end: float, scale: float, bottom: float) -> Iterator[str]:
    for n in range(_TICKS + 1):
        at = end * n / _TICKS
        x = _LEFT + at * scale
        yield f'<path d="M{x:.1f} {_TOP - 8}V{bottom + _COUNTS + 16:g}" stroke="#ddd"/>'
        yield _text(x, _TOP - 14, clock(at), anchor="end" if n == _TICKS else "middle")


def _counts(found: Sequence[Stay], end: float, scale: float, top: float) -> Iterator[str]:
    """Two lines: pods that wait, and pods that have a node."""
    steps = waiting_over_time(found)
    most = max([1, *(max(waiting, placed) for _, waiting, placed in steps)])
    yield _text(_LEFT - 8, top + 8, str(most), anchor="end")
    yield _text(_LEFT - 8, top + _COUNTS, "0", anchor="end")
    names = (("pods that wait", "#d55e00"), ("pods on nodes", "#0072b2"))
    for n, (name, colour) in enumerate(names):
        path, height = f"M{_LEFT} {top + _COUNTS:g}", top + _COUNTS
        for at, *both in steps:
            height = top + _COUNTS * (1 - both[n] / most)
            path += f"H{_LEFT + at * scale:.1f}V{height:.1f}"
        path += f"H{_LEFT + end * scale:.1f}"
        yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        yield _text(_LEFT + n * 130, top + _COUNTS + 18, name, colour=colour)


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: max(0, most - 1)]}…"


def _text(x: float, y: float, content: str, *, anchor: str = "start", colour: str = "#111") -> str:
    shown = escape(printable(content))
    return f'<text x="{x:.1f}" y="{y:g}" text-anchor="{anchor}" fill="{colour}">{shown}</text>'
