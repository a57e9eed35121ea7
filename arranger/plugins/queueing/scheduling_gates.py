"""SchedulingGates: a pod with gates stays out of the queue."""

from __future__ import annotations

from arranger.cluster.pod_info import PodInfo
from arranger.framework.cluster_event import EventKind, WakeUp
from arranger.framework.interface import Reads
from arranger.framework.runtime.profile import SpecPlugin
from arranger.framework.status import Status


class SchedulingGates(SpecPlugin):
    """Hold back pods whose ``spec.schedulingGates`` is not empty."""

    reads = Reads.NODE
    wake_on = (WakeUp(EventKind.OWN_UPDATE),)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Pass once the last gate is gone."""
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return self.reject(f"waiting for scheduling gates: [{names}]", resolvable=False)
