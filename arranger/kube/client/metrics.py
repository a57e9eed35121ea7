"""How the client reports numbers, without knowing who collects them."""

from __future__ import annotations

from typing import Final, Protocol


class MetricsRecorder(Protocol):
    """Counts and durations; the daemon maps them to Prometheus metrics."""

    def increment(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        """Add ``amount`` to the counter ``name``."""

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Record one duration."""

    def set_gauge(self, name: str, value: float, /, **labels: str) -> None:
        """Set a level."""


class NullMetricsRecorder:
    """Collects nothing."""

    def increment(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        """Do nothing."""

    observe = set_gauge = increment


NULL_METRICS: Final = NullMetricsRecorder()
