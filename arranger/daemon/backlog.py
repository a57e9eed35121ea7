"""What has been decided and is not settled yet: what keeps others from being decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Carrier(Protocol):
    """Carries effects out."""

    @property
    def pressure(self) -> int:
        """How many are not settled; of namespaces whose effects are held up only a few count."""

    def next_slow(self) -> float | None:
        """When fewer count, if nothing is answered."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """That of all who carry effects out."""

    carriers: Sequence[Carrier]

    @property
    def pressure(self) -> int:
        """The sum of theirs."""
        return sum(carrier.pressure for carrier in self.carriers)

    def next_slow(self) -> float | None:
        """When fewer count, if nothing is answered."""
        times = (carrier.next_slow() for carrier in self.carriers)
        return min((due for due in times if due is not None), default=None)
