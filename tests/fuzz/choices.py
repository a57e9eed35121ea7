"""Bytes as a row of choices: whatever a fuzzer changes in them, they say something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Reads choices from bytes; where they end, the first of each is taken."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return max(0, len(self._data) - self._at)

    def below(self, end: int) -> int:
        """A number from 0 on."""
        number = self._byte()
        if end > 256:
            number = 256 * number + self._byte()
        return number % end

    def one_of(self, options: Sequence[T]) -> T:
        """One of some."""
        return options[self.below(len(options))]

    def rarely(self, times: int) -> bool:
        """True about once in so many times, and never where the bytes have ended."""
        return self.below(times) == times - 1

    def text(self) -> str:
        """A few characters of any kind."""
        end = self._at + self.below(24)
        raw, self._at = self._data[self._at : end], end
        return raw.decode("utf-8", "replace")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0
