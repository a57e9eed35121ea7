"""Draws how clusters filled as an SVG: allocated GPUs and fragmentation against arrived GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from arranger.replay.comparison import Comparison, PolicyResult
from arranger.replay.packing import Sample

#: Distinguishable by colour-blind people (Okabe and Ito); black comes last.
_COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000")
_WIDTH, _HEIGHT, _SIDE = 900, 420, 340
_LEFT, _TOP, _GAP = 60, 40, 90
#: Title, and the field of a sample.
_PANELS: Final = (
    ("allocated GPUs, % of all", "allocated"),
    ("fragmentation, % of free GPUs", "fragmentation"),
)


def draw_svg(comparison: Comparison) -> str:
    """The SVG document; equal comparisons give equal text."""
    runs = comparison.results
    last = max(sample.arrived for run in runs for sample in run.packing.samples)
    end = max(20, 20 * math.ceil(last / 20))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT + 60}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT + 60}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT + 60}" fill="white"/>',
    ]
    for n, (title, field) in enumerate(_PANELS):
        left = _LEFT + n * (_SIDE + _GAP)
        parts.append(f'<g transform="translate({left} {_TOP})">')
        parts += _axes(title, end)
        for m, run in enumerate(runs):
            # The first is the widest, so that lines which lie on it do not hide it.
            width = len(runs) - m + 0.5
            parts.append(_line(run.packing.samples, field, end, _colour(m), width))
        parts.append("</g>")
    parts += _legend(runs)
    notes = " ".join(comparison.footnotes()[:2])
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT + 45}" fill="#555">{escape(notes)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _axes(title: str, end: int) -> Iterator[str]:
    """A frame with a grid; the origin is its top left corner."""
    middle = _SIDE / 2
    yield f'<text x="{middle:g}" y="-12" text-anchor="middle">{escape(title)}</text>'
    for percent in range(0, 101, 20):
        y = _SIDE * (1 - percent / 100)
        yield f'<path d="M0 {y:g}H{_SIDE}" stroke="#ddd"/>'
        yield f'<text x="-8" y="{y + 4:g}" text-anchor="end">{percent}</text>'
    # However much pods ask for, the lines stay apart.
    for percent in range(0, end + 1, 20 * math.ceil(end / 400)):
        x = _SIDE * percent / end
        yield f'<path d="M{x:g} 0V{_SIDE}" stroke="#ddd"/>'
        yield f'<text x="{x:g}" y="{_SIDE + 16}" text-anchor="middle">{percent}</text>'
    yield (
        f'<text x="{middle:g}" y="{_SIDE + 34}" text-anchor="middle">'
        "GPUs that arrived pods ask for, % of all</text>"
    )


def _line(samples: Sequence[Sample], field: str, end: int, colour: str, width: float) -> str:
    points = " ".join(
        f"{_SIDE * sample.arrived / end:.2f},{_SIDE * (1 - getattr(sample, field) / 100):.2f}"
        for sample in samples
    )
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'


def _legend(runs: Sequence[PolicyResult]) -> Iterator[str]:
    for n, run in enumerate(runs):
        x, y = _LEFT + n * 150, _HEIGHT + 18
        yield f'<path d="M{x} {y}h24" stroke="{_colour(n)}" stroke-width="3"/>'
        yield f'<text x="{x + 30}" y="{y + 4}">{escape(run.policy)}</text>'


def _colour(n: int) -> str:
    return _COLOURS[n % len(_COLOURS)]
