"""When to look at the books after something has been put right."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from arranger.engine.faults.fault_notes import FaultNotes

#: Seconds between two checks, for each second that one takes.
_CHECK_SHARE: Final = 20.0


@dataclass(slots=True, eq=False)
class BooksCheck:
    """Checks the books; this takes a small part of the time, however many faults there are.

    Args:
        perf_counter: measures, in seconds, what a check costs.
    """

    _notes: FaultNotes
    _perf_counter: Callable[[], float]
    _next: float = field(default=-math.inf, init=False)

    def is_due(self, now: float) -> bool:
        """Whether something has been put right since the books were last looked at."""
        return bool(self._notes.suspects) and now >= self._next

    def check(self, check_consistent: Callable[[], None], now: float) -> None:
        """Look at the books.

        Raises:
            AssertionError: they contradict each other.
        """
        started = self._perf_counter()
        check_consistent()
        self._notes.suspects.clear()
        self._next = now + _CHECK_SHARE * (self._perf_counter() - started)
