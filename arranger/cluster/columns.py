"""Growing NumPy columns, and the interning of what does not fit a number.

A column is indexed by a node's row. Texts (label values) and taint lists are interned to small
integers, so that a plugin evaluates each distinct value once and gets all rows by indexing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
IdArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]

H = TypeVar("H", bound=Hashable)

#: The id of "no such value" in a column of interned values.
ABSENT: Final = -1

#: Columns of the resource matrices that every node has; extended resources follow.
CPU: Final = 0
MEMORY: Final = 1
EPHEMERAL_STORAGE: Final = 2
PODS: Final = 3
BASIC_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods")


def exact_sum(amounts: IntArray) -> int:
    """The sum of a column, which may have more than 64 bits."""
    return (int((amounts >> 32).sum()) << 32) + int((amounts & 0xFFFFFFFF).sum())


class Interner(Generic[H]):
    """Distinct values, numbered in order of first sight."""

    def __init__(self) -> None:
        self._ids: dict[H, int] = {}
        self.values: list[H] = []

    def __len__(self) -> int:
        return len(self.values)

    def id(self, value: H) -> int:
        """The number of ``value``, given now if it is new."""
        known = self._ids.get(value)
        if known is None:
            known = self._ids[value] = len(self.values)
            self.values.append(value)
        return known

    def find(self, value: H) -> int:
        """The number of ``value``, or :data:`ABSENT`."""
        return self._ids.get(value, ABSENT)


class LabelColumns:
    """One column of interned values per label key that some plugin has asked for.

    A column is filled when it is first asked for and kept current from then on, so keys that
    nobody selects on cost nothing.
    """

    def __init__(self) -> None:
        self.values: Interner[str] = Interner()
        self._columns: dict[str, IdArray] = {}

    def get(self, key: str) -> IdArray | None:
        """The column of ``key``, if it has been built."""
        return self._columns.get(key)

    def build(self, key: str, labels: list[dict[str, str]], capacity: int) -> IdArray:
        """Build the column of ``key`` from the labels of every row."""
        column = np.full(capacity, ABSENT, dtype=np.int32)
        for row, of_node in enumerate(labels):
            if key in of_node:
                column[row] = self.values.id(of_node[key])
        self._columns[key] = column
        return column

    def set_row(self, row: int, labels: dict[str, str]) -> None:
        """Bring ``row`` of every column up to date."""
        for key, column in self._columns.items():
            column[row] = self.values.id(labels[key]) if key in labels else ABSENT

    def grow(self, capacity: int) -> None:
        """Extend all columns to ``capacity`` rows."""
        for key, column in self._columns.items():
            self._columns[key] = resized(column, capacity, ABSENT)


def resized(column: npt.NDArray[np.generic], capacity: int, fill: int) -> npt.NDArray:  # type: ignore[type-arg]
    """A copy of ``column`` whose last axis has ``capacity`` entries, new ones set to ``fill``."""
    wider = np.full((*column.shape[:-1], capacity), fill, dtype=column.dtype)
    wider[..., : column.shape[-1]] = column
    return wider
