"""How many writes may be in flight: more while it goes well, half when the server labours."""

from __future__ import annotations

from typing import Final

START: Final = 32.0
FLOOR: Final = 4.0
CEILING: Final = 128.0
#: Seconds in which failures count as one: the writes already in flight fail together.
COOL_DOWN: Final = 1.0


class AdaptiveLimit:
    """Additive increase, multiplicative decrease, between :data:`FLOOR` and :data:`CEILING`."""

    def __init__(self) -> None:
        self._value = START
        self._last_cut = float("-inf")

    @property
    def value(self) -> int:
        """Writes that may be in flight now."""
        return int(self._value)

    def succeeded(self, in_flight: int) -> None:
        """One answer came. The limit grows by one a round, and only when it is what limits us."""
        if in_flight >= int(self._value):
            self._value = min(CEILING, self._value + 1.0 / self._value)

    def congested(self, now: float) -> None:
        """A 429, a 5xx or no answer in time."""
        if now - self._last_cut >= COOL_DOWN:
            self._last_cut = now
            self._value = max(FLOOR, self._value / 2.0)
