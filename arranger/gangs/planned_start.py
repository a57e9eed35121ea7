"""When a gang is planned to start, as its object and its pods say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

#: Times beyond this are not shown as a time of day, but with their date.
_DAY: Final = 86_400.0
#: What a start follows from that is a promise.
KNOWN_ENDS: Final = "KnownEnds"


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """When a gang starts by the plan.

    Attributes:
        at: in seconds since 1970.
        known: whether it follows from known ends alone, and is a promise by that.
        waits_for: what has to end before, in words for its own namespaces.
    """

    at: float
    known: bool
    waits_for: str = ""

    @property
    def basis(self) -> str:
        """``KnownEnds`` or ``Estimate``."""
        return KNOWN_ENDS if self.known else "Estimate"

    def text(self, now: float) -> str:
        """Such as ``starts by 14:20 UTC (known ends)``, to the next full minute."""
        minute = datetime.fromtimestamp(math.ceil(self.at / 60) * 60, UTC)
        shown = minute.strftime("%H:%M UTC" if self.at - now < _DAY else "%Y-%m-%d %H:%M UTC")
        when = f"by {shown} (known ends)" if self.known else f"about {shown} (estimate)"
        return f"starts {when}" + (f", after {self.waits_for}" if self.waits_for else "")
