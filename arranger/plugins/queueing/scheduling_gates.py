"""SchedulingGates: a pod with gates stays out of the queue."""

from __future__ import annotations

from arranger.cluster.pod_info import PodInfo
from arranger.framework import ActionType, DependsOn, QueueingHint, SpecOnlyPlugin, Status


class SchedulingGates(SpecOnlyPlugin):
    """Hold back pods whose ``spec.schedulingGates`` is not empty."""

    depends_on = DependsOn.NODE
    queueing_hints = (QueueingHint(ActionType.OWN_UPDATE),)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Pass once the last gate is gone."""
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return self.reject(f"waiting for scheduling gates: [{names}]", resolvable=False)
