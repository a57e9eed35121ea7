"""What scores of cpu and memory are worked out from, of all nodes, kept current by the log.

A class of pods that nobody had before is scored on every node. The part of that which does not
depend on the pod is kept here, in the form in which the rest takes the least time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from arranger.cluster.columns import BASIC_RESOURCES, CPU, MEMORY, BoolArray, IntArray

FloatArray = npt.NDArray[np.float64]

#: Integers below are what they are as floating-point numbers, too; a hundredfold of them as well.
EXACT: Final = 2**53 // 100
#: With more than this share of the rows changed, all are worked out again.
_FULL_SHARE: Final = 0.02
#: Nodes below this size have a free share that is exact when rounded down.
_LARGEST: Final = 10**13
#: Added to a free share, so that a whole number is never missed by rounding: four roundings of
#: numbers up to 100 make 4e-14 at most, and a share that is not whole lacks 1e-13 or more.
_JUST_MISSED: Final = 5e-14
#: After so many rows the least of what is free is looked for again.
_LEAST_AGAIN: Final = 256
_BASIC: Final = slice(0, len(BASIC_RESOURCES))


class Rows(Protocol):
    """The node table, as far as it is needed here."""

    size: int
    alive: BoolArray
    allocatable: IntArray
    requested: IntArray
    nonzero_requested: IntArray

    @property
    def version(self) -> int:
        """Number of changes so far."""

    def changed_since(self, version: int) -> Sequence[tuple[int, int]] | None:
        """(kind, row) of the changes since then; None when that is too long ago."""


class ResourceShares:
    """Cpu (0) and memory (1) of the nodes.

    Attributes:
        free: ``[column, row]`` what is allocatable and not requested, of the basic resources.
        whole: ``[0 | 1, row]`` what is allocatable, 1 where that is nothing.
        requested: ``[0 | 1, row]``.
        free_percent: ``[0 | 1, row]`` what is allocatable and not requested, as the scoring plugins
            count it, in per cent of what is allocatable.
        percent: ``[0 | 1, row]`` what one unit is, in per cent of what is allocatable.
        unevenness: row → 150 − :func:`evenness`.
        least_free: column → no node has less of it in ``free``.
        least_counted: the same of cpu and memory, as the scoring plugins count them.
    """

    def __init__(self, table: Rows) -> None:
        self._table = table
        self._version = -1
        self._size = -1
        #: Rows of which the numbers are too large, and nodes without cpu or memory.
        self._odd: set[int] = set()
        self.free: IntArray = np.zeros((len(BASIC_RESOURCES), 0), dtype=np.int64)
        self.whole: FloatArray = np.zeros((2, 0))
        self.requested: FloatArray = np.zeros((2, 0))
        self.free_percent: FloatArray = np.zeros((2, 0))
        self.percent: FloatArray = np.zeros((2, 0))
        self.unevenness: IntArray = np.zeros(0, dtype=np.int64)
        self.least_free: list[int] = []
        self.least_counted: list[int] = []
        #: Rows until the least is looked for again.
        self._least_in = 0

    def refresh(self) -> bool:
        """Bring everything up to date; whether all of it can be used, or ``free`` only.

        Not where a node has no cpu or memory, or amounts of which floating-point numbers
        would be no exact multiples.
        """
        table = self._table
        if self._version != table.version or self._size != table.size:
            changes = table.changed_since(self._version) if self._version >= 0 else None
            same = self._size == table.size
            if changes is not None and same and len(changes) <= 8 + _FULL_SHARE * table.size:
                rows = {row for _, row in changes}
                for row in rows:
                    self._refresh_row(row)
                self._least_in -= len(rows)
                if self._least_in <= 0:
                    self._find_least()
            else:
                self._work_out()
            self._version, self._size = table.version, table.size
        return not self._odd

    def _refresh_row(self, row: int) -> None:
        """As :meth:`_work_out`, of one row."""
        table = self._table
        cpu, memory = table.allocatable.item(CPU, row), table.allocatable.item(MEMORY, row)
        used = table.requested.item(CPU, row), table.requested.item(MEMORY, row)
        counted = table.nonzero_requested.item(CPU, row), table.nonzero_requested.item(MEMORY, row)
        alive = table.alive.item(row)
        if max(cpu, memory, *used, *counted) >= _LARGEST or ((cpu <= 0 or memory <= 0) and alive):
            self._odd.add(row)
        else:
            self._odd.discard(row)
        free = table.allocatable[_BASIC, row] - table.requested[_BASIC, row]
        self.free[:, row] = free
        if alive:
            self.least_free = list(map(min, self.least_free, free.tolist()))
            left = cpu - counted[0], memory - counted[1]
            self.least_counted = list(map(min, self.least_counted, left))
        left_cpu, left_memory = 100.0 * (cpu - counted[0]), 100.0 * (memory - counted[1])
        cpu, memory = max(cpu, 1), max(memory, 1)
        self.whole[0, row], self.whole[1, row] = cpu, memory
        self.free_percent[0, row] = left_cpu / cpu + _JUST_MISSED
        self.free_percent[1, row] = left_memory / memory + _JUST_MISSED
        self.percent[0, row], self.percent[1, row] = 100.0 / cpu, 100.0 / memory
        self.requested[0, row], self.requested[1, row] = used
        self.unevenness[row] = 150 - evenness(used[0] / cpu, used[1] / memory)

    def _work_out(self) -> None:
        table, both = self._table, slice(CPU, MEMORY + 1)
        alive = table.alive[: table.size]
        allocatable = table.allocatable[both, : table.size]
        requested = table.requested[both, : table.size]
        counted = table.nonzero_requested[:, : table.size]
        odd = np.maximum(np.maximum(allocatable, requested), counted) >= _LARGEST
        odd = odd.any(axis=0) | ((allocatable <= 0).any(axis=0) & alive)
        self._odd = set(np.flatnonzero(odd).tolist())
        self.free = table.allocatable[_BASIC, : table.size] - table.requested[_BASIC, : table.size]
        self.whole = np.maximum(allocatable, 1).astype(np.float64)
        self.requested = requested.astype(np.float64)
        self.free_percent = (allocatable - counted).astype(np.float64)
        self.free_percent *= 100
        self.free_percent /= self.whole
        self.free_percent += _JUST_MISSED
        self.percent = 100.0 / self.whole
        self.unevenness = 150 - evenness_of_rows(*(self.requested / self.whole))
        self._find_least()

    def _find_least(self) -> None:
        table, both = self._table, slice(CPU, MEMORY + 1)
        alive = table.alive[: table.size]
        counted = table.allocatable[both, : table.size] - table.nonzero_requested[:, : table.size]
        self.least_free = self.free.min(axis=1, where=alive, initial=EXACT).tolist()
        self.least_counted = counted.min(axis=1, where=alive, initial=EXACT).tolist()
        self._least_in = _LEAST_AGAIN

    def check_consistent(self) -> None:
        """Work everything out anew.

        Raises:
            AssertionError: something differs from what is kept.
        """
        fresh = ResourceShares(self._table)
        usable = fresh.refresh()
        assert self.refresh() == usable, "whether the shares can be used"
        others = ("whole", "requested", "free_percent", "percent", "unevenness") if usable else ()
        for name in ("free", *others):
            assert np.array_equal(getattr(self, name), getattr(fresh, name)), f"shares: {name}"
        for name in ("least_free", "least_counted"):
            pairs = zip(getattr(self, name), getattr(fresh, name), strict=True)
            assert all(kept <= least for kept, least in pairs), f"shares: {name}"


def evenness(cpu: float, memory: float) -> int:
    """100 × (1 − the standard deviation of the two used shares), which count for 1 at most."""
    return int((1.0 - abs(min(cpu, 1.0) - min(memory, 1.0)) / 2) * 100)


def evenness_of_rows(cpu: FloatArray, memory: FloatArray, *, cap: bool = True) -> IntArray:
    """The same of many rows, step by step; the shares are overwritten.

    Without ``cap`` none of them is above 1.
    """
    if cap:
        np.minimum(cpu, 1.0, out=cpu)
        np.minimum(memory, 1.0, out=memory)
    cpu -= memory
    np.abs(cpu, out=cpu)
    cpu *= 0.5
    np.subtract(1.0, cpu, out=cpu)
    cpu *= 100
    even: IntArray = cpu.astype(np.int64)
    return even
