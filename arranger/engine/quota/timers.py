"""What changes for queues without any event: protections end, cards kept for gangs are freed, and
queues come to use more or less than they deserve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from arranger.api.resource_requests import Amounts
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.pod.node_release import NodeRelease
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.quota.gate import QuotaGate
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.gangs.registry import GangRegistry
from arranger.quota.preemption.eviction_protection import EvictionProtection
from arranger.quota.preemption.reclaim import DeservedReclaim


@dataclass(slots=True, eq=False)
class QuotaTimers:
    """Wakes pods when what their queues may use, or take from others, has changed."""

    _context: EngineContext
    _queue: SchedulingQueue
    _registry: GangRegistry
    _protection: EvictionProtection
    _quota: QuotaGate
    _release: NodeRelease
    _reclaim: DeservedReclaim
    #: Queue → what it used of what it deserves, when that was looked at last.
    _uses: Mapping[str, Amounts] = field(default_factory=dict)

    def advance(self, now: float) -> None:
        """Do what is due."""
        cluster = self._context.cluster
        for uid in self._protection.take_expired():
            pod, node = cluster.pod(uid), cluster.node_of(uid)
            if pod is not None and node is not None:
                # As good as removed: others may take its place now.
                self._release.notify_pod_removed(pod, node, now)
        if self._quota.expire(now, self._has_minimum):
            self._queue.wake(ClusterEvent(ActionType.OTHER, resource="PodGroup"), now)
        if (uses := self._reclaim.uses()) != self._uses:
            before, self._uses = self._uses, uses
            concerns = partial(self._reclaim.may_help, before=before, after=uses)
            rules = ActionType.EVICTION_RULES
            self._queue.wake(ClusterEvent(rules, resource="Queue", concerns=concerns), now)

    def next_timer(self) -> float | None:
        """When something will be due."""
        times = [self._quota.next_expiry()]
        if (ends := self._protection.next_expiry()) is not None:
            clock = self._context.clock
            times.append(clock.from_unix_time(ends, clock.now))
        return min((due for due in times if due is not None), default=None)

    def _has_minimum(self, name: str) -> bool:
        """Whether a PodGroup has the pods that its gang needs."""
        gang = self._registry.gangs.get(name)
        return gang is not None and gang.has_all_pods
