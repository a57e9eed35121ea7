"""What the watches of owners deliver: what Deployments and others say about their pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from arranger.api.types.core import ObjectMeta
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
    #: uids of owners at whose pods not all of a look was taken, as it raised.
    _unfinished: set[str] = field(default_factory=set, init=False)

    def on_updated(self, owner: AnyOwner, now: float) -> None:
        """An owner appeared or was edited."""
        self._follow(self._owners.set, owner.metadata, now)

    def on_deleted(self, owner: AnyOwner, now: float) -> None:
        """An owner was deleted."""
        self._follow(self._owners.remove, owner.metadata, now)

    def _follow(self, note: Callable[[ObjectMeta], bool], owner: ObjectMeta, now: float) -> None:
        """Note an owner, and look again at its pods if that changes anything, or raised before."""
        again = owner.uid in self._unfinished
        self._unfinished.add(owner.uid)
        if note(owner) or again:
            self._reconsider(owner, now)
        self._unfinished.discard(owner.uid)

    def _reconsider(self, owner: ObjectMeta, now: float) -> None:
        """Look again at the pods below an owner, which are of its namespace."""
        ledger, cluster, is_owned_by = self._ledger, self._context.cluster, self._owners.is_owned_by
        namespace, uid = owner.namespace, owner.uid
        placed = map(cluster.pod, ledger.placed.in_namespace(namespace))
        below = [p.uid for p in placed if p and is_owned_by(p.pod.metadata, uid)]
        ledger.placed.doubt(below)
        ledger.refresh(cluster)
        # Who may evict those on nodes, and which queue they count towards, may be another now.
        if below or not ledger.active:  # without queues it is not kept who is placed
            self._queue.wake(quota_change("Owner"), now)
        for member in list(self._context.pods.values()):
            entity = member.entity
            if member.phase is not Phase.QUEUED or entity is None:
                continue
            meta = member.pod.pod.metadata
            if meta.namespace != namespace or not is_owned_by(meta, uid):
                continue
            event = ClusterEvent(ActionType.OWN_UPDATE, pod=member.pod.pod)
            self._queue.update(entity, member, member.pod, event, now)
            if entity.state is QueueState.UNSCHEDULABLE:
                self._queue.activate(entity)
