"""Who may start now without being in the way of what is planned."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from arranger.backfill.planner import Claim
from arranger.backfill.timeline import Timeline
from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.nodes.node_table import NodeTable


@dataclass(slots=True, eq=False)
class _Left:
    """What is left at the start of one claim once all claims of then are taken; it follows."""

    at: float
    room: IntArray


@dataclass(slots=True, eq=False)
class SpareRoom:
    """What is left beside the claims when each of them starts.

    A pod that ends before a claim starts is not in its way, nor is one that fits beside it then.
    Between two starts room only grows, so nothing else needs to be looked at.
    """

    _timeline: Timeline
    claims: Mapping[str, Claim]
    #: The nodes that the claims are about, by row: another may take over the row.
    names: Mapping[int, str]
    #: How often anything here has changed.
    changes: int = field(default=0, init=False)
    _left: list[_Left] = field(default_factory=list, init=False)
    _starts: list[float] = field(default_factory=list, init=False)
    #: Row → whether its node is another one now.
    _gone: BoolArray = field(init=False)
    #: How many columns and rows there were when this was worked out.
    _shape: tuple[int, int] = field(default=(0, 0), init=False)
    #: As of when this was worked out, and until when it holds if nothing but time changes.
    _as_of: float = field(default=0.0, init=False)
    _holds_until: float = field(default=np.inf, init=False)

    def start(self, now: float) -> None:
        """Work all of it out anew."""
        table = self._timeline.table
        self.changes += 1
        self._left = []
        self._starts = sorted({claim.start for claim in self.claims.values()})
        for at in self._starts:
            room = self._timeline.free_at(at, now)
            self._left.append(_Left(at, room))
            for claim in self.claims.values():
                if claim.is_active(at):
                    claim.take_from(room)
        self._shape = len(table.requested), table.size
        self._gone = np.zeros(table.size, dtype=np.bool_)
        for row, name in self.names.items():
            self._gone[row] = _name(table, row) != name
        self._as_of = now
        self._holds_until = self._timeline.lapses(self._starts, now, self.names)

    def follow(self, rows: set[int], now: float) -> None:
        """These rows have changed, and pods may be late that were not."""
        table = self._timeline.table
        if (len(table.requested), table.size) != self._shape:
            self.start(now)
            return
        if not rows and now < self._holds_until:
            return
        if now >= self._holds_until:
            lapsed = (self._timeline.rows_lapsed(at, self._as_of, now) for at in self._starts)
            rows = rows.union(*(some.tolist() for some in lapsed))
            self._as_of = now
            self._holds_until = self._timeline.lapses(self._starts, now, self.names)
        changed = np.array(sorted(rows & self.names.keys()), dtype=np.int64)
        if not changed.size:
            return
        lapses = self._timeline.lapses(self._starts, now, changed.tolist())
        self._holds_until = min(self._holds_until, lapses)
        for row in changed.tolist():
            self._gone[row] = _name(self._timeline.table, row) != self.names[row]
        self.changes += 1
        for left in self._left:
            left.room[:, changed] = self._timeline.free_at(left.at, now, changed)
            for claim in self.claims.values():
                if claim.is_active(left.at):
                    claim.take_from(left.room, changed)

    def check_consistent(self, now: float) -> None:
        """Compare with the same worked out anew, just after it was brought up to date.

        Raises:
            AssertionError: they differ.
        """
        anew = SpareRoom(self._timeline, self.claims, self.names)
        anew.start(now)
        rows = np.array(sorted(self.names), dtype=np.int64)
        for mine, its in zip(self._left, anew._left, strict=True):
            assert mine.at == its.at, "planned starts"
            assert np.array_equal(mine.room[:, rows], its.room[:, rows]), f"spare room at {mine.at}"

    def starts_before(self, ends: float) -> int:
        """How many of the planned starts come before: pods between the same two are alike."""
        return bisect_left(self._starts, ends)

    def rows_in_the_way(
        self,
        columns: Sequence[int],
        amounts: Sequence[int],
        ends: float,
        unbound: Set[str],
        own: str,
        *,
        there: bool = False,
    ) -> dict[str, IntArray]:
        """Claim → the rows on which a pod that ends then would delay it.

        Args:
            ends: in seconds since 1970; infinite if nothing tells of it.
            unbound: claims that the pod need not heed.
            own: the claim that is for itself, "" for none.
            there: whether the pod is on the row in question already, so that its room is taken.
        """
        mine, found = self.claims.get(own), {}
        for left in self._left:
            if left.at >= ends:
                break
            for key, claim in self.claims.items():
                if key in unbound or key == own or claim.start != left.at:
                    continue
                fits = ~self._gone[claim.rows]
                full = np.zeros_like(fits)
                for column, amount in zip(columns, amounts, strict=True):
                    if amount > 0:
                        room = left.room[column, claim.rows]
                        has = mine is not None and column < len(mine.amounts)
                        if mine is not None and has and mine.is_active(left.at):
                            both = np.isin(claim.rows, mine.rows)
                            at = np.searchsorted(mine.rows, claim.rows[both])
                            room[both] += mine.amounts[column, at]
                        full |= room < (0 if there else amount)
                found[key] = claim.rows[fits & full]
        return found


def names_of(table: NodeTable, claims: Iterable[Claim]) -> dict[int, str]:
    """Row → name of the node, of all rows that claims are about."""
    return {row: _name(table, row) for claim in claims for row in claim.rows.tolist()}


def _name(table: NodeTable, row: int) -> str:
    node = table.nodes[row]
    return "" if node is None else node.metadata.name
