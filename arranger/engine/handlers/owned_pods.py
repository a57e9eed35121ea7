"""What follows when the owners of pods say otherwise of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.gang.priority import EffectivePriorities
from arranger.engine.handlers.tenant_handlers import TenantHandlers
from arranger.engine.queue.cluster_events import quota_change
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.quota.ledger import QuotaLedger


@dataclass(frozen=True, slots=True)
class OwnedPods:
    """Looks again at pods whose queue, service type, card or right to stay may be another."""

    _context: EngineContext
    _ledger: QuotaLedger
    _queue: SchedulingQueue
    _priorities: EffectivePriorities
    _tenants: TenantHandlers

    def look_again(self, placed: Sequence[str], waiting: Iterable[QueuedPod], now: float) -> None:
        """Charge the placed ones (uids) anew, and have those that wait judged anew."""
        ledger = self._ledger
        ledger.placed.doubt(placed)
        ledger.refresh(self._context.cluster)
        waiting = list(waiting)
        if ledger.rights.limits_priority:
            self._priorities.update_pods([*placed, *(member.uid for member in waiting)])
        # Who may evict those on nodes, and which queue they count towards, may be another now.
        if placed or not ledger.active:  # without queues it is not kept who is placed
            self._queue.wake(quota_change("Owner"), now)
        for member in waiting:
            entity = member.entity
            if member.phase is not Phase.QUEUED or entity is None:
                continue
            event = ClusterEvent(ActionType.OWN_UPDATE, pod=member.pod.pod)
            self._queue.update(entity, member, member.pod, event, now)
            if entity.state is QueueState.UNSCHEDULABLE:
                self._queue.activate(entity)
            self._tenants.tell(member)
