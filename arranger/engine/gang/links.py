"""Questions of preemption about gangs: which pods belong together, and which leave together."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.gangs.gang import Gang, MemberState
from arranger.gangs.registry import GangRegistry


@dataclass(frozen=True, slots=True)
class GangLinks:
    """Answers from the registry and the cluster; holds no state of its own."""

    _registry: GangRegistry
    _cluster: Cluster

    def in_gang(self, pod: PodInfo) -> bool:
        """Whether a pod is in a gang."""
        return self._registry.gang_of(pod.uid) is not None

    def group_uids(self, pod: PodInfo) -> frozenset[str]:
        """The uids of a pod's gang group; none for a pod on its own."""
        gang = self._registry.gang_of(pod.uid)
        gangs = () if gang is None else self._registry.group_of(gang).gangs
        return frozenset(uid for each in gangs for uid in each.memberships)

    def expand_to_gang(self, victims: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """The victims, and the whole of each gang group that would fall below its minimum."""
        leaving = {pod.uid: pod for pod in victims}
        groups = {
            self._registry.group_of(gang).name: self._registry.group_of(gang)
            for pod in victims
            if (gang := self._registry.gang_of(pod.uid)) is not None
        }
        for _, group in sorted(groups.items()):
            pods = [self._cluster.pod(uid) for gang in group.gangs for uid in gang.memberships]
            placed = {pod.uid: pod for pod in pods if pod is not None}
            if any(_breaks_without(gang, leaving) for gang in group.gangs):
                leaving |= placed
        return list(leaving.values())

    def is_partially_bound(self, uid: str) -> bool:
        """Whether part of a pod's gang group is bound or being bound, and never was its minimum.

        When such a pod leaves its node, others wait out their back-off: the gang is to be completed
        first, perhaps by the pod that its owner creates in its place.
        """
        gang = self._registry.gang_of(uid)
        if gang is None:
            return False
        gangs = self._registry.group_of(gang).gangs
        begun = any(g.count(at) for g in gangs for at in (MemberState.BINDING, MemberState.BOUND))
        return begun and not all(g.satisfied for g in gangs)


def _breaks_without(gang: Gang, leaving: Container[str]) -> bool:
    evicted = (uid in leaving and not gang.is_terminating(uid) for uid in gang.memberships)
    return gang.breaks_if_evicted(sum(evicted))
