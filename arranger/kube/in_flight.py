"""Requests under way, and those that have been for long, by namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

#: Seconds after which a request counts as slow: a webhook holds it, say, and not the server.
SLOW_AFTER: Final = 1.0
#: A namespace may have so many times as many requests under way as may be begun yet: alone three
#: quarters of the limit; two, three sevenths each. Dynamic thresholds, as in switches that share
#: their buffers (Choudhury and Hahne, 1998).
SHARE_OF_FREE: Final = 3
#: Requests of one namespace, that failed and wait or that are slow, that keep others from being
#: decided: what cannot be written for one tenant may not be written for as long as that lasts.
_COUNTED: Final = 32


@dataclass(slots=True, eq=False)
class InFlight:
    """Requests, or anything made of them, that have begun and not ended.

    A namespace has a part of those that may be under way, so that what of it hangs keeps nothing of
    others waiting; what is slow counts for its namespace only. It is told as of the last
    :meth:`note_slow`.
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

    def may_begin(self, namespace: str, limit: int, most: int) -> bool:
        """Whether a namespace may begin one: ``limit`` that are not slow, and ``most`` in all."""
        free = min(limit - self.fresh, most - len(self))
        return self._all_of[namespace] < SHARE_OF_FREE * free

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
            if now < since + SLOW_AFTER:
                return
            del self._begun[number]
            self._slow[number] = namespace
            self._slow_of[namespace] += 1

    def next_slow(self) -> float | None:
        """When the next one will count as slow."""
        first = next(iter(self._begun.values()), None)
        return None if first is None else first[0] + SLOW_AFTER


def beyond_counted(of_namespaces: Iterable[int]) -> int:
    """Of so many requests of namespaces that are held up, how many do not count."""
    return sum(max(0, count - _COUNTED) for count in of_namespaces)


def _subtract(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
