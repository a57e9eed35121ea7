"""How many writes may be in flight: more while it goes well, half when the server labours.

Of these one namespace has a part, so that writes of it that hang keep nobody else's waiting.
"""

from __future__ import annotations

from typing import Final

from arranger.kube.in_flight import InFlight

INITIAL_LIMIT: Final = 32.0
MIN_LIMIT: Final = 4.0
MAX_LIMIT: Final = 128.0
#: Seconds in which failures count as one: the writes already in flight fail together.
COOL_DOWN: Final = 1.0


class AimdLimiter:
    """Additive increase, multiplicative decrease: :data:`MIN_LIMIT` to :data:`MAX_LIMIT`.

    Writes that are slow count for their namespace only, and not against the limit.

    Attributes:
        in_flight: writes that have started and not ended.
    """

    def __init__(self) -> None:
        self.in_flight = InFlight()
        self._value = INITIAL_LIMIT
        self._decreased_at = float("-inf")
        #: Whether something had to wait, the last time that anything was asked for.
        self._is_reached = False

    @property
    def value(self) -> int:
        """Writes that may be in flight now."""
        return int(self._value)

    @property
    def is_full(self) -> bool:
        """Whether no further write may start now, of whatever namespace."""
        return self.in_flight.fresh >= int(self._value)

    def may_start(self, namespace: str) -> bool:
        """Whether a write of a namespace may start now."""
        allowed = self.in_flight.may_begin(namespace, int(self._value), int(MAX_LIMIT))
        self._is_reached = not allowed
        return allowed

    def on_success(self) -> None:
        """An answer came. While something has to wait, the limit grows by one for as many."""
        if self._is_reached:
            self._value = min(MAX_LIMIT, self._value + 1.0 / self._value)

    def on_congestion(self, now: float) -> None:
        """A 429, a 5xx or no answer in time."""
        if now - self._decreased_at >= COOL_DOWN:
            self._decreased_at = now
            self._value = max(MIN_LIMIT, self._value / 2.0)
