"""One equivalence class of pods evaluated against all nodes, and kept current cheaply.

Pods with equal signatures get equal results, so the first pays for evaluating every node and the
next only for the rows that changed since: usually the one the previous pod was placed on. The
result is the same as from scratch each time, which a property test checks.
"""

from __future__ import annotations

from collections.abc import Hashable, Set

import numpy as np

from arranger.api.tracing import NO_TRACER, Tracer
from arranger.cluster import BoolArray, Cluster, IntArray, NodeView, PodInfo, RowChange
from arranger.cluster.nodes.row_change import NODE_CHANGES
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.interface import DependsOn, Plugin, PreFilterResult, overrides
from arranger.framework.runtime.class_diagnosis import ClassDiagnosis
from arranger.framework.runtime.class_scores import ClassScores
from arranger.framework.runtime.feasible_rows import FeasibleRows
from arranger.framework.runtime.plugin_errors import plugin_errors
from arranger.framework.runtime.pre_filter import run_pre_filter
from arranger.framework.runtime.profile import Profile
from arranger.framework.runtime.run import is_skip, run_filter
from arranger.framework.status import CycleState, Status

#: With more than this share of the rows changed, redoing all of them costs no more.
_FULL_REFRESH_SHARE = 0.25
#: Rows that a plugin judges or scores in one unit of an attempt's work.
_ROWS_PER_UNIT = 150
#: Units to evaluate a class from the beginning, however few the rows are.
_BEGINNING = 300
#: Units to ask a plugin that judges or scores all rows at each change, however few they are.
_ASKING = 20


class Evaluation:
    """Which nodes a class of pods may run on, and how good each is.

    Attributes:
        state: the plugins' data, shared by the class.
        pre_filter_status: PreFilter's status if it rejected the class as a whole.
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
        self._version = 0
        self.pre_filter_status: Status | None = None
        self.state = CycleState()
        self._rebuild()

    @property
    def pod(self) -> PodInfo:
        """The pod of the class that plugins are asked about."""
        return self._pod

    @property
    def feasible(self) -> BoolArray:
        """Row → whether every filter passes."""
        return self._rows.all

    @property
    def total_scores(self) -> IntArray:
        """Row → weighted sum of normalised scores, -1 where infeasible."""
        return self._scores.total

    def best_row(self, allowed: BoolArray | None = None, closed: IntArray | None = None) -> int:
        """The best row, the lowest of equals; -1 if none is feasible.

        Scores stay those among all rows.

        Args:
            allowed: leaves only some rows to choose from.
            closed: the others, if known: where they are few it takes less.
        """
        if self.pre_filter_status is not None or not len(self.total_scores):
            return -1
        scores = self.total_scores
        if closed is not None:
            kept = scores[closed]
            scores[closed] = -1
            row = int(scores.argmax())
            row = row if scores[row] >= 0 else -1
            scores[closed] = kept
            return row
        row = self._scores.first_best_row()
        if allowed is not None and not allowed[row]:
            scores = np.where(allowed, scores, -1)
            row = int(scores.argmax())
        return row if scores[row] >= 0 else -1

    @property
    def fits_when_empty(self) -> BoolArray:
        """Row → whether the filters pass that depend on the node alone, not on its pods."""
        if self.pre_filter_status is not None:
            return np.zeros(self._size, dtype=np.bool_)
        return self._rows.static

    @property
    def pod_dependent_filters(self) -> frozenset[str]:
        """The plugins whose Filter depends on the pods on nodes, for this class."""
        if self.pre_filter_status is not None:
            return frozenset({self.pre_filter_status.plugin})
        return frozenset(p.name for p in (*self._usage_filters, *self._cluster_filters))

    @property
    def filters_about_others(self) -> frozenset[str]:
        """Those of them that may reject the pod for where other pods are, whoever is evicted.

        Without any the answer is the same beside more pods, or fewer, as far as resources go.
        """
        return self.pod_dependent_filters - self._profile.monotone_filters

    @property
    def unconcerned_plugins(self) -> Set[str]:
        """The plugins that have nothing to say about this class: their PreFilter skipped it, or was
        not asked any more."""
        return self._pre_filter.unconcerned

    def scores(self) -> dict[str, IntArray]:
        """Plugin → normalised and weighted scores by row, for the plugins that scored."""
        return self._scores.by_plugin()

    def diagnosis(self) -> Diagnosis:
        """Why the infeasible rows are infeasible, as of the last refresh."""
        return self._diagnosis.current()

    def refresh(self) -> None:
        """Bring everything up to the present state of the cluster."""
        table = self._cluster.table
        external_version = self._read_external_version()
        if self._version == table.version and self._external_version == external_version:
            return
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
        kinds = {change for change, _ in changes}
        node_changed = not kinds.isdisjoint(NODE_CHANGES)
        sensitive = (
            self._node_sensitive if RowChange.NODE in kinds else self._filters_node_sensitive
        )
        if (node_changed and sensitive) or not self._pre_filters_unchanged():
            self._rebuild()
            return
        self._version = table.version
        self._tracer.step("Refresh")
        rows = {row for _, row in changes}
        self._diagnosis.on_changed(rows)
        score_anew = node_changed and self._node_sensitive
        self._refresh_rows(self._view_of(rows), node_changed, score_anew=score_anew)

    def _read_external_version(self) -> Hashable:
        """The version of what the class depends on beside the node table.

        Storage changes all the time where volumes come and go; only pods with volumes depend on it.
        """
        objects = self._cluster.objects
        version = objects.version_for(self._pod.pod.metadata.namespace)
        if not self._pod.volumes:
            return version
        in_use = self._cluster.table.pvc_use_counts
        used = [claim in in_use for claim in self._pod.pvc_keys]
        return version, objects.storage_version, tuple(used)

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
        self.state.clear()
        nowhere: BoolArray = np.zeros(table.size, dtype=np.bool_)
        feasible = self._rows = FeasibleRows(nowhere, nowhere, nowhere)
        self._tracer.step("PreFilter")
        self._pre_filter = run_pre_filter(self._profile, self.state, self._pod, self._cluster)
        self.pre_filter_status = self._pre_filter.status
        skipped = self._pre_filter.skipped
        filters = self._profile.active.filters(skipped)
        self._node_filters = filters.node
        self._usage_filters, self._cluster_filters = filters.usage, filters.cluster
        self._diagnosis = ClassDiagnosis(
            self._cluster, self._pod, self.state, self._pre_filter, filters.all, feasible
        )
        if self.pre_filter_status is None:
            self._tracer.step("Filter")
            self._filter_all()
        self._score_all()
        active = [*filters.all, *self._scores.plugins]
        self._cluster.work.count(_BEGINNING + len(active) * table.size // _ROWS_PER_UNIT)
        of_nodes = [plugin for plugin in active if plugin.depends_on is DependsOn.NODES]
        #: Whether changes of single nodes may change what holds of all, and more than scores.
        self._node_sensitive = bool(of_nodes) or self._pre_filter.allowed_rows is not None
        self._filters_node_sensitive = self._pre_filter.allowed_rows is not None or any(
            plugin in filters.all or overrides(plugin, "pre_filter") for plugin in of_nodes
        )

    def _score_all(self) -> None:
        self._scores = ClassScores(self._profile, self._cluster, self._pod, self.state, self._rows)
        if self.pre_filter_status is None and self._scoring:
            self._tracer.step("Score")
            self._scores.score_all()
        else:
            self._scores.sum_up()

    def _pre_filters_unchanged(self) -> bool:
        """Rerun PreFilter where it depends on everything; whether the same filters run."""
        skipped = self._pre_filter.skipped
        for plugin in self._cluster_pre_filters:
            name = plugin.name
            with plugin_errors(name, "PreFilter"):
                answer = plugin.pre_filter(self.state, self._pod, self._cluster)
            if isinstance(answer, PreFilterResult) or (answer is not None and answer.rejected):
                return False
            if is_skip(answer) != (name in skipped):
                return False
        return True

    def _filter_all(self) -> None:
        view = NodeView(self._cluster.table)
        feasible = self._rows
        feasible.static = self._candidate_rows(view).copy()
        for plugin in self._node_filters:
            feasible.static &= self._node_mask(plugin, view)
        feasible.by_node = self._run_filters(self._usage_filters, view, feasible.static)
        feasible.all = feasible.by_node
        if self._cluster_filters:
            feasible.all = self._run_filters(self._cluster_filters, view, feasible.by_node)

    def _node_mask(self, plugin: Plugin, view: NodeView) -> BoolArray:
        """What a plugin's Filter says of all nodes; shared by the classes that agree about it."""
        sign, pod = self._profile.node_signers.get(plugin.name), self._pod
        signature = None if sign is None else sign(pod)
        if signature is None:
            return run_filter(plugin, self.state, pod, view).passes
        results, key = self._cluster.node_results, (plugin, signature)
        return results.mask(key, lambda: run_filter(plugin, self.state, pod, view).passes)

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

    def _refresh_rows(self, view: NodeView, node_changed: bool, *, score_anew: bool) -> None:
        """Redo the rows of ``view``, and all rows for plugins that depend on everything."""
        rows, feasible = view.rows, self._rows
        whole = len(self._cluster_filters) + self._scores.cluster_plugins
        self._cluster.work.count(whole * (_ASKING + self._size // _ROWS_PER_UNIT))
        if node_changed:
            candidates = self._candidate_rows(view)
            feasible.static[rows] = self._run_filters(self._node_filters, view, candidates)
        by_node = self._run_filters(self._usage_filters, view, feasible.static[rows])
        feasible_changed = bool((by_node != feasible.by_node[rows]).any())
        # Without cluster filters this is ``feasible.all`` itself.
        feasible.by_node[rows] = by_node
        if self._cluster_filters:
            before = feasible.all
            full_view = NodeView(self._cluster.table)
            feasible.all = self._run_filters(self._cluster_filters, full_view, feasible.by_node)
            feasible_changed = not np.array_equal(before, feasible.all)
        if score_anew:
            self._score_all()
        elif not self._scores.refresh_rows(
            view,
            node_changed=node_changed,
            feasible_changed=feasible_changed,
            several=bool(self._cluster_filters),
        ):
            self._rebuild()
