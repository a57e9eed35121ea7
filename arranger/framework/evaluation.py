"""One equivalence class of pods judged against all nodes, and kept current cheaply.

Pods that sign alike get the same verdicts, so the first pays for judging every node and the next
only for the rows that changed since: usually the one the previous pod was placed on. The result is
the same as judging from scratch each time; a property test holds us to that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.node_table import Change
from arranger.cluster.pod_info import PodInfo
from arranger.cluster.view import NodeView
from arranger.framework.diagnosis import PRE_FILTER_RESULT, Diagnosis, Rejected
from arranger.framework.lifting import run_filter, run_score
from arranger.framework.plugin import Plugin, PreFilterResult, Reads, overrides
from arranger.framework.profile import Profile
from arranger.framework.status import Code, CycleState, Status
from arranger.framework.verdicts import Rejection

#: Judging this share of the rows again costs as much as judging all of them.
_REDO_ALL_ABOVE = 0.25


class Evaluation:
    """Which nodes a class of pods may run on, and how good each is.

    Attributes:
        state: the plugins' notes, shared by the class.
        refusal: PreFilter's answer if it rejected the class as a whole.
        feasible: row → whether every filter passes.
        ranked: row → weighted sum of scores, -1 where infeasible.
    """

    def __init__(self, profile: Profile, cluster: Cluster, pod: PodInfo) -> None:
        self._profile = profile
        self._cluster = cluster
        self._pod = pod
        self._version = 0
        self._diagnosis: Diagnosis | None = None
        self._size = 0
        self._whole_cluster = False
        self._node_sensitive = False
        self.state = CycleState()
        self.refusal: Status | None = None
        self._start_over()

    # --- answers ---------------------------------------------------------------------------

    def best(self) -> int:
        """The best row, the lowest of equals; -1 if none is feasible."""
        if self.refusal is not None or not len(self.ranked):
            return -1
        row = int(self.ranked.argmax())
        return row if self.ranked[row] >= 0 else -1

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
        diagnosis = Diagnosis(nodes=table.count, refusal=self.refusal)
        if self.refusal is not None:
            return diagnosis
        view = NodeView(table)
        kind_of = np.full(table.size, -1, dtype=np.int64)
        undecided = table.alive[: table.size].copy()
        if self._allowed is not None:
            outside = undecided & ~self._allowed
            if outside.any():
                reason = f"node(s) didn't satisfy plugin(s) [{' '.join(self._restricted_by)}]"
                diagnosis.kinds.append(
                    Rejected(PRE_FILTER_RESULT, Rejection((reason,), Code.UNRESOLVABLE))
                )
                kind_of[outside] = 0
                undecided &= self._allowed
        for plugin in self._filters:
            if not undecided.any():
                break
            kinds, kind_here = run_filter(plugin, self.state, self._pod, view).rejections()
            hit = undecided & (kind_here >= 0)
            if hit.any():
                kind_of[hit] = kind_here[hit] + len(diagnosis.kinds)
                diagnosis.kinds.extend(Rejected(plugin.name, kind) for kind in kinds)
                undecided &= ~hit
        diagnosis.kind_of = kind_of
        return diagnosis

    # --- keeping current -------------------------------------------------------------------

    def refresh(self) -> None:
        """Bring every answer up to the present state of the cluster."""
        table = self._cluster.table
        if self._version == table.version:
            return
        self._diagnosis = None
        changes = table.changed_since(self._version)
        if changes is None or table.size != self._size or len(changes) > table.size:
            self._start_over()
            return
        node_changed = any(change is Change.NODE for change, _ in changes)
        if self._whole_cluster or (node_changed and self._node_sensitive):
            self._start_over()
            return
        self._version = table.version
        if self.refusal is not None:
            return
        if len(changes) == 1:
            row = changes[0][1]
            self._judge_again(NodeView(table, slice(row, row + 1)), node_changed)
            return
        rows = np.unique(np.fromiter((row for _, row in changes), dtype=np.int64))
        if len(rows) > _REDO_ALL_ABOVE * table.size:
            self._judge_again(NodeView(table), node_changed)
        elif len(rows) == 1:
            self._judge_again(NodeView(table, slice(int(rows[0]), int(rows[0]) + 1)), node_changed)
        else:
            self._judge_again(NodeView(table, rows), node_changed)

    def _start_over(self) -> None:
        table = self._cluster.table
        self._version = table.version
        self._size = table.size
        self._diagnosis = None
        self.state.clear()
        self.refusal = None
        self._allowed: BoolArray | None = None
        self._restricted_by: list[str] = []
        self._raw: dict[str, IntArray] = {}
        self._weighted: dict[str, IntArray] = {}
        self.feasible: BoolArray = np.zeros(table.size, dtype=np.bool_)
        self.ranked: IntArray = np.full(table.size, -1, dtype=np.int64)
        skipped = self._pre_filter()
        self._filters = tuple(p for p in self._profile.at("filter") if p.name not in skipped)
        self._scorers: tuple[Plugin, ...] = ()
        self._normalized: tuple[Plugin, ...] = ()
        if self.refusal is None:
            self._filter_all()
            self._score_all()
        self._classify_plugins(skipped)

    def _classify_plugins(self, skipped: set[str]) -> None:
        active = {p.name: p for p in (*self._filters, *self._scorers)}
        for plugin in self._profile.at("pre_filter"):
            if plugin.name not in skipped:
                active[plugin.name] = plugin
        #: Some active plugin depends on everything: any change means starting over.
        self._whole_cluster = any(p.reads is Reads.CLUSTER for p in active.values())
        #: A node's change may alter other rows' verdicts or the PreFilter result.
        self._node_sensitive = self._allowed is not None or any(
            p.reads is Reads.NODES for p in active.values()
        )
        # What to redo on a row when its pods, or when its node changed.
        self._stale_scorers = {
            node_changed: tuple(
                (p, p.name, self._profile.weights[p.name], p in self._normalized)
                for p in self._scorers
                if node_changed or p.reads is Reads.USAGE
            )
            for node_changed in (False, True)
        }

    def _pre_filter(self) -> set[str]:
        """Run PreFilter; returns the names of plugins whose Filter is to be skipped."""
        skipped: set[str] = set()
        names: frozenset[str] | None = None
        for plugin in self._profile.at("pre_filter"):
            answer = plugin.pre_filter(self.state, self._pod, self._cluster)
            if answer is None:
                continue
            if isinstance(answer, PreFilterResult):
                names = answer.node_names if names is None else names & answer.node_names
                self._restricted_by = sorted([*self._restricted_by, plugin.name])
                if not names:
                    self.refusal = self._no_node_left()
                    return skipped
            elif answer.code is Code.SKIP:
                skipped.add(plugin.name)
            elif answer.rejected:
                self.refusal = replace(answer, plugin=answer.plugin or plugin.name)
                if answer.code is not Code.UNSCHEDULABLE:
                    return skipped
                # Evictions may help, unless a later plugin knows better.
        if names is not None:
            self._allowed = np.zeros(self._size, dtype=np.bool_)
            self._allowed[self._cluster.table.rows(names)] = True
        return skipped

    def _no_node_left(self) -> Status:
        by = self._restricted_by
        reason = f"node(s) didn't satisfy plugin(s) [{' '.join(by)}] simultaneously"
        if len(by) == 1:
            reason = f"node(s) didn't satisfy plugin {by[0]}"
        return Status(Code.UNRESOLVABLE, (reason,), by[-1])

    def _filter_all(self) -> None:
        view = NodeView(self._cluster.table)
        self._usage_filters = tuple(p for p in self._filters if p.reads is Reads.USAGE)
        self._node_filters = tuple(p for p in self._filters if p.reads is not Reads.USAGE)
        #: row → whether every filter passes that does not look at the pods on the node.
        self._fixed: BoolArray = self._run_filters(self._node_filters, view, self._present(view))
        self.feasible = self._run_filters(self._usage_filters, view, self._fixed)

    def _present(self, view: NodeView) -> BoolArray:
        """The rows that are nodes, and that PreFilter allows."""
        return view.alive if self._allowed is None else view.alive & self._allowed[view.rows]

    def _run_filters(
        self, plugins: tuple[Plugin, ...], view: NodeView, passes: BoolArray
    ) -> BoolArray:
        """``passes`` and the filters' verdicts together, in a new array."""
        passes = passes.copy()
        for plugin in plugins:
            passes &= run_filter(plugin, self.state, self._pod, view).passes
        return passes

    def _score_all(self) -> None:
        view = NodeView(self._cluster.table)
        skipped = set()
        for plugin in self._profile.at("pre_score"):
            answer = plugin.pre_score(self.state, self._pod, view, self.feasible)
            if answer is not None and answer.code is Code.SKIP:
                skipped.add(plugin.name)
        self._scorers = tuple(p for p in self._profile.at("score") if p.name not in skipped)
        self._normalized = tuple(p for p in self._scorers if overrides(p, "normalize"))
        for plugin in self._scorers:
            raw = run_score(plugin, self.state, self._pod, view, self.feasible)
            if plugin in self._normalized:
                self._raw[plugin.name] = raw.astype(np.int64, copy=True)
                self._weigh(plugin)
            else:
                self._weighted[plugin.name] = raw * self._profile.weights[plugin.name]
        self._rank_all()

    def _weigh(self, plugin: Plugin) -> None:
        scores = plugin.normalize(self._raw[plugin.name], self.feasible)
        self._weighted[plugin.name] = scores * self._profile.weights[plugin.name]

    def _rank_all(self) -> None:
        total = np.zeros(self._size, dtype=np.int64)
        for weighted in self._weighted.values():
            total += weighted
        self.ranked = np.where(self.feasible, total, -1)

    def _judge_again(self, view: NodeView, node_changed: bool) -> None:
        """Redo the rows of ``view`` for the plugins that can have changed their mind."""
        rows = view.rows
        if node_changed:
            self._fixed[rows] = self._run_filters(self._node_filters, view, self._present(view))
        feasible = self._run_filters(self._usage_filters, view, self._fixed[rows])
        regrouped = bool((feasible != self.feasible[rows]).any())
        self.feasible[rows] = feasible
        again: set[str] = set()
        for plugin, name, weight, normalized in self._stale_scorers[node_changed]:
            raw = run_score(plugin, self.state, self._pod, view, feasible)
            if normalized:
                self._raw[name][rows] = raw
                again.add(name)
            else:
                self._weighted[name][rows] = raw * weight if weight > 1 else raw
        if self._normalized and (regrouped or again):
            # Normalising looks at all feasible rows, so all of them may have moved.
            for plugin in self._normalized:
                if regrouped or plugin.name in again:
                    self._weigh(plugin)
            self._rank_all()
            return
        total = np.zeros(view.length, dtype=np.int64)
        for weighted in self._weighted.values():
            total += weighted[rows]
        self.ranked[rows] = np.where(feasible, total, -1)
