"""One equivalence class of pods evaluated against all nodes, and kept current cheaply.

Pods with equal signatures get equal results, so the first pays for evaluating every node and the
next only for the rows that changed since: usually the one the previous pod was placed on. The
result is the same as from scratch each time, which a property test checks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from dataclasses import replace

import numpy as np

from arranger.api.tracing import NO_TRACER, Tracer
from arranger.cluster import BoolArray, Cluster, IntArray, NodeView, PodInfo, RowChange
from arranger.framework.diagnosis import PRE_FILTER_RESULT, Diagnosis, PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.interface import DependsOn, Plugin, PreFilterResult
from arranger.framework.runtime.active_plugins import NO_SCORERS, ActiveScorers, ScoreEntry
from arranger.framework.runtime.largest_score import LargestScore
from arranger.framework.runtime.plugin_errors import plugin_errors
from arranger.framework.runtime.pre_filter import run_pre_filter
from arranger.framework.runtime.profile import Profile
from arranger.framework.runtime.run import explain_filter, run_filter, run_pre_score, run_score
from arranger.framework.status import Code, CycleState, Status

#: With more than this share of the rows changed, redoing all of them costs no more.
_FULL_REFRESH_SHARE = 0.25
#: Rows that a plugin judges or scores in one unit of an attempt's work.
_ROWS_PER_UNIT = 150


class Evaluation:
    """Which nodes a class of pods may run on, and how good each is.

    Attributes:
        state: the plugins' data, shared by the class.
        pre_filter_status: PreFilter's status if it rejected the class as a whole.
        feasible: row → whether every filter passes.
        total_scores: row → weighted sum of normalised scores, -1 where infeasible.
    """

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        pod: PodInfo,
        *,
        scoring: bool = True,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        """Without ``scoring`` it only finds the feasible rows, for less."""
        self._scoring = scoring
        self._tracer = tracer
        self._profile = profile
        self._cluster = cluster
        self._pod = pod
        self._cluster_pre_filters = profile.cluster_pre_filters
        self._cluster_pre_scorers = profile.cluster_pre_scorers if scoring else ()
        self._version = 0
        self._diagnosis: Diagnosis | None = None
        self.pre_filter_status: Status | None = None
        self.state = CycleState()
        self._rebuild()

    def best_row(self, allowed: BoolArray | None = None) -> int:
        """The best row, the lowest of equals; -1 if none is feasible.

        ``allowed`` leaves only some rows to choose from; scores stay those among all.
        """
        if self.pre_filter_status is not None or not len(self.total_scores):
            return -1
        scores = self.total_scores
        if allowed is None:
            row = self._largest.first_row()
        else:
            scores = np.where(allowed, scores, -1)
            row = int(scores.argmax())
        return row if scores[row] >= 0 else -1

    @property
    def fits_when_empty(self) -> BoolArray:
        """Row → whether the filters pass that depend on the node alone, not on its pods."""
        if self.pre_filter_status is not None:
            return np.zeros(self._size, dtype=np.bool_)
        return self._static_feasible

    @property
    def pod_dependent_filters(self) -> frozenset[str]:
        """The plugins whose Filter depends on the pods on nodes, for this class."""
        if self.pre_filter_status is not None:
            return frozenset({self.pre_filter_status.plugin})
        return frozenset(p.name for p in (*self._usage_filters, *self._cluster_filters))

    @property
    def unconcerned_plugins(self) -> Set[str]:
        """The plugins that have nothing to say about this class: their PreFilter skipped it, or was
        not asked any more."""
        return self._pre_filter.unconcerned

    def scores(self) -> dict[str, IntArray]:
        """Plugin → normalised and weighted scores by row, for the plugins that scored."""
        return dict(self._weighted)

    def diagnosis(self) -> Diagnosis:
        """Why the infeasible rows are infeasible, as of the last refresh."""
        if self._diagnosis is None:
            self._diagnosis = self._diagnose()
        return replace(self._diagnosis)

    def _diagnose(self) -> Diagnosis:
        table = self._cluster.table
        diagnosis = Diagnosis(nodes=table.count, pre_filter_status=self.pre_filter_status)
        if self.pre_filter_status is not None:
            return diagnosis
        view = NodeView(table)
        rejection_index = np.full(table.size, -1, dtype=np.int64)
        undecided = table.alive[: table.size].copy()
        allowed = self._pre_filter.allowed_rows
        if allowed is not None and (outside := undecided & ~allowed).any():
            plugins = " ".join(self._pre_filter.restricted_by)
            reason = f"node(s) didn't satisfy plugin(s) [{plugins}]"
            rejection = Rejection((reason,), Code.UNRESOLVABLE)
            diagnosis.rejections.append(PluginRejection(PRE_FILTER_RESULT, rejection))
            rejection_index[outside] = 0
            undecided &= allowed
        for plugin in _in_order_of_explanation(self._filters):
            if not undecided.any() and not plugin.explains_first:
                continue
            rejections, index_here = explain_filter(plugin, self.state, self._pod, view)
            hit = undecided & (index_here >= 0)
            if hit.any():
                told, places = np.unique(index_here[hit], return_inverse=True)
                rejection_index[hit] = places + len(diagnosis.rejections)
                rejections = [rejections[kind] for kind in told.tolist()]
                undecided &= ~hit
            elif not plugin.explains_first or (index_here < 0)[table.alive[: table.size]].any():
                continue
            diagnosis.rejections += [PluginRejection(plugin.name, kind) for kind in rejections]
        diagnosis.rejection_index = rejection_index
        return diagnosis

    def refresh(self) -> None:
        """Bring everything up to the present state of the cluster."""
        table = self._cluster.table
        external_version = self._read_external_version()
        if self._version == table.version and self._external_version == external_version:
            return
        self._diagnosis = None
        changes = table.changed_since(self._version)
        if (
            changes is None
            or self.pre_filter_status is not None
            or self._external_version != external_version
            or table.size != self._size
            or len(changes) > table.size
        ):
            self._rebuild()
            return
        node_changed = any(change is RowChange.NODE for change, _ in changes)
        if (node_changed and self._node_sensitive) or not self._pre_filters_unchanged():
            self._rebuild()
            return
        self._version = table.version
        self._tracer.step("Refresh")
        self._refresh_rows(self._view_of({row for _, row in changes}), node_changed)

    def _read_external_version(self) -> Hashable:
        """The version of what the class depends on beside the node table.

        Storage changes all the time where volumes come and go; only pods with volumes depend on it.
        """
        objects = self._cluster.objects
        if not self._pod.volumes:
            return objects.version
        in_use = self._cluster.table.pvc_use_counts
        used = [claim in in_use for claim in self._pod.pvc_keys]
        return objects.version, objects.storage_version, tuple(used)

    def _view_of(self, rows: set[int]) -> NodeView:
        table = self._cluster.table
        if len(rows) == 1:
            (row,) = rows
            return NodeView(table, slice(row, row + 1))
        if len(rows) > _FULL_REFRESH_SHARE * table.size:
            return NodeView(table)
        return NodeView(table, np.array(sorted(rows), dtype=np.int64))

    def _rebuild(self) -> None:
        table = self._cluster.table
        self._version = table.version
        self._external_version: Hashable = self._read_external_version()
        self._size: int = table.size
        self._diagnosis = None
        self.state.clear()
        self._raw: dict[str, IntArray] = {}
        self._weighted: dict[str, IntArray] = {}
        self.feasible: BoolArray = np.zeros(table.size, dtype=np.bool_)
        self.total_scores: IntArray = np.full(table.size, -1, dtype=np.int64)
        self._largest = LargestScore(self.total_scores)
        self._tracer.step("PreFilter")
        self._pre_filter = run_pre_filter(self._profile, self.state, self._pod, self._cluster)
        self.pre_filter_status = self._pre_filter.status
        skipped = self._pre_filter.skipped
        filters = self._profile.active.filters(skipped)
        self._filters, self._node_filters = filters.all, filters.node
        self._usage_filters, self._cluster_filters = filters.usage, filters.cluster
        self._use_scorers(NO_SCORERS)
        if self.pre_filter_status is None:
            self._tracer.step("Filter")
            self._filter_all()
            if self._scoring:
                self._tracer.step("Score")
                self._score_all()
            else:
                self._sum_scores()
        active = [*filters.all, *(scorer.plugin for scorer in self._scorers)]
        self._cluster.work.count(len(active) * table.size // _ROWS_PER_UNIT)
        self._node_sensitive: bool = self._pre_filter.allowed_rows is not None or any(
            plugin.depends_on is DependsOn.NODES for plugin in active
        )

    def _pre_filters_unchanged(self) -> bool:
        """Rerun PreFilter where it depends on everything; whether the same filters run."""
        skipped = self._pre_filter.skipped
        for plugin in self._cluster_pre_filters:
            name = plugin.name
            with plugin_errors(name, "PreFilter"):
                answer = plugin.pre_filter(self.state, self._pod, self._cluster)
            if isinstance(answer, PreFilterResult) or (answer is not None and answer.rejected):
                return False
            if _is_skip(answer) != (name in skipped):
                return False
        return True

    def _pre_scores_unchanged(self, view: NodeView) -> bool:
        for plugin in self._cluster_pre_scorers:
            answer = run_pre_score(plugin, self.state, self._pod, view, self.feasible)
            if _is_skip(answer) != (plugin.name in self._skipped_scores):
                return False
        return True

    def _filter_all(self) -> None:
        view = NodeView(self._cluster.table)
        #: Row → whether the filters pass that depend on the node's object only;
        self._static_feasible = self._candidate_rows(view).copy()
        for plugin in self._node_filters:
            self._static_feasible &= self._node_mask(plugin, view)
        #: with those that depend on its pods as well;
        self._node_feasible = self._run_filters(self._usage_filters, view, self._static_feasible)
        #: with those that depend on the whole cluster as well.
        self.feasible = self._node_feasible
        if self._cluster_filters:
            self.feasible = self._run_filters(self._cluster_filters, view, self._node_feasible)

    def _node_mask(self, plugin: Plugin, view: NodeView) -> BoolArray:
        """What a plugin's Filter says of all nodes; shared by the classes that agree about it."""
        sign, pod = self._profile.node_signers.get(plugin.name), self._pod
        signature = None if sign is None else sign(pod)
        if signature is None:
            return run_filter(plugin, self.state, pod, view).passes
        results, key = self._cluster.node_results, (plugin, signature)
        return results.mask(key, lambda: run_filter(plugin, self.state, pod, view).passes)

    def _all_scores(self, plugin: Plugin, view: NodeView) -> IntArray:
        """A plugin's raw scores of all nodes, shared in the same way."""
        sign, pod, state = self._profile.node_signers.get(plugin.name), self._pod, self.state
        signature = None if sign is None else sign(pod)
        if signature is None:
            return run_score(plugin, state, pod, view, self._scorable_rows(plugin))
        results, key, every = self._cluster.node_results, (plugin, signature), view.alive
        return results.scores(key, lambda: run_score(plugin, state, pod, view, every))

    def _candidate_rows(self, view: NodeView) -> BoolArray:
        allowed = self._pre_filter.allowed_rows
        return view.alive if allowed is None else view.alive & allowed[view.rows]

    def _run_filters(
        self, plugins: tuple[Plugin, ...], view: NodeView, passes: BoolArray
    ) -> BoolArray:
        passes = passes.copy()
        for plugin in plugins:
            passes &= run_filter(plugin, self.state, self._pod, view).passes
        return passes

    def _score_all(self) -> None:
        view = NodeView(self._cluster.table)
        self._skipped_scores = set[str]()
        for plugin in self._profile.plugins_at("pre_score"):
            answer = run_pre_score(plugin, self.state, self._pod, view, self.feasible)
            if _is_skip(answer):
                self._skipped_scores.add(plugin.name)
        self._use_scorers(self._profile.active.scorers(self._skipped_scores))
        for scorer in self._scorers:
            raw = self._all_scores(scorer.plugin, view)
            if scorer.normalized:
                self._raw[scorer.name] = raw.astype(np.int64, copy=True)
                self._normalize_and_weigh(scorer)
            else:
                self._weighted[scorer.name] = raw * scorer.weight
        self._sum_scores()

    def _use_scorers(self, scorers: ActiveScorers) -> None:
        self._scorers, self._normalized = scorers.all, scorers.normalized
        self._cluster_scorers, self._usage_scorers = scorers.cluster, scorers.usage
        self._row_scorers = scorers.rows

    def _scorable_rows(self, plugin: Plugin) -> BoolArray:
        """The rows that can become feasible before the plugin is run on them again."""
        if plugin.depends_on is DependsOn.CLUSTER:
            return self.feasible
        usage = plugin.depends_on is DependsOn.USAGE
        return self._node_feasible if usage else self._static_feasible

    def _normalize_and_weigh(self, scorer: ScoreEntry) -> None:
        scores = scorer.plugin.normalize_score(self._raw[scorer.name], self.feasible)
        self._weighted[scorer.name] = scores * scorer.weight

    def _sum_scores(self) -> None:
        total = np.zeros(self._size, dtype=np.int64)
        for weighted in self._weighted.values():
            total += weighted
        self.total_scores = np.where(self.feasible, total, -1)
        self._largest = LargestScore(self.total_scores)

    def _refresh_rows(self, view: NodeView, node_changed: bool) -> None:
        """Redo the rows of ``view``, and all rows for plugins that depend on everything."""
        rows, whole = view.rows, len(self._cluster_filters) + len(self._cluster_scorers)
        self._cluster.work.count(whole * self._size // _ROWS_PER_UNIT)
        if node_changed:
            candidates = self._candidate_rows(view)
            self._static_feasible[rows] = self._run_filters(self._node_filters, view, candidates)
        node_feasible = self._run_filters(self._usage_filters, view, self._static_feasible[rows])
        feasible_changed = bool((node_feasible != self._node_feasible[rows]).any())
        # Without cluster filters this is ``feasible`` itself.
        self._node_feasible[rows] = node_feasible
        if self._cluster_filters:
            before = self.feasible
            full_view = NodeView(self._cluster.table)
            self.feasible = self._run_filters(self._cluster_filters, full_view, self._node_feasible)
            feasible_changed = not np.array_equal(before, self.feasible)
        stale: set[str] = set()
        for scorer in self._row_scorers if node_changed else self._usage_scorers:
            plugin, name = scorer.plugin, scorer.name
            raw = run_score(plugin, self.state, self._pod, view, self._scorable_rows(plugin)[rows])
            if scorer.normalized:
                self._raw[name][rows] = raw
                stale.add(name)
            else:
                self._weighted[name][rows] = raw * scorer.weight if scorer.weight > 1 else raw
        if not self._rescore_cluster_plugins(stale):
            self._rebuild()
            return
        if stale or (feasible_changed and self._normalized):
            # Normalising looks at all feasible rows, so all scores may have changed.
            for scorer in self._normalized:
                if feasible_changed or scorer.name in stale:
                    self._normalize_and_weigh(scorer)
        elif not self._cluster_filters:
            total = np.zeros(view.length, dtype=np.int64)
            for weighted in self._weighted.values():
                total += weighted[rows]
            self.total_scores[rows] = np.where(self.feasible[rows], total, -1)
            self._largest.on_changed(rows)
            return
        self._sum_scores()

    def _rescore_cluster_plugins(self, stale: set[str]) -> bool:
        """Score all rows again by the plugins that depend on everything.

        Returns ``False`` if other plugins than before score now.
        """
        full_view = NodeView(self._cluster.table)
        if not self._pre_scores_unchanged(full_view):
            return False
        for scorer in self._cluster_scorers:
            raw = run_score(scorer.plugin, self.state, self._pod, full_view, self.feasible)
            stale.add(scorer.name)
            if scorer.normalized:
                self._raw[scorer.name] = raw.astype(np.int64, copy=True)
            else:
                self._weighted[scorer.name] = raw * scorer.weight
        return True


def _in_order_of_explanation(filters: Sequence[Plugin]) -> list[Plugin]:
    """The filters in the order in which their reasons are told."""
    first = [plugin for plugin in filters if plugin.explains_first]
    if not first:
        return list(filters)
    others = [plugin for plugin in filters if not plugin.explains_first]
    usage = (n for n, plugin in enumerate(others) if plugin.depends_on >= DependsOn.USAGE)
    at = next(usage, len(others))
    return [*others[:at], *first, *others[at:]]


def _is_skip(answer: object) -> bool:
    return isinstance(answer, Status) and answer.code is Code.SKIP
