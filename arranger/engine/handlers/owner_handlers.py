"""What the watches of owners deliver: what Deployments and others say about their pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from arranger.api.types.core import Pod
from arranger.api.types.workloads import AnyOwner
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.queue.cluster_events import quota_change
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.quota.ledger import QuotaLedger
from arranger.quota.pod_owners import PodOwners


@dataclass(slots=True, eq=False)
class OwnerHandlers:
    """Notes what owners say, and looks again at their pods when that has changed."""

    _context: EngineContext
    _owners: PodOwners
    _ledger: QuotaLedger
    _queue: SchedulingQueue

    def on_updated(self, owner: AnyOwner, now: float) -> None:
        """An owner appeared or was edited."""
        if self._owners.set(owner.metadata):
            uid, is_owned_by = owner.metadata.uid, self._owners.is_owned_by
            self._reconsider(lambda pod: is_owned_by(pod.metadata, uid), now)

    def on_deleted(self, owner: AnyOwner, now: float) -> None:
        """An owner was deleted."""
        if self._owners.remove(owner.metadata):
            self._reconsider(lambda pod: bool(pod.metadata.owner_references), now)

    def _reconsider(self, concerned: Callable[[Pod], bool], now: float) -> None:
        self._ledger.mark_stale()
        self._ledger.refresh(self._context.cluster)
        self._queue.wake(quota_change("Owner"), now)
        for member in list(self._context.pods.values()):
            entity = member.entity
            if member.phase is not Phase.QUEUED or entity is None or not concerned(member.pod.pod):
                continue
            event = ClusterEvent(ActionType.OWN_UPDATE, pod=member.pod.pod)
            self._queue.update(entity, member, member.pod, event, now)
            if entity.state is QueueState.UNSCHEDULABLE:
                self._queue.activate(entity)
