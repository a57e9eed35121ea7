"""Refuse what later plugins will place, instead of guessing."""

from __future__ import annotations

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.plugin import Reads
from arranger.framework.profile import SpecPlugin
from arranger.framework.status import Code, CycleState, Status
from arranger.framework.wakeup import EventKind, WakeUp
from arranger.framework.what_if import WhatIf


class NotYetSupported(SpecPlugin):
    """Reject pods with resource claims (dynamic resource allocation)."""

    reads = Reads.NODE
    wake_on = (WakeUp(EventKind.OWN_UPDATE),)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Pass pods whose place the other plugins can tell."""
        state[self.name] = True
        claims = [claim.name for claim in pod.pod.spec.resource_claims]
        if not claims:
            return None
        return self.reject(f"resource claims are not supported yet: {claims}", resolvable=False)

    def post_filter(
        self, state: CycleState, pod: PodInfo, what_if: WhatIf, diagnosis: Diagnosis
    ) -> Status | None:
        """Say what kube-scheduler's DynamicResources says of a pod without claims to give back.

        It does not get as far with a pod that an earlier PreFilter refused: it misses its notes,
        and that error is the end of PostFilter.
        """
        if self.name not in state:
            return Status(Code.ERROR, ("not found",), self.name)
        return self.reject("no new claims to deallocate")
