"""Requests under way, and those that have been for long, by namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

#: Seconds after which a request counts as slow: a webhook holds it, say, and not the server.
SLOW_AFTER: Final = 1.0
#: Requests of one namespace, that failed and wait or that are slow, that keep others from being
#: decided: what cannot be written for one tenant may not be written for as long as that lasts.
COUNTED: Final = 32


@dataclass(slots=True, eq=False)
class InFlight:
    """Requests that have begun and not ended.

    What is slow is told as of the last :meth:`note_slow`.
    """

    _begun: dict[int, tuple[float, str]] = field(default_factory=dict)
    _slow: dict[int, str] = field(default_factory=dict)
    _all_of: Counter[str] = field(default_factory=Counter)
    _slow_of: Counter[str] = field(default_factory=Counter)
    _last: int = 0

    def __len__(self) -> int:
        return len(self._begun) + len(self._slow)

    @property
    def fresh(self) -> int:
        """How many are not slow."""
        return len(self._begun)

    @property
    def slow_namespaces(self) -> Collection[str]:
        """The namespaces that have slow ones."""
        return self._slow_of.keys()

    def of(self, namespace: str) -> int:
        """How many a namespace has."""
        return self._all_of[namespace]

    def begin(self, namespace: str, now: float) -> int:
        """One begins; returns its number."""
        self._last += 1
        self._begun[self._last] = now, namespace
        self._all_of[namespace] += 1
        return self._last

    def end(self, number: int) -> None:
        """One has ended."""
        if number in self._slow:
            namespace = self._slow.pop(number)
            _subtract(self._slow_of, namespace)
        else:
            _, namespace = self._begun.pop(number)
        _subtract(self._all_of, namespace)

    def note_slow(self, now: float) -> None:
        """Count as slow what has been under way for :data:`SLOW_AFTER`."""
        while self._begun:
            number, (since, namespace) = next(iter(self._begun.items()))
            if now - since < SLOW_AFTER:
                return
            del self._begun[number]
            self._slow[number] = namespace
            self._slow_of[namespace] += 1

    def next_slow(self) -> float | None:
        """When the next one will count as slow."""
        return next((since + SLOW_AFTER for since, _ in self._begun.values()), None)


def _subtract(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
