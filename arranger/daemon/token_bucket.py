"""Bounds how many lines of a kind the log gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

#: Lines at once, and a second in the long run, of each event.
BURST: Final = 50
RATE: Final = 5.0


@dataclass(slots=True)
class TokenBucket:
    """``burst`` at once, then ``rate`` a second."""

    rate: float = RATE
    burst: int = BURST
    _tokens: float = field(init=False)
    _filled_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._tokens = self.burst

    def take(self, now: float) -> bool:
        """Whether one more may pass."""
        self._tokens = min(self.burst, self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
