"""DefaultBinder: bind by posting a Binding."""

from __future__ import annotations

from arranger.api.effects import Bind, PodRef
from arranger.cluster.pod_info import PodInfo
from arranger.framework.runtime.profile import SpecPlugin
from arranger.framework.status import CycleState


class DefaultBinder(SpecPlugin):
    """Post a Binding, with the pod's uid as precondition."""

    wake_on = ()

    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Bind:
        """The Binding of this incarnation of the pod."""
        metadata = pod.pod.metadata
        return Bind(PodRef(metadata.namespace, metadata.name, metadata.uid), node)
