"""What follows when queues say otherwise who may use them, or namespaces have other labels."""

from __future__ import annotations

from dataclasses import dataclass

from arranger.api.annotations import SERVICE_TYPE
from arranger.api.types.core import Namespace
from arranger.cluster.object_store import StoredObject
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.queue_state import QueueState
from arranger.engine.gang.priority import EffectivePriorities
from arranger.engine.queue.cluster_events import quota_change
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.quota.gate import QuotaGate
from arranger.quota.ledger import QuotaLedger


@dataclass(slots=True, eq=False)
class TenantHandlers:
    """Has all pods be of the queues that they may use, and count as they are believed there."""

    _context: EngineContext
    _queue: SchedulingQueue
    _ledger: QuotaLedger
    _quota: QuotaGate
    _priorities: EffectivePriorities

    def on_object_updated(self, stored: StoredObject, now: float) -> None:
        """An object appeared or was edited; of namespaces the labels count."""
        if isinstance(stored, Namespace) and self._ledger.rights.set_namespace(stored):
            self.on_rights_changed(now)

    def on_object_deleted(self, stored: StoredObject, now: float) -> None:
        """An object was deleted."""
        name = stored.metadata.name
        if isinstance(stored, Namespace) and self._ledger.rights.remove_namespace(name):
            self.on_rights_changed(now)

    def on_rights_changed(self, now: float) -> None:
        """Look at all pods again: rare, as the rights of tenants are."""
        self._ledger.mark_stale()
        self._ledger.refresh(self._context.cluster)
        self._priorities.update_all()
        self._quota.withdraw_unentitled()
        for member in self._context.pods.values():
            member.sign_anew()
            entity = member.entity
            if entity is not None and entity.state is not QueueState.WAITING_FOR_EXTENDERS:
                entity.recheck_member(member)
            self.tell(member)
        self._queue.requeue_all(now)
        self._queue.wake(quota_change("Queue"), now)

    def tell(self, member: QueuedPod) -> None:
        """Tell a waiting pod what its queue does not believe, unless it was told so last."""
        text, told = self._disbelieved(member), member.told
        member.told = text
        if text and text != told:
            self._context.outbox.append(pod_events.limited_by_queue(member, text))

    def _disbelieved(self, member: QueuedPod) -> str:
        ledger, pod, found = self._ledger, member.pod, []
        if not ledger.rights.limited:
            return ""
        queue, stated = ledger.queue_name(pod), self._priorities.stated(pod)
        if pod.priority != stated:
            found.append(f"priority {stated} counts as {pod.priority}")
        service = ledger.annotations.get(pod, SERVICE_TYPE)
        believed = ledger.rights.service_types(queue)
        if service and believed is not None and service not in believed:
            found.append(f"{SERVICE_TYPE} does not count")
        return f"{'; '.join(found)}, as Queue <{queue}> says" if found else ""
