"""TaintToleration: taints keep pods away, or make them prefer other nodes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from arranger.api.selectors import untolerated_taints
from arranger.api.types.core import Toleration
from arranger.cluster import BoolArray, IntArray, NodeTable, NodeView, PodInfo
from arranger.framework import Code, CycleState, DependsOn, FilterResult, Rejection, SpecOnlyPlugin
from arranger.framework.cluster_event import ActionType, ClusterEvent, QueueingHint
from arranger.plugins.helpers.node_signatures import signature_of
from arranger.plugins.helpers.normalize_score import default_normalize_score
from arranger.plugins.helpers.taints import tolerates_hard_taints

REASON: Final = Rejection(("node(s) had untolerated taint(s)",), Code.UNRESOLVABLE)
SOFT_EFFECTS: Final = ("PreferNoSchedule",)


def _now_tolerated(pod: PodInfo, event: ClusterEvent) -> bool:
    if event.node is None:
        return False
    tolerations = pod.pod.spec.tolerations
    if not tolerates_hard_taints(event.node.spec.taints, tolerations):
        return False
    before = event.node_before
    return before is None or not tolerates_hard_taints(before.spec.taints, tolerations)


class _TaintListResults:
    """The results for each distinct taint list, worked out once and looked up by its id."""

    __slots__ = ("_preferring", "_tolerations", "allowed", "soft_counts")

    def __init__(self, tolerations: Sequence[Toleration]) -> None:
        self._tolerations = tolerations
        self._preferring = [t for t in tolerations if t.effect in ("", *SOFT_EFFECTS)]
        self.allowed: BoolArray = np.zeros(0, dtype=np.bool_)
        self.soft_counts: IntArray = np.zeros(0, dtype=np.int64)

    def extend(self, table: NodeTable) -> None:
        """Work out those of lists that have been interned since."""
        known = len(self.allowed)
        if len(table.taint_lists) == known:
            return
        taints = [table.taints_of(number) for number in range(known, len(table.taint_lists))]
        allowed = [tolerates_hard_taints(of_node, self._tolerations) for of_node in taints]
        tolerated = self._preferring
        soft_counts = [len(untolerated_taints(each, tolerated, SOFT_EFFECTS)) for each in taints]
        self.allowed = np.append(self.allowed, np.array(allowed, dtype=np.bool_))
        self.soft_counts = np.append(self.soft_counts, np.array(soft_counts, dtype=np.int64))


class TaintToleration(SpecOnlyPlugin):
    """Reject nodes with a taint the pod does not tolerate; mark down PreferNoSchedule."""

    depends_on = DependsOn.NODE
    score_of_zeros = 100
    queueing_hints = (
        QueueingHint(ActionType.NODE_ADDED | ActionType.NODE_TAINTS, _now_tolerated),
        QueueingHint(ActionType.OWN_UPDATE),
    )

    def sign_pod_for_nodes(self, pod: PodInfo) -> Hashable | None:
        """The tolerations."""
        return signature_of(pod.pod.spec.tolerations)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes whose NoSchedule and NoExecute taints are tolerated."""
        return FilterResult(self._results(state, pod, nodes).allowed.take(nodes.taints), REASON)

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """Count the PreferNoSchedule taints that are not tolerated."""
        return self._results(state, pod, nodes).soft_counts.take(nodes.taints)

    def normalize_score(self, scores: IntArray, feasible: BoolArray) -> IntArray:
        """The fewest taints give the most points."""
        return default_normalize_score(scores, feasible, reverse=True)

    def _results(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> _TaintListResults:
        results: _TaintListResults | None = state.get(self.name)
        if results is None:
            results = state[self.name] = _TaintListResults(pod.pod.spec.tolerations)
        results.extend(nodes.table)
        return results
