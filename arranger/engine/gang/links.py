"""Which pods belong together: questions about gangs that need only the registry."""

from __future__ import annotations

from collections.abc import Sequence

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.gangs.gang import MemberState
from arranger.gangs.registry import GangRegistry


class GangLinks:
    """Says who leaves together and whose gang is bound in part."""

    def __init__(self, registry: GangRegistry, cluster: Cluster) -> None:
        self._registry = registry
        self._cluster = cluster

    def in_gang(self, pod: PodInfo) -> bool:
        """Whether a pod is in a gang."""
        return self._registry.gang_of(pod.uid) is not None

    def group_uids(self, pod: PodInfo) -> frozenset[str]:
        """The uids of a pod's gang group; none for a pod on its own."""
        gang = self._registry.gang_of(pod.uid)
        gangs = () if gang is None else self._registry.group_of(gang).gangs
        return frozenset(uid for each in gangs for uid in each.memberships)

    def expand_to_gang(self, victims: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """The victims, and the whole of each gang that would be left short of its minimum."""
        leaving = {pod.uid: pod for pod in victims}
        groups = {
            self._registry.group_of(gang).name: self._registry.group_of(gang)
            for pod in victims
            if (gang := self._registry.gang_of(pod.uid)) is not None
        }
        for _, group in sorted(groups.items()):
            pods = [self._cluster.pod(uid) for gang in group.gangs for uid in gang.memberships]
            placed = {pod.uid: pod for pod in pods if pod is not None}
            if any(
                gang.breaks_if_evicted(
                    sum(u in leaving and not gang.is_terminating(u) for u in gang.memberships)
                )
                for gang in group.gangs
            ):
                leaving |= placed
        return list(leaving.values())

    def is_partially_bound(self, uid: str) -> bool:
        """Whether part of a pod's gang group is being bound, or is bound, and never all it needs.

        Others that could use the node of such a pod are not tried there sooner than they must be:
        the gang is to be completed first, perhaps by the pod that its owner makes in its place.
        """
        gang = self._registry.gang_of(uid)
        if gang is None:
            return False
        gangs = self._registry.group_of(gang).gangs
        begun = any(g.count(at) for g in gangs for at in (MemberState.BINDING, MemberState.BOUND))
        return begun and not all(g.satisfied for g in gangs)
