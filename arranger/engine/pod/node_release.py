"""Gives reserved nodes back, and wakes the pods that may fit there now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.entity import QueuedEntity, QueuedPod
from arranger.engine.phases import HOLDS_NODE, Phase
from arranger.engine.pod.scheduling_cycle import SchedulingCycle, run_unreserve_plugins
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.preemption import EvictionPolicy


class PartiallyBound(Protocol):
    """Knows the gangs that are bound in part."""

    def is_partially_bound(self, uid: str) -> bool:
        """Whether others of a pod's gang are bound, and may want its node before all others."""


@dataclass(slots=True, eq=False)
class NodeRelease:
    """Ends reservations of pods that are not bound."""

    _context: EngineContext
    _queue: SchedulingQueue
    _cycle: SchedulingCycle
    _policy: EvictionPolicy
    _gangs: PartiallyBound

    def notify_pod_removed(self, pod: PodInfo, node: str, now: float) -> None:
        """A pod has left a node, or its nomination: wake pods that might fit there now."""
        context, can_preempt = self._context, self._policy.can_preempt
        # The same for all members of a group, and for all groups of a priority.
        has_lower = cache(self._has_placed_pod_below)
        might_fit_whole = cache(partial(self._might_fit_whole, has_lower=has_lower))

        def could_fit_waiting(waiting: PodInfo) -> bool:
            member = context.pods.get(waiting.uid)
            entity = None if member is None else member.entity
            nominees = {} if entity is None else entity.members  # they are there for itself
            fits = context.cluster.could_fit(
                waiting, node, lambda other: other.uid in nominees or can_preempt(waiting, other)
            )
            return fits and (entity is None or might_fit_whole(entity))

        event = ClusterEvent(ActionType.POD_REMOVED, pod=pod.pod, could_fit=could_fit_waiting)
        self._queue.wake(event, now, yields=self._gangs.is_partially_bound(pod.uid))

    def _might_fit_whole(self, entity: QueuedEntity, has_lower: Callable[[int], bool]) -> bool:
        """False if all nodes together have too little free for what a Strict group needs.

        True wherever more than free resources would have to be counted: nodes that its members have
        already, evictions, and queues' rules about them.
        """
        group, cluster = entity.group, self._context.cluster
        if group is None or not group.is_strict or not self._policy.by_priority_alone:
            return True
        needed = sum(gang.shortfall({}) for gang in group.gangs)
        for member in entity.one_of_each_class():
            if needed <= 0:
                return True
            needed -= int(cluster.table.replica_capacity(member.pod).sum())
        if needed <= 0:
            return True
        waiting = group.gangs_by_uid().keys() & self._context.pods.keys()
        if any(uid in cluster for uid in waiting):
            return True
        return has_lower(entity.representative.pod.priority)

    def _has_placed_pod_below(self, priority: int) -> bool:
        return any(pod.priority < priority for pod, _ in self._context.cluster.placed_pods())

    def release_node(self, member: QueuedPod, now: float) -> bool:
        """Take a reservation back; False if the pod is being deleted and is gone with it.

        The caller queues the pod again: its own leaving must not wake it.
        """
        context, removed = self._context, member.pod.pod
        context.waiting_pods.pop(member.uid, None)
        self._cycle.unreserve(member)
        event = ClusterEvent(ActionType.POD_REMOVED, pod=removed)
        self._queue.wake(event, now, yields=self._gangs.is_partially_bound(member.uid))
        update = member.pending_update
        if update is not None and update.pod.metadata.deletion_timestamp is not None:
            member.transition(Phase.GONE)
            del context.pods[member.uid]
            return False
        member.transition(Phase.QUEUED)
        if member.shown_node:
            context.outbox.append(pod_events.nominated(member, ""))
        if update is not None:
            member.update(update)
        return True

    def stop_tracking(self, member: QueuedPod) -> None:
        """A pod is not ours to place any more; its reservation stays counted."""
        self._context.waiting_pods.pop(member.uid, None)
        if member.phase in HOLDS_NODE:
            run_unreserve_plugins(member)
        member.transition(Phase.GONE)
        del self._context.pods[member.uid]
