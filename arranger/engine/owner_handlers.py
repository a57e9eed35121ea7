"""What the watches of owners deliver: what Deployments and others say about their pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from arranger.api.types.core import ObjectMeta, Pod
from arranger.api.types.workloads import AnyOwner
from arranger.engine.context import EngineContext
from arranger.engine.entity import QueueState
from arranger.engine.phases import Phase
from arranger.engine.pod.node_release import NodeRelease
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
    _release: NodeRelease

    def on_updated(self, owner: AnyOwner, now: float) -> None:
        """An owner appeared or was edited."""
        if self._owners.set(owner.metadata):
            self._reconsider_pods_of(owner.metadata, now)

    def on_deleted(self, owner: AnyOwner, now: float) -> None:
        """An owner was deleted."""
        if self._owners.remove(owner.metadata):
            self._reconsider_all(lambda pod: bool(pod.metadata.owner_references), now)

    def _reconsider_pods_of(self, owner: ObjectMeta, now: float) -> None:
        owners = self._owners
        self._reconsider_all(lambda pod: owners.is_owned_by(pod.metadata, owner.uid), now)

    def _reconsider_all(self, concerned: Callable[[Pod], bool], now: float) -> None:
        context = self._context
        self._ledger.mark_stale()
        self._ledger.refresh(context.cluster)
        for pod, node in list(context.cluster.placed_pods()):
            if concerned(pod.pod):
                # As good as removed: others may take its place now.
                self._release.notify_pod_removed(pod, node, now)
        for member in list(context.pods.values()):
            entity = member.entity
            if member.phase is not Phase.QUEUED or entity is None or not concerned(member.pod.pod):
                continue
            event = ClusterEvent(ActionType.OWN_UPDATE, pod=member.pod.pod)
            self._queue.update(entity, member, member.pod, event, now)
            if entity.state is QueueState.UNSCHEDULABLE:
                self._queue.activate(entity)
