"""How good each node is for one equivalence class of pods, kept current cheaply."""

from __future__ import annotations

from typing import Final

import numpy as np

from arranger.cluster import Cluster, IntArray, NodeView, PodInfo
from arranger.framework.interface import Plugin
from arranger.framework.runtime.active_plugins import NO_SCORERS, ScoreEntry
from arranger.framework.runtime.feasible_rows import FeasibleRows
from arranger.framework.runtime.largest_score import LargestScore
from arranger.framework.runtime.profile import Profile
from arranger.framework.runtime.run import is_skip, run_pre_score, run_score
from arranger.framework.status import CycleState

#: In place of raw scores that make the same score everywhere.
_UNIFORM: Final[IntArray] = np.zeros(0, dtype=np.int64)


class ClassScores:
    """The scores of one class of pods.

    What is the same on every node, as most plugins' scores are for most pods, takes no array.

    Attributes:
        total: row → weighted sum of normalised scores, -1 where infeasible.
    """

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        pod: PodInfo,
        state: CycleState,
        feasible: FeasibleRows,
    ) -> None:
        """No plugin has scored yet, and nothing is summed up."""
        self._profile, self._cluster, self._pod, self._state = profile, cluster, pod, state
        self._feasible = feasible
        self._scorers = NO_SCORERS
        self._skipped = set[str]()
        self._scored = False
        self._raw: dict[str, IntArray] = {}
        self._weighted: dict[str, IntArray] = {}
        #: Plugin → its weighted score of every node, where its raw scores are all 0.
        self._uniform: dict[str, int] = {}
        self.total: IntArray = np.zeros(0, dtype=np.int64)
        self._largest = LargestScore(self.total)

    @property
    def plugins(self) -> list[Plugin]:
        """Those that score this class."""
        return [scorer.plugin for scorer in self._scorers.all]

    @property
    def cluster_plugins(self) -> int:
        """How many of them depend on everything."""
        return len(self._scorers.cluster)

    def by_plugin(self) -> dict[str, IntArray]:
        """Plugin → normalised and weighted scores by row, for the plugins that scored."""
        found = dict(self._weighted)
        for name, score in self._uniform.items():
            found[name] = np.full(len(self.total), score, dtype=np.int64)
        return {scorer.name: found[scorer.name] for scorer in self._scorers.all}

    def first_best_row(self) -> int:
        """The lowest row of those with the largest score; there is at least one row."""
        return self._largest.first_row()

    def score_all(self) -> None:
        """Score every row by every plugin."""
        view, self._scored = NodeView(self._cluster.table), True
        for plugin in self._profile.plugins_at("pre_score"):
            answer = run_pre_score(plugin, self._state, self._pod, view, self._feasible.all)
            if is_skip(answer):
                self._skipped.add(plugin.name)
        self._scorers = self._profile.active.scorers(self._skipped)
        for scorer in self._scorers.all:
            raw = self._raw_scores(scorer, view)
            if raw is _UNIFORM:
                self._uniform[scorer.name] = (scorer.plugin.score_of_zeros or 0) * scorer.weight
            elif scorer.normalized:
                self._raw[scorer.name] = raw.astype(np.int64, copy=True)
                self._normalize_and_weigh(scorer)
            else:
                self._weighted[scorer.name] = raw * scorer.weight
        self.sum_up()

    def refresh_rows(
        self, view: NodeView, *, node_changed: bool, feasible_changed: bool, several: bool
    ) -> bool:
        """Score rows again, and all rows by plugins that depend on everything.

        Args:
            view: the rows that have changed.
            node_changed: whether the object of one of the nodes has.
            feasible_changed: whether any row has become feasible, or ceased to be.
            several: whether that may have happened to rows outside of ``view``.

        Returns:
            ``False`` if other plugins than before score now: everything must be worked out anew.
        """
        rows, feasible = view.rows, self._feasible
        stale: set[str] = set()
        for scorer in self._scorers.rows if node_changed else self._scorers.usage:
            plugin, name = scorer.plugin, scorer.name
            raw = run_score(plugin, self._state, self._pod, view, feasible.scorable(plugin)[rows])
            if name in self._uniform:
                if raw.any():
                    return False
            elif scorer.normalized:
                self._raw[name][rows] = raw
                stale.add(name)
            else:
                self._weighted[name][rows] = raw * scorer.weight if scorer.weight > 1 else raw
        if not self._rescore_cluster_plugins(stale):
            return False
        if stale or (feasible_changed and len(self._raw)):
            # Normalising looks at all feasible rows, so all scores may have changed.
            for scorer in self._scorers.normalized:
                if scorer.name in self._raw and (feasible_changed or scorer.name in stale):
                    self._normalize_and_weigh(scorer)
        elif not several:
            total = np.full(view.length, sum(self._uniform.values()), dtype=np.int64)
            for weighted in self._weighted.values():
                total += weighted[rows]
            self.total[rows] = np.where(feasible.all[rows], total, -1)
            self._largest.on_changed(rows)
            return True
        self.sum_up()
        return True

    def sum_up(self) -> None:
        """Add the scores of all plugins up."""
        feasible, uniform = self._feasible.all, sum(self._uniform.values())
        total: IntArray | None = None
        for weighted in self._weighted.values():
            if total is None:
                total = np.add(weighted, uniform, dtype=np.int64)
            else:
                total += weighted
        if total is None:
            total = np.full(len(feasible), uniform, dtype=np.int64)
        np.copyto(total, -1, where=~feasible)
        self.total = total
        self._largest = LargestScore(total)

    def _raw_scores(self, scorer: ScoreEntry, view: NodeView) -> IntArray:
        """A plugin's raw scores of all nodes, or ``_UNIFORM``.

        Those that depend on the nodes alone are shared by the classes that agree about it.
        """
        plugin, pod, state = scorer.plugin, self._pod, self._state
        sign = self._profile.node_signers.get(scorer.name)
        signature = None if sign is None else sign(pod)
        if signature is None:
            scorable = self._feasible.scorable(plugin)
            return run_score(plugin, state, pod, view, scorable)
        results, key, every = self._cluster.node_results, (plugin, signature), view.alive
        raw = results.scores(key, lambda: run_score(plugin, state, pod, view, every))
        uniform = not scorer.normalized or plugin.score_of_zeros is not None
        return _UNIFORM if uniform and results.are_zero(key) else raw

    def _normalize_and_weigh(self, scorer: ScoreEntry) -> None:
        scores = scorer.plugin.normalize_score(self._raw[scorer.name], self._feasible.all)
        self._weighted[scorer.name] = scores * scorer.weight

    def _pre_scores_unchanged(self, view: NodeView) -> bool:
        for plugin in self._profile.cluster_pre_scorers if self._scored else ():
            answer = run_pre_score(plugin, self._state, self._pod, view, self._feasible.all)
            if is_skip(answer) != (plugin.name in self._skipped):
                return False
        return True

    def _rescore_cluster_plugins(self, stale: set[str]) -> bool:
        """Score all rows again by the plugins that depend on everything.

        Returns ``False`` if other plugins than before score now.
        """
        full_view = NodeView(self._cluster.table)
        if not self._pre_scores_unchanged(full_view):
            return False
        for scorer in self._scorers.cluster:
            raw = run_score(scorer.plugin, self._state, self._pod, full_view, self._feasible.all)
            stale.add(scorer.name)
            if scorer.normalized:
                self._raw[scorer.name] = raw.astype(np.int64, copy=True)
            else:
                self._weighted[scorer.name] = raw * scorer.weight
        return True
