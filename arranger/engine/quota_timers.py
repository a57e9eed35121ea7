"""What queues do when some time has passed: protections end, and claims that nobody takes up."""

from __future__ import annotations

from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.phases import Phase
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.gangs.registry import GangRegistry
from arranger.quota.admission import Admission
from arranger.quota.eviction_protection import EvictionProtection
from arranger.quota.preemption_policy import QuotaConfig


class QuotaTimers:
    """Lets those know who wait for it.

    Attributes:
        protection: whom time protects from eviction.
    """

    def __init__(
        self,
        context: EngineContext,
        registry: GangRegistry,
        config: QuotaConfig,
        admission: Admission,
    ) -> None:
        self._context = context
        self._registry = registry
        self._admission = admission
        self.protection = EvictionProtection(
            reclaim_min_runtime=config.reclaim_min_runtime,
            preempt_min_runtime=config.preempt_min_runtime,
            cool_down=config.eviction_cool_down,
            clock=lambda: context.to_unix_time(context.cycle.now),
            workload_key=self._workload_key,
            is_being_bound=self._is_being_bound,
        )

    def advance(self, now: float) -> None:
        """Do what is due."""
        cluster = self._context.cluster
        for uid in self.protection.take_expired():
            pod, node = cluster.pod(uid), cluster.node_of(uid)
            if pod is not None and node is not None:
                self._context.notify_pod_removed(
                    pod, node, now
                )  # as good as: others may take its place now
        if self._admission.expire(now, self._has_minimum):
            self.publish_pending()
            self._context.publish_event(ClusterEvent(ActionType.OTHER, resource="PodGroup"), now)

    def publish_pending(self) -> None:
        """Have the owners of PodGroups told what there is to tell."""
        for word in self._admission.take_events():
            self._context.outbox += pod_events.pod_group_event(word.group, word.reason, word.text)

    def next_timer(self) -> float | None:
        """When something will be due."""
        times = [self._admission.next_expiry()]
        if (ends := self.protection.next_expiry()) is not None:
            now = self._context.cycle.now
            times.append(ends - self._context.to_unix_time(now) + now)
        return min((due for due in times if due is not None), default=None)

    def _has_minimum(self, name: str) -> bool:
        """Whether a PodGroup has the pods that its gang needs."""
        gang = self._registry.gangs.get(name)
        return gang is not None and len(gang.memberships) >= gang.minimum

    def _is_being_bound(self, pod: PodInfo) -> bool:
        member = self._context.pods.get(pod.uid)
        return member is not None and member.phase in (Phase.BINDING, Phase.UNKNOWN)

    def _workload_key(self, pod: PodInfo) -> str:
        """What a pod and those that come in its place have in common."""
        if (gang := self._registry.gang_of(pod.uid)) is not None:
            return f"gang {gang.name}"
        owners = pod.pod.metadata.owner_references
        return next((owner.uid for owner in owners if owner.controller), pod.key)
