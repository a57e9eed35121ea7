"""TaintToleration: taints keep pods away, or make them prefer other nodes."""

from __future__ import annotations

from typing import Final

import numpy as np

from arranger.api.selectors import untolerated
from arranger.api.types.core import Toleration
from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.node_table import NodeTable
from arranger.cluster.node_view import NodeView
from arranger.cluster.pod_info import PodInfo
from arranger.framework.cluster_event import ClusterEvent, EventKind, WakeUp
from arranger.framework.filter_result import Rejection, Verdicts
from arranger.framework.interface import Reads
from arranger.framework.runtime.profile import SpecPlugin
from arranger.framework.runtime.run import normalize_by_max
from arranger.framework.status import Code, CycleState

REASON: Final = Rejection(("node(s) had untolerated taint(s)",), Code.UNRESOLVABLE)
#: Effects that keep a pod away; PreferNoSchedule only costs points.
HARD: Final = ("NoSchedule", "NoExecute")
SOFT: Final = ("PreferNoSchedule",)


def _now_tolerated(pod: PodInfo, event: ClusterEvent) -> bool:
    """The node's taints are tolerated, and were not before."""
    if event.node is None:
        return False
    tolerations = pod.pod.spec.tolerations
    if untolerated(event.node.spec.taints, tolerations, HARD):
        return False
    before = event.node_before
    return before is None or bool(untolerated(before.spec.taints, tolerations, HARD))


class _Judged:
    """The verdict on each distinct taint list, worked out once and looked up by its id."""

    __slots__ = ("_preferring", "_tolerations", "allowed", "disliked")

    def __init__(self, tolerations: list[Toleration]) -> None:
        self._tolerations = tolerations
        self._preferring = [t for t in tolerations if t.effect in ("", *SOFT)]
        self.allowed: BoolArray = np.zeros(0, dtype=np.bool_)
        self.disliked: IntArray = np.zeros(0, dtype=np.int64)

    def catch_up(self, table: NodeTable) -> None:
        """Judge the lists that have appeared since."""
        known = len(self.allowed)
        if len(table.taint_lists) == known:
            return
        taints = [table.taints_of(number) for number in range(known, len(table.taint_lists))]
        allowed = [not untolerated(of_node, self._tolerations, HARD) for of_node in taints]
        disliked = [len(untolerated(of_node, self._preferring, SOFT)) for of_node in taints]
        self.allowed = np.append(self.allowed, np.array(allowed, dtype=np.bool_))
        self.disliked = np.append(self.disliked, np.array(disliked, dtype=np.int64))


class TaintToleration(SpecPlugin):
    """Reject nodes with a taint the pod does not tolerate; mark down PreferNoSchedule."""

    reads = Reads.NODE
    wake_on = (
        WakeUp(EventKind.NODE_ADDED | EventKind.NODE_TAINTS, _now_tolerated),
        WakeUp(EventKind.OWN_UPDATE),
    )

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> Verdicts:
        """Pass nodes whose NoSchedule and NoExecute taints are tolerated."""
        return Verdicts(self._judged(state, pod, nodes).allowed.take(nodes.taints), REASON)

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """Count the PreferNoSchedule taints that are not tolerated."""
        return self._judged(state, pod, nodes).disliked.take(nodes.taints)

    def normalize(self, scores: IntArray, feasible: BoolArray) -> IntArray:
        """Fewest taints, most points."""
        return normalize_by_max(scores, feasible, reverse=True)

    def _judged(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> _Judged:
        judged = state.get(self.name)
        if judged is None:
            judged = state[self.name] = _Judged(pod.pod.spec.tolerations)
        assert isinstance(judged, _Judged)
        judged.catch_up(nodes.table)
        return judged
