"""Exponential back-off with jitter; the caller waits, and supplies the random numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Delays of ``first``, twice that, … up to ``limit`` seconds, each spread by ±``jitter``."""

    rng: random.Random
    first: float = 0.8
    limit: float = 30.0
    jitter: float = 0.25
    failures: int = field(default=0, init=False)

    def next_delay(self) -> float:
        """Count one more failure; seconds to wait before the next try."""
        delay = min(self.limit, self.first * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return delay * self.rng.uniform(1.0 - self.jitter, 1.0 + self.jitter)

    def next_delay_unless_first(self) -> float:
        """As :meth:`next_delay`, but the first failure is tried again at once."""
        if self.failures:
            return self.next_delay()
        self.failures = 1
        return 0.0

    def reset(self) -> None:
        """Start again from the first delay, after a success."""
        self.failures = 0
