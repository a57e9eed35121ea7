"""Refuse what later plugins will place, instead of guessing."""

from __future__ import annotations

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo, binds_to_place
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.plugin import Reads
from arranger.framework.profile import SpecPlugin
from arranger.framework.status import CycleState, Status
from arranger.framework.wakeup import EventKind, WakeUp
from arranger.framework.what_if import WhatIf


class NotYetSupported(SpecPlugin):
    """Reject pods with volumes that may tie them to nodes, or with resource claims."""

    reads = Reads.NODE
    wake_on = (WakeUp(EventKind.OWN_UPDATE),)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Pass pods whose place the other plugins can tell."""
        spec = pod.pod.spec
        reasons: list[str] = []
        volumes = [volume.name for volume in spec.volumes if binds_to_place(volume)]
        if volumes:
            reasons.append(f"volumes that may bind to nodes are not supported yet: {volumes}")
        if spec.resource_claims:
            claims = [claim.name for claim in spec.resource_claims]
            reasons.append(f"resource claims are not supported yet: {claims}")
        return self.reject(*reasons, resolvable=False) if reasons else None

    def post_filter(
        self, state: CycleState, pod: PodInfo, what_if: WhatIf, diagnosis: Diagnosis
    ) -> Status | None:
        """Say what kube-scheduler's DynamicResources says of a pod without claims to give back."""
        return self.reject("no new claims to deallocate")
