"""Draws measured costs as curves: lines over logarithmic axes, as an SVG.

Equal measurements give equal text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

#: Distinguishable by colour-blind people (Okabe and Ito).
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
_WIDTH, _HEIGHT = 560, 300
_LEFT, _TOP, _RIGHT, _BOTTOM = 64, 36, 130, 48

#: (x, y) in the order of x; all above 0.
Points = Sequence[tuple[float, float]]


def draw_curves(title: str, x_title: str, y_title: str, curves: Mapping[str, Points]) -> str:
    """The SVG document.

    Args:
        curves: name → its points; there is at least one.
    """
    every = [point for points in curves.values() for point in points]
    x_low, x_high = min(x for x, _ in every), max(x for x, _ in every)
    y_low, y_high = _decade(min(y for _, y in every), -1), _decade(max(y for _, y in every), 1)

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / x_low) / max(math.log(x_high / x_low), 1e-9)
        up = math.log(y / y_low) / math.log(y_high / y_low)
        return round(_WIDTH * across, 1), round(_HEIGHT * (1 - up), 1)

    whole_width, whole_height = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole_width}" height="{whole_height}" '
        f'viewBox="0 0 {whole_width} {whole_height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{whole_width}" height="{whole_height}" fill="white"/>',
        f'<g transform="translate({_LEFT} {_TOP})">',
        f'<text x="{_WIDTH / 2:g}" y="-14" text-anchor="middle">{escape(title)}</text>',
        f'<text x="{_WIDTH / 2:g}" y="{_HEIGHT + 38}" text-anchor="middle">'
        f"{escape(x_title)}</text>",
        f'<text transform="translate(-46 {_HEIGHT / 2:g}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_title)}</text>",
    ]
    for x in sorted({x for x, _ in every}):
        at, _ = place(x, y_low)
        parts.append(f'<path d="M{at:g} 0V{_HEIGHT}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{at:g}" y="{_HEIGHT + 18}" text-anchor="middle">{_number(x)}</text>'
        )
    for y in _ticks(y_low, y_high):
        _, at = place(x_low, y)
        parts.append(f'<path d="M0 {at:g}H{_WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="-8" y="{at + 4:g}" text-anchor="end">{_number(y)}</text>')
    for n, (name, points) in enumerate(curves.items()):
        colour = _COLOURS[n % len(_COLOURS)]
        places = [place(x, y) for x, y in points]
        line = " ".join(f"{x:g},{y:g}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:g}" cy="{y:g}" r="3" fill="{colour}"/>' for x, y in places]
        x, y = places[-1]
        parts.append(f'<text x="{x + 8:g}" y="{y + 4:g}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _decade(value: float, direction: int) -> float:
    """The next 1, 2 or 5 times a power of ten, downwards or upwards."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = [power * n for n in (1, 2, 5, 10)]
    if direction < 0:
        return max(step for step in steps if step <= value)
    return min(step for step in steps if step >= value)


def _ticks(low: float, high: float) -> Iterator[float]:
    tick = low
    while tick < high * 1.001:
        yield tick
        tick = _decade(tick * 1.001, 1)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
