"""Amounts of resources as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: (percent in use, what that is called) from there on.
_LEVELS: Final = ((100, "full"), (80, "high"), (1, "some"), (0, "none"))
_UNITS: Final = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def shown(resource: str, amount: int) -> str:
    """An amount without the name of its resource, ``1.5`` cores or ``64 GiB``."""
    if resource == "cpu":
        return f"{amount / 1000:,.4g}" if amount < 10_000_000 else f"{amount // 1000:,}"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for unit, size in _UNITS:
            if abs(amount) >= size:
                return f"{amount / size:,.3g} {unit}" if amount < 1000 * size else _large(amount)
    return f"{amount:,}"


def _large(amount: int) -> str:
    unit, size = _UNITS[0]
    return f"{amount / size:,.0f} {unit}" if amount >= 1000 * size else f"{amount / 2**30:,.0f} GiB"


def several(amounts: Mapping[str, int]) -> str:
    """Amounts with the names of their resources, those that are none left out."""
    return ", ".join(f"{shown(name, n)} {name}" for name, n in sorted(amounts.items()) if n)


@dataclass(frozen=True, slots=True)
class Share:
    """How much of something is in use.

    Attributes:
        name: of the resource or card.
        used, total: the total is None where there is no limit.
    """

    name: str
    used: int
    total: int | None

    @property
    def percent(self) -> int:
        """In use of the whole, rounded down, 100 of nothing that is in use nevertheless."""
        if self.total is None:
            return 0
        return 100 * self.used // self.total if self.total else 100 * bool(self.used)

    @property
    def width(self) -> int:
        """As :attr:`percent`, at most 100: for bars."""
        return max(0, min(100, self.percent))

    @property
    def level(self) -> str:
        """``none``, ``some``, ``high`` or ``full``."""
        if self.total is None:
            return "some" if self.used else "none"
        return next((name for least, name in _LEVELS if self.percent >= least), "none")

    @property
    def text(self) -> str:
        """Both amounts."""
        used = shown(self.name, self.used)
        return used if self.total is None else f"{used} of {shown(self.name, self.total)}"
