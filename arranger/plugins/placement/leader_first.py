"""LeaderFirst: the leader gets a quiet node, its workers fill busy ones."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from arranger.cluster import BoolArray, IntArray, NodeTable, NodeView, PodInfo
from arranger.framework.status import CycleState
from arranger.plugins.helpers.args import PluginArgs
from arranger.plugins.placement.policies import NodeUtilization, UtilizationPolicyPlugin, is_leader


class LeaderFirstArgs(PluginArgs):
    """How much more than the rest a leader's accelerators and a worker's CPU count."""

    raised_weight: Annotated[int, Field(ge=1, le=100)] = 3


class LeaderFirst(UtilizationPolicyPlugin):
    """Prefer idle nodes for leaders and busy ones for everybody else."""

    Args = LeaderFirstArgs

    def __init__(self, args: LeaderFirstArgs | None = None) -> None:
        self._raised = (args or LeaderFirstArgs()).raised_weight

    def sign_pod(self, pod: PodInfo) -> tuple[str, bool]:
        """The policies asked for and, with them, the role."""
        asked = str(super().sign_pod(pod))
        return asked, bool(asked) and is_leader(pod.pod)

    def utilization(self, pod: PodInfo, table: NodeTable) -> NodeUtilization:
        """A leader's accelerators count more, or a worker's CPU."""
        if is_leader(pod.pod):
            return NodeUtilization(pod, table, {}, extended_weight=self._raised)
        return NodeUtilization(pod, table, {"cpu": self._raised})

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """For a leader the free share after placement, for others the used one, in per cent."""
        utilization: NodeUtilization = state[self.name]
        used = utilization.percent(nodes)
        return 100 - used if is_leader(pod.pod) else used
