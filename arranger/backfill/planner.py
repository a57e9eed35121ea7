"""The earliest time at which all of a gang fits, beside what is planned already."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np

from arranger.backfill.run_times import Basis
from arranger.backfill.timeline import FloatArray, Timeline, add_ended
from arranger.cluster.columns import BoolArray, IntArray

T = TypeVar("T")

#: Times at which it is tried whether a claim that does not fit any more fits a moment later.
_MAX_PUT_OFF: Final = 8
#: Units for a demand, however few the rows are.
_FITTING: Final = 50
#: Rows that are looked at for a demand in one unit, and pods that are taken away.
_ROWS_PER_UNIT: Final = 20
_PODS_PER_UNIT: Final = 50

#: Work that may be left wherever it yields: how many units it has taken since, each about a
#: microsecond.
Parts = Generator[int, None, T]


@dataclass(frozen=True, slots=True, eq=False)
class ClosedRows:
    """Rows that are closed to a kind of pods for some time, or a part of what is free there.

    Attributes:
        at: the rows that are closed to a pod that would start at a time; None for none.
        opens: times at which rows may open, in seconds since 1970.
        closes: times right before or after which rows may close; between two of them they only
            open. Where some are left out a start may be found later than it could be.
        kept: ``[column, row]``: what is kept from a pod that would start at a time.
    """

    at: Callable[[float], BoolArray | None]
    opens: Sequence[float] = ()
    closes: Sequence[float] = ()
    kept: Callable[[float], IntArray | None] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """``count`` pods alike, of which each asks for ``amounts`` of the resource ``columns``.

    Attributes:
        rows: row → whether such a pod may run there if the node is empty.
        closed: the rows that it may not use at some times.
    """

    columns: Sequence[int]
    amounts: Sequence[int]
    count: int
    rows: BoolArray
    closed: ClosedRows | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """Room that is planned to be taken from ``start`` on, up to ``end``.

    Attributes:
        rows: the rows, ascending.
        amounts: ``[column, n]`` of each of them; it takes nothing of columns that came later.
        known: whether all that must end before does so at a known time.
    """

    start: float
    end: float
    rows: IntArray
    amounts: IntArray
    known: bool

    def is_active(self, at: float) -> bool:
        """Whether the room is taken at that time."""
        return self.start <= at < self.end

    def take_from(self, room: IntArray, rows: IntArray | None = None) -> None:
        """Take it from ``[column, row]``, on some ``rows`` only or on all of its own."""
        here = slice(None) if rows is None else np.isin(self.rows, rows)
        room[: len(self.amounts), self.rows[here]] -= self.amounts[:, here]

    def fits_into(self, room: IntArray) -> bool:
        """Whether ``[column, row]`` has all of it."""
        left = room[: len(self.amounts), self.rows]
        return bool((left >= self.amounts)[self.amounts > 0].all())


class Planner:
    """Finds room in the future of one moment, whatever happens to the timeline afterwards.

    Args:
        timeline: brought up to date for ``now``.
        claims: what is planned already.
        least: only ends of which at least that tells are counted on.
    """

    def __init__(
        self,
        timeline: Timeline,
        now: float,
        claims: Iterable[Claim] = (),
        *,
        least: Basis = Basis.ESTIMATE,
    ) -> None:
        self._now = now
        self.claims = list(claims)
        end, basis = timeline.ends(now)
        end = np.where(basis >= least, end, np.inf)
        present = timeline.rows_of_slots() >= 0
        order = np.argsort(end, kind="stable")
        order = order[present[order] & np.isfinite(end[order])]
        self._ends, self._basis = end[order], basis[order]
        self._rows, self._amounts = timeline.freed_by(order)
        self._present = timeline.free_now()

    def earliest(
        self,
        demands: Sequence[Demand],
        lasts: float = math.inf,
        within: BoolArray | None = None,
        *,
        now_too: bool = True,
    ) -> Parts[Claim | None]:
        """Room for all of ``demands`` at once, for so many seconds; None if there never is.

        Members of one kind get it at the earliest time there is. Of several kinds each takes from
        what the ones before it leave, so that a later time may be found. With ``now_too`` the
        answer may be the present moment.
        """
        closed = [demand.closed for demand in demands if demand.closed is not None]
        times = self._times([at for each in closed for at in each.opens], now_too=now_too)
        if not times.size:
            return None
        later = sorted({c.start for c in self.claims if c.start > self._now})
        futures = {at: self._room(at) for at in later} if later else {}
        base, low = (0, self._present), 0
        for high in self._segment_ends(times, lasts, closed):
            # Between two of these moments room only grows.
            first, last, low = low, high - 1, high
            if first > last:
                continue
            free = self._grown(base, float(times[last]))
            yield (free[0] - base[0]) // _PODS_PER_UNIT
            found = yield from self._fit(
                demands, float(times[last]), lasts, within, free[1], futures
            )
            if found is None:
                base = free
                continue
            while first < last:
                middle = (first + last) // 2
                free = self._grown(base, float(times[middle]))
                yield (free[0] - base[0]) // _PODS_PER_UNIT
                claim = yield from self._fit(
                    demands, float(times[middle]), lasts, within, free[1], futures
                )
                if claim is None:
                    base, first = free, middle + 1
                else:
                    found, last = claim, middle
            return found
        return None

    def still_fits(self, claim: Claim) -> bool:
        """Whether planned room is still there, or will be, at its time."""
        times = [max(claim.start, self._now)]
        times += [c.start for c in self.claims if claim.start < c.start < claim.end]
        return all(claim.fits_into(self._room(at)) for at in times)

    def put_off(self, claim: Claim, most: float) -> Claim | None:
        """A claim on the same rows as soon as it fits there, at most so many seconds later.

        None if it does not, or if more than a few ends would have to be waited for.
        """
        if self.still_fits(claim):
            return claim
        begin, last = max(claim.start, self._now), claim.start + most
        low, high = np.searchsorted(self._ends, (begin, last), side="right").tolist()
        times = {each.end for each in self.claims if begin < each.end <= last}
        for start in sorted(times.union(self._ends[low:high].tolist()))[:_MAX_PUT_OFF]:
            known = self._is_known(claim.rows, start)
            later = replace(claim, start=start, end=start + claim.end - claim.start, known=known)
            if self.still_fits(later):
                return later
        return None

    # --- inside ----------------------------------------------------------------------------

    def _times(self, opens: Sequence[float], *, now_too: bool) -> FloatArray:
        ends = [c.end for c in self.claims if self._now < c.end < math.inf]
        ends += opens
        times = np.unique(np.concatenate([self._ends, np.array(ends, dtype=np.float64)]))
        times = times[times > self._now]
        return np.concatenate([[self._now], times]) if now_too else times

    def _segment_ends(
        self, times: FloatArray, lasts: float, closed: Sequence[ClosedRows]
    ) -> list[int]:
        cuts = {len(times)}
        for at in {at for each in closed for at in each.closes}:
            cuts.add(int(np.searchsorted(times, at, side="left")))
            cuts.add(int(np.searchsorted(times, at, side="right")))
        for claim in self.claims:
            for at in (claim.start, claim.end):
                cuts.add(int(np.searchsorted(times, at, side="left")))
            if lasts < math.inf:
                cuts.add(int(np.searchsorted(times, claim.start - lasts, side="right")))
        return sorted(cut for cut in cuts if cut > 0)

    def _grown(self, base: tuple[int, IntArray], at: float) -> tuple[int, IntArray]:
        """(ends counted, what is free) at a time, from that at an earlier one."""
        count = int(np.searchsorted(self._ends, at, side="right"))
        before, free = base
        if count > before:
            free = free.copy()
            add_ended(free, self._rows[before:count], self._amounts[:, before:count])
        return count, free

    def _room(self, at: float) -> IntArray:
        """What is free at a time and not planned for."""
        _, free = self._grown((0, self._present), at)
        return self._less_active(free, at)

    def _less_active(self, free: IntArray, at: float) -> IntArray:
        active = [claim for claim in self.claims if claim.is_active(at)]
        if active:
            free = free.copy()
        for claim in active:
            claim.take_from(free)
        return free

    def _fit(
        self,
        demands: Sequence[Demand],
        at: float,
        lasts: float,
        within: BoolArray | None,
        free: IntArray,
        futures: dict[float, IntArray],
    ) -> Parts[Claim | None]:
        room = self._less_active(free, at)
        for later, left in futures.items():
            if at < later < at + lasts:
                room = np.minimum(room, left)
        taken = np.zeros_like(room)
        for demand in demands:
            left = room - taken
            kept = None
            if demand.closed is not None and demand.closed.kept is not None:
                kept = demand.closed.kept(at)
            if kept is not None:
                left = left - kept[: left.shape[0], : left.shape[1]]
            capacity = _capacity(left, demand)
            shut = None if demand.closed is None else demand.closed.at(at)
            if shut is not None:
                capacity = np.where(shut[: len(capacity)], 0, capacity)
            if within is not None:
                capacity = np.where(within[: len(capacity)], capacity, 0)
            if int(capacity.sum()) < demand.count:
                return None
            counts = _spread(capacity, _capacity(self._present, demand), demand.count)
            for column, amount in zip(demand.columns, demand.amounts, strict=True):
                taken[column] += counts * amount
            yield _FITTING + len(capacity) // _ROWS_PER_UNIT
        rows = np.flatnonzero(taken.any(axis=0))
        return Claim(at, at + lasts, rows, taken[:, rows], self._is_known(rows, at))

    def _is_known(self, rows: IntArray, at: float) -> bool:
        """Whether all that ends on these rows until then does so at a known time."""
        count = int(np.searchsorted(self._ends, at, side="right"))
        where = self._rows[:count][self._basis[:count] < Basis.KNOWN]
        return not bool(np.isin(where, rows).any())


def _spread(capacity: IntArray, present: IntArray, count: int) -> IntArray:
    """Row → how many of ``count`` pods it gets, on as few nodes as will do.

    Room that is only to come goes first: what is there now is left to those who go before.
    """
    counts = np.zeros_like(capacity)
    to_come = np.maximum(capacity - present, 0)
    for room in (to_come, capacity - to_come):
        order = np.argsort(-room, kind="stable")
        filled = np.minimum(np.cumsum(room[order]), count)
        counts[order] += np.diff(filled, prepend=0)
        count -= int(filled[-1]) if filled.size else 0
    return counts


def _capacity(room: IntArray, demand: Demand) -> IntArray:
    """Row → how many pods of a kind fit, no more than are asked for."""
    fitting = np.where(demand.rows[: room.shape[1]], demand.count, 0)
    for column, amount in zip(demand.columns, demand.amounts, strict=True):
        if amount > 0:
            fitting = np.minimum(fitting, room[column] // amount)
    capacity: IntArray = np.maximum(fitting, 0)
    return capacity
