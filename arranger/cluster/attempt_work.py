"""What one attempt may spend on work that can be put off to the next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager


class UnfinishedError(Exception):
    """It is not known yet: more is to be looked at than one attempt may. What has been found out is
    kept, and the next attempt goes on from there."""


class AskAgainError(Exception):
    """A plugin has not come to an end within what one attempt may cost: this attempt fails, without
    any object being at fault, and a later one goes on from there."""


class AttemptWork:
    """The units that are left, each about a microsecond; without limit outside of :meth:`at_most`.

    They are counted, not measured, so that every machine does the same.
    """

    __slots__ = ("_left", "_spent")

    def __init__(self) -> None:
        self._left: float = math.inf
        #: Since the beginning, or within :meth:`uninterrupted`.
        self._spent = 0

    @contextmanager
    def at_most(self, units: int) -> Iterator[None]:
        """Inside there are so many."""
        self.limit(units)
        try:
            yield
        finally:
            self.lift()

    def limit(self, units: int) -> None:
        """There are so many from now on, until :meth:`lift`."""
        self._left = units

    def lift(self) -> None:
        """There is no limit any more."""
        self._left = math.inf

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Inside there is no limit, for what is done at once."""
        left, self._left = self._left, math.inf
        try:
            yield
        finally:
            self._left = left

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Inside nothing ends for want of units, and what it takes is counted at the end."""
        left, self._left = self._left, math.inf
        spent, self._spent = self._spent, 0
        try:
            yield
        finally:
            self._left, self._spent = left - self._spent, spent + self._spent

    def count(self, units: int) -> None:
        """So many units have been spent."""
        self._left -= units
        self._spent += units

    @property
    def spent(self) -> int:
        """How many units have been spent since the beginning, outside of :meth:`uninterrupted`."""
        return self._spent

    @property
    def is_limited(self) -> bool:
        """Whether what is put off is gone on with in a later step."""
        return self._left < math.inf

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self._left <= 0

    def check(self) -> None:
        """Go no further if nothing is left.

        Raises:
            UnfinishedError: there are no units left.
        """
        if self.is_spent:
            raise UnfinishedError
