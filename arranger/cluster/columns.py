"""Growing NumPy columns, and the interning of what does not fit a number.

A column is indexed by a node's row. Texts (label values) and taint lists are interned to small
integers, so that a plugin evaluates each distinct value once and gets all rows by indexing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from arranger.api.selectors import parse_int64

IntArray = npt.NDArray[np.int64]
IdArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]

H = TypeVar("H", bound=Hashable)

#: The id of "no such value" in a column of interned values.
ABSENT: Final = -1

#: Values of a label that no node has any more are forgotten when there are so many, and more than
#: there are nodes.
_SPARE_VALUES: Final = 1024

_NO_NUMBERS: Final[IntArray] = np.zeros(0, dtype=np.int64)

#: Columns of the resource matrices that every node has; extended resources follow.
CPU: Final = 0
MEMORY: Final = 1
EPHEMERAL_STORAGE: Final = 2
PODS: Final = 3
BASIC_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods")
#: One column for all resources that no node offers: whoever asks for one fits nowhere.
NOT_OFFERED: Final = 4


def occurring(ids: IdArray, size: int) -> IntArray:
    """The ids in an array, in order, all below ``size``; ``np.unique`` takes longer by far."""
    found = np.zeros(size, dtype=np.bool_)
    found[ids] = True
    return np.flatnonzero(found)


def exact_sum(amounts: IntArray) -> int:
    """The sum of a column, which may have more than 64 bits."""
    return (int((amounts >> 32).sum()) << 32) + int((amounts & 0xFFFFFFFF).sum())


class Interner(Generic[H]):
    """Distinct values, numbered in order of first sight."""

    def __init__(self, first: Iterable[H] = ()) -> None:
        self.values: list[H] = list(first)
        self._ids: dict[H, int] = {value: number for number, value in enumerate(self.values)}

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
    """One column of interned values for each label key that nodes have and some plugin asks for.

    A column is filled when it is first asked for, and kept current from then on. For keys that no
    node has there is one column together, so that nobody fills the memory with selectors. Columns
    go, and values are numbered anew, only when a node changes.
    """

    def __init__(self, capacity: int) -> None:
        #: Row → the labels of its node.
        self._labels: list[Mapping[str, str]] = []
        #: Label key → how many nodes have it.
        self._holders: Counter[str] = Counter()
        self._columns: dict[str, tuple[IdArray, Interner[str]]] = {}
        #: Label key → the numbering of its values, and the integers that these spell.
        self._numbers: dict[str, tuple[Interner[str], IntArray, BoolArray]] = {}
        self._absent: IdArray = np.full(capacity, ABSENT, dtype=np.int32)
        self._no_values: Interner[str] = Interner()

    def get(self, key: str) -> tuple[IdArray, Interner[str]]:
        """Row → number of the value of a label, and the numbering of its values."""
        found = self._columns.get(key)
        if found is None:
            if key not in self._holders:
                return self._absent, self._no_values
            texts = [labels.get(key) for labels in self._labels]
            values = Interner(text for text in dict.fromkeys(texts) if text is not None)
            ids = [ABSENT if text is None else values.find(text) for text in texts]
            column = self._absent.copy()
            column[: len(ids)] = ids
            found = self._columns[key] = column, values
        return found

    def numbers(self, key: str) -> tuple[IntArray, BoolArray]:
        """Number of a value of a label → the integer that it spells, and whether it spells one."""
        _, values = self.get(key)
        of, numbers, spelt = self._numbers.get(key, (None, _NO_NUMBERS, _NO_NUMBERS > 0))
        if of is values and len(numbers) == len(values):
            return numbers, spelt
        known = len(numbers) if of is values else 0
        more = [parse_int64(value) for value in values.values[known:]]
        numbers = np.append(numbers[:known], np.array([n or 0 for n in more], dtype=np.int64))
        spelt = np.append(spelt[:known], np.array([n is not None for n in more], dtype=np.bool_))
        if key in self._columns:
            self._numbers[key] = values, numbers, spelt
        return numbers, spelt

    def add_row(self) -> None:
        """There is one row more, without labels."""
        self._labels.append({})

    def set_row(self, row: int, labels: Mapping[str, str]) -> None:
        """Bring ``row`` of every column up to date."""
        before, self._labels[row] = self._labels[row], labels
        for key in labels.keys() - before.keys():
            self._holders[key] += 1
        for key in before.keys() - labels.keys():
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
                self._columns.pop(key, None)
                self._numbers.pop(key, None)
        outdated = []
        for key, (column, values) in self._columns.items():
            column[row] = values.id(labels[key]) if key in labels else ABSENT
            if len(values) > 2 * self._holders[key] + _SPARE_VALUES:
                outdated.append(key)
        for key in outdated:  # most of its values are of nodes that are gone
            del self._columns[key]

    def grow(self, capacity: int) -> None:
        """Extend all columns to ``capacity`` rows."""
        self._absent = resized(self._absent, capacity, ABSENT)
        for key, (column, values) in self._columns.items():
            self._columns[key] = resized(column, capacity, ABSENT), values


def resized(column: npt.NDArray[np.generic], capacity: int, fill: int) -> npt.NDArray:  # type: ignore[type-arg]
    """A copy of ``column`` whose last axis has ``capacity`` entries, new ones set to ``fill``."""
    wider = np.full((*column.shape[:-1], capacity), fill, dtype=column.dtype)
    wider[..., : column.shape[-1]] = column
    return wider


def least_of(vectors: Iterable[tuple[list[int], list[int]]]) -> tuple[list[int], list[int]]:
    """The columns that all of these requests have, each with its smallest amount."""
    first, *others = vectors
    if not others:
        return first
    least = dict(zip(*first, strict=True))
    for columns, amounts in others:
        more = dict(zip(columns, amounts, strict=True))
        least = {column: min(n, more[column]) for column, n in least.items() if column in more}
    return list(least), list(least.values())
