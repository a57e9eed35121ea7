"""Replays a trace of a real cluster on the engine in virtual time, to compare policies."""

from __future__ import annotations

from arranger.replay.comparison import Comparison, PolicyError, compare
from arranger.replay.svg_chart import draw_svg
from arranger.replay.trace import Trace, TraceError, read_trace

__all__ = ["Comparison", "PolicyError", "Trace", "TraceError", "compare", "draw_svg", "read_trace"]
