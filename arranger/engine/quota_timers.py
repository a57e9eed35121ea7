"""What queues do when some time has passed: protections end, and claims that nobody takes up."""

from __future__ import annotations

from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import Desk
from arranger.engine.phases import Phase
from arranger.framework.cluster_event import ClusterEvent, EventKind
from arranger.gangs.registry import GangRegistry
from arranger.quota.admission import Admission
from arranger.quota.eviction_protection import Sparing
from arranger.quota.preemption_policy import QueueRules


class QueueTimers:
    """Lets those know who wait for it.

    Attributes:
        sparing: whom time protects from eviction.
    """

    def __init__(
        self, desk: Desk, registry: GangRegistry, rules: QueueRules, admission: Admission
    ) -> None:
        self._desk = desk
        self._registry = registry
        self._admission = admission
        self.sparing = Sparing(
            reclaim=rules.reclaim_min_runtime,
            preempt=rules.preempt_min_runtime,
            cool_down=rules.eviction_cool_down,
            clock=lambda: desk.calendar(desk.cycle.now),
            family=self._family,
            bound=self._is_being_bound,
        )

    def advance(self, now: float) -> None:
        """Do what is due."""
        cluster = self._desk.cluster
        for uid in self.sparing.over():
            pod, node = cluster.pod(uid), cluster.node_of(uid)
            if pod is not None and node is not None:
                self._desk.freed(pod, node, now)  # as good as: others may take its place now
        if self._admission.expire(now, self._has_come):
            self.tell()
            self._desk.happened(ClusterEvent(EventKind.OTHER, resource="PodGroup"), now)

    def tell(self) -> None:
        """Have the owners of PodGroups told what there is to tell."""
        for word in self._admission.news():
            self._desk.outbox += pod_events.pod_group_told(word.group, word.reason, word.text)

    def next_timer(self) -> float | None:
        """When something will be due."""
        times = [self._admission.next_end()]
        if (ends := self.sparing.next_end()) is not None:
            now = self._desk.cycle.now
            times.append(ends - self._desk.calendar(now) + now)
        return min((due for due in times if due is not None), default=None)

    def _has_come(self, name: str) -> bool:
        """Whether a PodGroup has the pods that its gang needs."""
        gang = self._registry.gangs.get(name)
        return gang is not None and len(gang.claims) >= gang.minimum

    def _is_being_bound(self, pod: PodInfo) -> bool:
        member = self._desk.members.get(pod.uid)
        return member is not None and member.phase in (Phase.BINDING, Phase.UNKNOWN)

    def _family(self, pod: PodInfo) -> str:
        """What a pod and those that come in its place have in common."""
        if (gang := self._registry.gang_of(pod.uid)) is not None:
            return f"gang {gang.name}"
        owners = pod.pod.metadata.owner_references
        return next((owner.uid for owner in owners if owner.controller), pod.key)
