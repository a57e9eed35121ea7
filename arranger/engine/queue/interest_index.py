"""Finds those to whom events of a type matter without asking all others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from operator import itemgetter

from arranger.engine.context.entity import QueuedEntity
from arranger.engine.queue.hints import HelpQuestion, rejected_alike


@dataclass(slots=True, eq=False)
class InterestIndex:
    """Keys of entities, or of wake-up groups of them, by what rejected these."""

    #: What rejected them → key → its number in the order of coming.
    _alike: dict[Hashable, dict[Hashable, int]] = field(default_factory=dict)
    _filed_under: dict[Hashable, Hashable] = field(default_factory=dict)
    #: The number of the last that came.
    last: int = 0

    def __bool__(self) -> bool:
        return bool(self._alike)

    def add(self, key: Hashable, entity: QueuedEntity) -> None:
        """Something is rejected as ``entity`` is."""
        alike = self._filed_under[key] = rejected_alike(entity)
        self.last += 1
        self._alike.setdefault(alike, {})[key] = self.last

    def remove(self, key: Hashable) -> None:
        """It is not rejected any more."""
        alike = self._filed_under.pop(key)
        del self._alike[alike][key]
        if not self._alike[alike]:
            del self._alike[alike]

    def __len__(self) -> int:
        return len(self._filed_under)

    def concerns_any(
        self, question: HelpQuestion, entity_of: Callable[[Hashable], QueuedEntity]
    ) -> bool:
        """Whether such an event matters to any of them."""
        return any(
            question.is_asked_by(entity_of(next(iter(keys))), alike)
            for alike, keys in self._alike.items()
        )

    def asking(
        self,
        question: HelpQuestion,
        entity_of: Callable[[Hashable], QueuedEntity],
        until: int = sys.maxsize,
    ) -> list[Hashable]:
        """Those to whom such an event matters, in the order in which they came.

        ``until`` is the number of the last of them (:attr:`last`, when the event happened).
        """
        found = [
            keys
            for alike, keys in self._alike.items()
            if question.is_asked_by(entity_of(next(iter(keys))), alike)
        ]
        numbered = [(n, key) for keys in found for key, n in keys.items() if n <= until]
        if len(found) > 1:
            numbered.sort(key=itemgetter(0))
        return [key for _, key in numbered]

    def check_consistent(self, keys: set[Hashable]) -> None:
        """Check that these and no others are in it.

        Raises:
            AssertionError: others are.
        """
        assert self._filed_under.keys() == keys, "rejected, and filed under what rejected it"
        filed = {(key, alike) for alike, filed in self._alike.items() for key in filed}
        assert filed == set(self._filed_under.items()), "keys by what rejected them"
