"""How many writes may be in flight: more while it goes well, half when the server labours."""

from __future__ import annotations

from typing import Final

INITIAL_LIMIT: Final = 32.0
MIN_LIMIT: Final = 4.0
MAX_LIMIT: Final = 128.0
#: Seconds in which failures count as one: the writes already in flight fail together.
COOL_DOWN: Final = 1.0


class AimdLimiter:
    """Additive increase, multiplicative decrease: :data:`MIN_LIMIT` to :data:`MAX_LIMIT`."""

    def __init__(self) -> None:
        self._value = INITIAL_LIMIT
        self._decreased_at = float("-inf")

    @property
    def value(self) -> int:
        """Writes that may be in flight now."""
        return int(self._value)

    def on_success(self, in_flight: int) -> None:
        """One answer came. The limit grows by one a round, and only when it is what limits us."""
        if in_flight >= int(self._value):
            self._value = min(MAX_LIMIT, self._value + 1.0 / self._value)

    def on_congestion(self, now: float) -> None:
        """A 429, a 5xx or no answer in time."""
        if now - self._decreased_at >= COOL_DOWN:
            self._decreased_at = now
            self._value = max(MIN_LIMIT, self._value / 2.0)
