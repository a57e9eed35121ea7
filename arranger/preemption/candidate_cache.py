"""What evictions would achieve on every node, kept current for a class of pods.

Where only resources count, the victims on a node depend on that node alone; so of a thousand equal
pods that preempt one after the other, each looks again only at the nodes that have changed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from heapq import heappop, heappush
from typing import Final
from zlib import crc32

import numpy as np

from arranger.cluster import PodInfo, RowChange
from arranger.cluster.attempt_work import UnfinishedError
from arranger.cluster.columns import BoolArray, resized
from arranger.cluster.disruption_budgets import DisruptionBudgets
from arranger.framework.preemption import EvictionPolicy, PreemptionContext
from arranger.preemption.allowed_candidates import AllowedCandidates
from arranger.preemption.importance import Candidate
from arranger.preemption.several_takers import choose_for_several, number_of_takers
from arranger.preemption.victims import (
    NO_VICTIMS,
    PROTECTED_BY_TIME,
    IsPreemptable,
    Reasons,
    VictimSelector,
    WholeGangs,
)

#: Of candidates that the guarantees of queues leave no one of.
WITHIN_GUARANTEE = "node(s) hold only pods within what their queue is guaranteed"
#: Rows of which the pods are asked about without regard to their classes.
_ASKED_ONE_BY_ONE = 64
#: Units of work to look at one pod on a node.
_LOOK_AT_POD = 4
#: Rows that are looked at again when a search has taken several steps.
_LOOKED_AT_AGAIN = 16
#: How often changes of budgets may have a search begin anew.
_BEGUN_ANEW = 8
#: Candidates that are enough where plugins have to be asked about each, though all break budgets.
_PLENTY: Final = 1000
#: Rows that are looked at first because they may do for several pods.
_MOST_GENEROUS = 10
#: A candidate's cost, and its row: what is less is better.
CandidateRank = tuple[int, int, int, int, int, float, float, int]


class CandidateCache:
    """Candidates and reasons by row, for pods of one class and priority.

    Answers are kept between calls as long as they can be, and worked out for those rows only that
    are asked about.
    """

    def __init__(self) -> None:
        self._version = -1
        self._budgets_version = -1
        self._reusable = False
        #: Whether a search has been put off, and goes on with the next call.
        self._searching = False
        #: The rows of which it is known in this step what evictions achieve; None for all.
        self._fresh: set[int] | None = None
        #: The row that was looked at last.
        self._looked_at = -1
        #: Row → whether there is an answer for it.
        self._known: BoolArray = np.zeros(0, dtype=np.bool_)
        self._found: dict[int, Candidate | Reasons] = {}
        self._ranks: dict[int, CandidateRank] = {}
        #: All ranks, the best first.
        self._order: list[CandidateRank] = []
        self._reason_cache: dict[tuple[object, ...], Reasons] = {}
        #: How often each reason was given.
        self._reason_counts: Counter[str] = Counter()
        #: The plugins that have given any of them, ever: some reasons are remembered.
        self._rejecters: frozenset[str] = frozenset()
        #: Row → the namespaces whose budgets have a say.
        self._namespaces_of: dict[int, frozenset[str]] = {}
        #: Rows on which gangs have a say: they change with others' pods.
        self._gang_rows: set[int] = set()
        #: Of the search that goes on: for which pods it has begun anew because of budgets, and the
        #: rows that were looked at again at its end.
        self._begun_anew_for: set[str] = set()
        self._looked_again: set[int] = set()
        self._whole_gangs: WholeGangs = {}
        #: Rows of candidates by which another pod may find room, too.
        self._generous_rows: set[int] = set()
        #: Row → whether a quota was tight there, which decides with the use of quotas.
        self._exceeded: BoolArray = np.zeros(0, dtype=np.bool_)
        self._quota_version: Hashable = None
        #: (when, row): nodes of which another pod may leave then, as time goes by.
        self._expiries: list[tuple[float, int]] = []
        self._expiry_of: dict[int, float] = {}
        self._policy: EvictionPolicy | None = None
        self._allowed = AllowedCandidates()
        self._preemptor_state: Hashable = None
        self._selector: VictimSelector | None = None

    def best(self) -> Candidate | None:
        """The cheapest candidate, the lowest row of equals."""
        return next(self.candidates(), None)

    def best_for_several(self, context: PreemptionContext) -> Candidate | None:
        """As :meth:`best`, with regard to the pods of the class that wait as well.

        See :mod:`~arranger.preemption.several_takers`.
        """
        best, selector = self.best(), self._selector
        if best is None or not best.evicted or selector is None:
            return best
        if not (self._generous_rows and self._reusable):
            return best
        takers = number_of_takers(context, best)
        if takers <= 1:
            return best
        generous = sorted(self._ranks[row] for row in self._generous_rows)[:_MOST_GENEROUS]
        ranks = dict.fromkeys([*generous, *self._order[: _MOST_GENEROUS * 2]])
        others = [found for rank in ranks if isinstance(found := self._found[rank[-1]], Candidate)]
        return choose_for_several(best, others, takers, selector, context.pod)

    def candidates(self) -> Iterator[Candidate]:
        """All candidates that may leave together, the cheapest first.

        Whether they may depends on what others use and is asked of these only. Where they may not
        the node may have others that may, at another cost.
        """
        others: list[tuple[CandidateRank, Candidate]] = []
        for rank in self._order:
            while others and others[0][0] < rank:
                yield heappop(others)[1]
            if self._fresh is not None and rank[-1] not in self._fresh:
                continue
            found = self._found[rank[-1]]
            assert isinstance(found, Candidate), "only candidates have a rank"
            allowed = self._allowed.of(found)
            if allowed is found:
                yield found
            elif allowed is not None:
                heappush(others, ((*allowed.cost(), allowed.row), allowed))
        while others:
            yield heappop(others)[1]

    def reasons(self) -> tuple[Counter[str], int]:
        """(reason → nodes that gave it, number of nodes that were looked at).

        For who has no candidate: those that there are may not leave.
        """
        return self._reason_counts + Counter({WITHIN_GUARANTEE: len(self._order)}), len(self._found)

    @property
    def rejecters(self) -> frozenset[str]:
        """The plugins that reject nodes although others have left them."""
        return self._rejecters

    def update(
        self,
        context: PreemptionContext,
        wanted: BoolArray,
        is_preemptable: IsPreemptable,
        enough: int,
    ) -> None:
        """Bring the answers for the rows that are wanted up to date, and forget those for others.

        Where plugins have to be asked about each victim, which takes its time, it is enough to have
        ``enough`` candidates, as upstream (``DryRunPreemption``); every pod begins elsewhere then.

        Raises:
            UnfinishedError: not all rows that count have been looked at; ask again.
        """
        policy = self._policy = context.policy
        self._fresh = None
        if (state := policy.preemptor_state(context.pod)) != self._preemptor_state:
            self._preemptor_state = state
            self._forget_all()
        table, cluster = context.cluster.table, context.cluster
        self._forget_changed(context)
        self._version = table.version  # the simulations change nothing
        self._forget_exceeded(context)
        self._forget_expired(context)
        known = self._reason_cache
        gangs = self._whole_gangs
        selector = VictimSelector(context, is_preemptable, known, self._exceeded, gangs)
        self._selector = selector
        self._allowed.begin(selector, policy, cluster.work, self._gang_rows)
        if not (selector.resource_only and self._reusable):
            self._forget_all_but_searched(selector.resource_only)
        self._reusable = selector.resource_only
        for row in np.flatnonzero(self._known & ~wanted).tolist():
            self._forget(row)
        missing = np.flatnonzero(wanted & ~self._known)
        if self._searching:  # those that change in each step come last
            missing = np.roll(missing, -np.searchsorted(missing, self._looked_at + 1).item())
        elif not selector.resource_only and len(missing):
            missing = np.roll(missing, -(crc32(context.pod.uid.encode()) % len(missing)))
        work, rows_to_see = cluster.work, missing.tolist()
        if len(rows_to_see) > _ASKED_ONE_BY_ONE:
            may = policy.evictable_rows([context.pod], work)
            rows_to_see = self._without_hopeless(rows_to_see, may)
        for n, row in enumerate(rows_to_see):
            if n and work.is_spent:
                self._searching = True
                raise UnfinishedError
            work.count(_LOOK_AT_POD * len(table.pods[row]))
            self._add(row, selector, context)
            self._looked_at = row
            if not selector.resource_only and self._are_enough(enough):
                break
        searched, self._searching = self._searching, True
        if searched:
            self._look_again_at_best(selector, context)
        while (best := self.best()) is not None and best.row not in self._gang_rows:
            if not any(map(policy.in_gang, best.victims)):
                break
            self._forget(best.row)  # they have joined a gang since
            self._add(best.row, selector, context)
        self._searching = False
        self._begun_anew_for.clear()
        self._looked_again.clear()
        self._allowed.finish()

    def _are_enough(self, enough: int) -> bool:
        """Whether no more candidates are needed: as upstream, unless all break budgets, of which
        there are many."""
        count = len(self._order)
        return count >= enough and (self._order[0][0] == 0 or count >= _PLENTY)

    def _without_hopeless(self, rows: list[int], may: Collection[int] | None) -> list[int]:
        """Those of the rows on which there is somebody to evict; the answer for others is known."""
        if may is None:
            return rows
        hopeless = [row for row in rows if row not in may]
        self._found.update(dict.fromkeys(hopeless, NO_VICTIMS))
        self._known[hopeless] = True
        self._reason_counts.update(NO_VICTIMS * len(hopeless))
        return [row for row in rows if row in may]

    def _look_again_at_best(self, selector: VictimSelector, context: PreemptionContext) -> None:
        """What was found in earlier steps of a search may have changed with pods elsewhere, or with
        budgets."""
        now, again, work = set[int](), self._looked_again, context.cluster.work
        outdated = self._outdated_rows(context.cluster.budgets)
        self._whole_gangs.clear()
        while (best := self.best()) is not None:
            if best.row in now:
                break
            if not selector.resource_only:
                if now and work.is_spent:
                    raise UnfinishedError
                work.count(_LOOK_AT_POD * len(context.cluster.table.pods[best.row]))
                now.add(best.row)
            elif best.row in self._gang_rows and len(now) < _LOOKED_AT_AGAIN:
                now.add(best.row)
            elif best.row in again or best.row not in outdated:
                break
            else:
                if work.is_spent:
                    raise UnfinishedError
                work.count(_LOOK_AT_POD * len(context.cluster.table.pods[best.row]))
                again.add(best.row)
            self._look_again(best.row, selector, context)
        if selector.resource_only:
            return
        if context.extenders_choose:  # among those that are as they are now
            for row in [rank[-1] for rank in self._order if rank[-1] not in now]:
                if work.is_spent:
                    break
                work.count(_LOOK_AT_POD * len(context.cluster.table.pods[row]))
                now.add(row)
                self._look_again(row, selector, context)
        self._fresh = now

    def _look_again(self, row: int, selector: VictimSelector, context: PreemptionContext) -> None:
        self._forget(row)
        self._add(row, selector, context)
        self._allowed.ask_again(row)

    def _add(self, row: int, selector: VictimSelector, context: PreemptionContext) -> None:
        preemptible = selector.preemptible(row)
        found = selector.select_victims(row, preemptible)
        if (when := selector.next_expiry(row)) < float("inf"):
            if when < self._expiry_of.get(row, float("inf")):
                self._expiry_of[row] = when
                heappush(self._expiries, (when, row))
            if not isinstance(found, Candidate) and selector.fits_after_expiry(row):
                found = PROTECTED_BY_TIME
        self._rejecters |= context.rejecters
        self._found[row] = found
        self._known[row] = True
        self._namespaces_of[row] = frozenset(pod.namespace for pod in preemptible)
        if any(map(context.policy.in_gang, preemptible)):
            self._gang_rows.add(row)
        if isinstance(found, Candidate):
            rank = self._ranks[row] = (*found.cost(), row)
            insort(self._order, rank)
            if found.generous:
                self._generous_rows.add(row)
        else:
            self._reason_counts.update(found)

    def _forget_changed(self, context: PreemptionContext) -> None:
        table, cluster = context.cluster.table, context.cluster
        if len(self._known) != table.size:
            self._known = resized(self._known[: table.size], table.size, False)
        changes = None if self._version < 0 else table.changed_since(self._version)
        if changes is None:
            self._forget_all()
            self._budgets_version = cluster.budgets.version
            return
        stale = {row for kind, row in changes if kind is not RowChange.IMAGES}
        if stale or not self._searching:
            self._whole_gangs.clear()
        if not self._searching:
            stale |= self._gang_rows
        outdated = self._outdated_rows(cluster.budgets)
        if not outdated or self._may_begin_anew(context.pod):
            self._budgets_version = cluster.budgets.version
            stale |= outdated
        for row in stale:
            self._forget(row)

    def _outdated_rows(self, budgets: DisruptionBudgets) -> set[int]:
        """The rows whose answers go by budgets that have changed since."""
        if self._budgets_version == budgets.version:
            return set()
        changed = budgets.changed_since(self._budgets_version)
        if changed is None:
            return set(self._namespaces_of)
        rows = self._namespaces_of.items()
        return {row for row, namespaces in rows if not changed.isdisjoint(namespaces)}

    def _may_begin_anew(self, pod: PodInfo) -> bool:
        """Whether changes of budgets may void what a search has found.

        Once for each pod that goes on with it, a few times in all: else who changes one in each
        step would keep it from coming to an end.
        """
        begun = self._begun_anew_for
        if not self._searching:
            return True
        if pod.uid in begun or len(begun) >= _BEGUN_ANEW:
            return False
        begun.add(pod.uid)
        self._looked_again.clear()
        return True

    def _forget_exceeded(self, context: PreemptionContext) -> None:
        """Forget the rows that quotas have a say on, or had, if they are used otherwise now."""
        size, quota = context.cluster.table.size, context.policy.quota_after_evictions
        before, version = resized(self._exceeded[:size], size, False), self._quota_version
        self._quota_version, self._exceeded = None, np.zeros(size, dtype=np.bool_)
        if quota is not None:
            self._quota_version, self._exceeded = quota.exceeded_rows(context.pod)
        if version != self._quota_version:
            self._reason_cache.clear()  # of two limits another may be told of
            for row in np.flatnonzero(before | self._exceeded).tolist():
                self._forget(row)

    def _forget_expired(self, context: PreemptionContext) -> None:
        policy = context.policy
        while self._expiries and policy.time_protects and self._expiries[0][0] <= policy.now:
            when, row = heappop(self._expiries)
            if self._expiry_of.get(row) == when:
                del self._expiry_of[row]
            self._forget(row)

    def _forget(self, row: int) -> None:
        self._allowed.forget(row)
        found = self._found.pop(row, None)
        if found is None:
            return
        self._known[row] = False
        self._namespaces_of.pop(row, None)
        self._gang_rows.discard(row)
        self._generous_rows.discard(row)
        if isinstance(found, Candidate):
            del self._order[bisect_left(self._order, self._ranks.pop(row))]
        else:
            self._reason_counts.subtract(found)

    def _forget_all_but_searched(self, resource_only: bool) -> None:
        """Keep no answers but, while the search goes on, what it has found."""
        if resource_only or not self._searching:
            self._forget_all()

    def _forget_all(self) -> None:
        self._allowed.forget_all()
        self._known[:] = False
        self._found.clear()
        self._ranks.clear()
        self._whole_gangs.clear()
        self._order.clear()
        self._reason_counts.clear()
        self._namespaces_of.clear()
        self._gang_rows.clear()
        self._generous_rows.clear()
