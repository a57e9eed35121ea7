"""What evictions would achieve on every node, kept current for a class of pods.

Where only room counts, who would have to leave a node depends on that node alone; so of a thousand
alike that preempt one after the other, each looks again only at the nodes that have changed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from zlib import crc32

import numpy as np

from arranger.cluster.columns import BoolArray, IntArray, grown
from arranger.framework.runtime.dry_run import Allows, WhatIf
from arranger.preemption.importance import Candidate
from arranger.preemption.victims import SPARED, MayLeave, Reasons, VictimSearch, allowed

#: Of candidates that the guarantees of queues leave no one of.
GUARANTEED = "node(s) hold only pods within what their queue is guaranteed"
#: A candidate's cost, and its row: what is less is better.
Rank = tuple[int, int, int, int, float, int]


class Survey:
    """Candidates and reasons by row, for pods of one class and priority.

    Answers are kept between calls as long as they can be, and worked out for those rows only that
    are asked about.
    """

    def __init__(self) -> None:
        self._version = -1
        self._budgets_version = -1
        self._kept = False
        #: Row → whether there is an answer for it.
        self._known: BoolArray = np.zeros(0, dtype=np.bool_)
        self._guarded_spaces: frozenset[str] = frozenset()
        self._found: dict[int, Candidate | Reasons] = {}
        self._ranks: dict[int, Rank] = {}
        #: All ranks, the best first.
        self._order: list[Rank] = []
        self._words: dict[tuple[object, ...], Reasons] = {}
        #: How often each reason was given.
        self._why: Counter[str] = Counter()
        #: Rows on which budgets, or on which gangs have a say: they change with others' pods.
        self._guarded: set[int] = set()
        self._shared: set[int] = set()
        #: Row → whether a quota was tight there, which decides with the use of quotas.
        self._tight: BoolArray = np.zeros(0, dtype=np.bool_)
        self._stamp: Hashable = None
        #: (when, row): nodes of which another pod may leave then, as time goes by.
        self._ripens: list[tuple[float, int]] = []
        self._ripe_at: dict[int, float] = {}
        self._allows: Allows = bool
        self._finder: VictimSearch | None = None

    # --- asking ----------------------------------------------------------------------------

    def best(self) -> Candidate | None:
        """The cheapest candidate, the lowest row of equals."""
        return next(self.candidates(), None)

    def candidates(self) -> Iterator[Candidate]:
        """All candidates that may leave together, the cheapest first.

        Whether they may depends on what others use and is asked of these only. Where they may not
        the node may have others that may, at another cost.
        """
        others: list[tuple[Rank, Candidate]] = []
        for rank in self._order:
            while others and others[0][0] < rank:
                yield heappop(others)[1]
            found = self._found[rank[-1]]
            assert isinstance(found, Candidate), "only candidates have a rank"
            if self._allows(found.victims):
                yield found
            elif (other := self._otherwise(rank[-1])) is not None:
                heappush(others, ((*other.cost(), other.row), other))
        while others:
            yield heappop(others)[1]

    def _otherwise(self, row: int) -> Candidate | None:
        """The cheapest of a node's victims that may leave together, where those found may not."""
        finder = self._finder
        assert finder is not None, "there are candidates since it looked"
        pods = finder.potential(row)
        may = allowed(pods, finder.company, self._allows)
        found = finder.among(row, may) if may else None
        if isinstance(found, Candidate) and self._allows(found.victims):
            return found
        return None

    def reasons(self) -> tuple[Counter[str], int]:
        """(reason → nodes that gave it, number of nodes that were looked at).

        For who has no candidate: those that there are may not leave.
        """
        return self._why + Counter({GUARANTEED: len(self._order)}), len(self._found)

    # --- keeping current -------------------------------------------------------------------

    def look(self, what_if: WhatIf, rows: IntArray, may_leave: MayLeave, most: int) -> None:
        """Bring the answers for ``rows`` up to date, and forget those for others.

        Where plugins have to be asked about each victim, which takes its time, it is enough to have
        ``most`` candidates, as upstream (``DryRunPreemption``); every pod begins elsewhere then.
        """
        self._allows = what_if.allows
        table, cluster = what_if.cluster.table, what_if.cluster
        self._forget_changed(what_if)
        self._forget_tight(what_if)
        self._forget_ripe(what_if)
        finder = self._finder = VictimSearch(what_if, may_leave, self._words, self._tight)
        if not (finder.counts and self._kept):
            self._forget_all()
        self._kept, self._budgets_version = finder.counts, cluster.budgets_version
        wanted = np.zeros(table.size, dtype=np.bool_)
        wanted[rows] = True
        for row in np.flatnonzero(self._known & ~wanted).tolist():
            self._forget(row)
        missing = np.flatnonzero(wanted & ~self._known)
        if not finder.counts and len(missing):
            missing = np.roll(missing, -(crc32(what_if.pod.uid.encode()) % len(missing)))
        for row in missing.tolist():
            self._add(row, finder, what_if)
            if not finder.counts and len(self._order) >= most and self._order[0][0] == 0:
                break
        while (best := self.best()) is not None and best.row not in self._shared:
            if not any(map(what_if.in_gang, best.victims)):
                break
            self._forget(best.row)  # they have joined a gang since
            self._add(best.row, finder, what_if)
        self._version = table.version  # thinking pods away has changed nothing

    def _add(self, row: int, finder: VictimSearch, what_if: WhatIf) -> None:
        potential = finder.potential(row)
        found = finder.among(row, potential)
        if (when := finder.until(row)) < float("inf"):
            if when < self._ripe_at.get(row, float("inf")):
                self._ripe_at[row] = when
                heappush(self._ripens, (when, row))
            if not isinstance(found, Candidate) and finder.in_time(row):
                found = SPARED
        self._found[row] = found
        self._known[row] = True
        if self._guarded_spaces and any(
            pod.pod.metadata.namespace in self._guarded_spaces for pod in potential
        ):
            self._guarded.add(row)
        if any(map(what_if.in_gang, potential)):
            self._shared.add(row)
        if isinstance(found, Candidate):
            rank = self._ranks[row] = (*found.cost(), row)
            insort(self._order, rank)
        else:
            self._why.update(found)

    def _forget_changed(self, what_if: WhatIf) -> None:
        table, cluster = what_if.cluster.table, what_if.cluster
        if len(self._known) != table.size:
            self._known = grown(self._known[: table.size], table.size, False)
        changes = None if self._version < 0 else table.changed_since(self._version)
        spaces = self._guarded_spaces
        if self._budgets_version != cluster.budgets_version:
            spaces = frozenset(b.metadata.namespace for b in cluster.budgets.values())
        if changes is None or spaces != self._guarded_spaces:
            self._guarded_spaces = spaces
            self._forget_all()
            return
        stale = {row for _, row in changes} | self._shared
        if self._budgets_version != cluster.budgets_version:
            stale |= self._guarded
        for row in stale:
            self._forget(row)

    def _forget_tight(self, what_if: WhatIf) -> None:
        """Forget the rows that quotas have a say on, or had, if they are used otherwise now."""
        size, quota = what_if.cluster.table.size, what_if.quota
        before, stamp = grown(self._tight[:size], size, False), self._stamp
        self._stamp, self._tight = None, np.zeros(size, dtype=np.bool_)
        if quota is not None and quota.active:
            self._stamp, self._tight = quota.tight(what_if.pod)
        if stamp != self._stamp:
            for row in np.flatnonzero(before | self._tight).tolist():
                self._forget(row)

    def _forget_ripe(self, what_if: WhatIf) -> None:
        """Forget the rows where time protects one pod less."""
        while self._ripens and what_if.spared and self._ripens[0][0] <= what_if.spared.now:
            when, row = heappop(self._ripens)
            if self._ripe_at.get(row) == when:
                del self._ripe_at[row]
            self._forget(row)

    def _forget(self, row: int) -> None:
        found = self._found.pop(row, None)
        if found is None:
            return
        self._known[row] = False
        self._guarded.discard(row)
        self._shared.discard(row)
        if isinstance(found, Candidate):
            del self._order[bisect_left(self._order, self._ranks.pop(row))]
        else:
            self._why.subtract(found)

    def _forget_all(self) -> None:
        self._known[:] = False
        self._found.clear()
        self._ranks.clear()
        self._order.clear()
        self._why.clear()
        self._guarded.clear()
        self._shared.clear()
