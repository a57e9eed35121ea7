"""Questions of preemption about gangs: which pods belong together, and which leave together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.gangs.group import GangGroup
from arranger.gangs.member_state import MemberState
from arranger.gangs.registry import GangRegistry


@dataclass(frozen=True, slots=True)
class GangDepartures:
    """Counts who leaves, so that each costs a look at its own gang only."""

    _registry: GangRegistry
    #: Gang → bundle → how many of it leave; those that terminate already do not count.
    _leaving: dict[str, Counter[str]] = field(default_factory=dict, init=False)

    def breaks_gang(self, pod: PodInfo) -> bool:
        """Whether the pod's gang is below its minimum without it and those that were added."""
        gang = self._registry.gang_of(pod.uid)
        if gang is None or gang.is_terminating(pod.uid):
            return False
        leaving = self._leaving.get(gang.name, Counter[str]())
        return gang.breaks_if_evicted(leaving + Counter((gang.memberships[pod.uid].bundle,)))

    def add(self, pod: PodInfo) -> None:
        """The pod leaves, too."""
        gang = self._registry.gang_of(pod.uid)
        if gang is not None and not gang.is_terminating(pod.uid):
            bundle = gang.memberships[pod.uid].bundle
            self._leaving.setdefault(gang.name, Counter())[bundle] += 1


@dataclass(frozen=True, slots=True)
class GangLinks:
    """Answers from the registry and the cluster; holds no state of its own."""

    _registry: GangRegistry
    _cluster: Cluster

    def in_gang(self, pod: PodInfo) -> bool:
        """Whether a pod is in a gang."""
        return self._registry.gang_of(pod.uid) is not None

    def group_of(self, pod: PodInfo) -> str | None:
        """The gang group of a pod; None for a pod on its own."""
        gang = self._registry.gang_of(pod.uid)
        return None if gang is None else self._registry.group_of(gang).name

    def role_of(self, pod: PodInfo) -> tuple[str, str] | None:
        """The gang and the bundle of a pod; None for a pod on its own."""
        return self._registry.gang_and_bundle_of(pod.uid) if self.in_gang(pod) else None

    def expand_to_gang(self, victims: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """The victims, and the whole of each gang group that would fall below its minimum."""
        leaving = {pod.uid: pod for pod in victims}
        for group in self._broken_groups(victims):
            pods = [self._cluster.pod(uid) for gang in group.gangs for uid in gang.memberships]
            leaving |= {pod.uid: pod for pod in pods if pod is not None}
        return list(leaving.values())

    def departures(self) -> GangDepartures:
        """Who leaves one after the other: nobody yet."""
        return GangDepartures(self._registry)

    def groups_broken(self, victims: Sequence[PodInfo]) -> int:
        """How many gang groups would fall below their minimum."""
        return len(self._broken_groups(victims))

    def _broken_groups(self, victims: Sequence[PodInfo]) -> list[GangGroup]:
        groups: dict[str, GangGroup] = {}
        #: Gang → bundle → how many of it leave; those that terminate already do not count.
        evicted: dict[str, Counter[str]] = {}
        for uid in {pod.uid for pod in victims}:
            gang = self._registry.gang_of(uid)
            if gang is not None and not gang.is_terminating(uid):
                evicted.setdefault(gang.name, Counter())[gang.memberships[uid].bundle] += 1
                group = self._registry.group_of(gang)
                groups[group.name] = group
        return [
            group
            for _, group in sorted(groups.items())
            if any(gang.breaks_if_evicted(evicted.get(gang.name, {})) for gang in group.gangs)
        ]

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
