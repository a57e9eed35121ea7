"""How many writes may be in flight: more while it goes well, half when the server labours."""

from __future__ import annotations

from typing import Final

INITIAL_LIMIT: Final = 32.0
MIN_LIMIT: Final = 4.0
MAX_LIMIT: Final = 128.0
#: Seconds in which failures count as one: the writes already in flight fail together.
COOL_DOWN: Final = 1.0


class AimdLimiter:
    """Additive increase, multiplicative decrease: :data:`MIN_LIMIT` to :data:`MAX_LIMIT`.

    Attributes:
        in_flight: writes that have started and not ended.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self._value = INITIAL_LIMIT
        self._decreased_at = float("-inf")

    @property
    def value(self) -> int:
        """Writes that may be in flight now."""
        return int(self._value)

    @property
    def is_full(self) -> bool:
        """Whether no further write may start now."""
        return self.in_flight >= int(self._value)

    def acquire(self) -> None:
        """A write starts."""
        self.in_flight += 1

    def release(self) -> None:
        """A write has ended."""
        self.in_flight -= 1

    def on_success(self) -> None:
        """An answer came. When the limit is reached, it grows by one for as many answers."""
        if self.is_full:
            self._value = min(MAX_LIMIT, self._value + 1.0 / self._value)

    def on_congestion(self, now: float) -> None:
        """A 429, a 5xx or no answer in time."""
        if now - self._decreased_at >= COOL_DOWN:
            self._decreased_at = now
            self._value = max(MIN_LIMIT, self._value / 2.0)
