"""DefaultBinder: bind by posting a Binding."""

from __future__ import annotations

from arranger.api.effects import Bind, ObjectKey
from arranger.cluster.pod_info import PodInfo
from arranger.framework import CycleState, SpecOnlyPlugin


class DefaultBinder(SpecOnlyPlugin):
    """Post a Binding, with the pod's uid as precondition."""

    queueing_hints = ()

    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Bind:
        """The Binding of this incarnation of the pod."""
        metadata = pod.pod.metadata
        return Bind(ObjectKey(metadata.namespace, metadata.name, metadata.uid), node)
