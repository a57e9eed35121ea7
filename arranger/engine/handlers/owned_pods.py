"""What follows when the owners of pods say otherwise of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from arranger.api.types.core import ObjectMeta
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
from arranger.quota.pod_owners import PodOwners

#: Pods that are looked at again in one run of the engine, and pods that are asked who owns them:
#: some 10 ms each. One edit may concern all pods of a large job.
LOOKED_AT: Final = 128
ASKED: Final = 4096


@dataclass(slots=True, eq=False)
class OwnedPods:
    """Looks again at pods whose queue, service type, card or right to stay may be another.

    Some in each run of the engine; edits that come meanwhile add no more than what they concern.
    """

    _context: EngineContext
    _owners: PodOwners
    _ledger: QuotaLedger
    _queue: SchedulingQueue
    _priorities: EffectivePriorities
    _tenants: TenantHandlers
    #: uid of an owner that was edited → its namespace; those whose pods are being searched; and the
    #: uids of pods that are left to be asked.
    _edited: dict[str, str] = field(default_factory=dict, init=False)
    _searched: dict[str, str] = field(default_factory=dict, init=False)
    _unasked: list[str] = field(default_factory=list, init=False)
    #: uids of the pods that are due.
    _due: dict[str, None] = field(default_factory=dict, init=False)

    @property
    def ready(self) -> bool:
        """Whether there is more to look at."""
        return bool(self._due or self._unasked or self._edited)

    def note_owner(self, owner: ObjectMeta) -> None:
        """An owner says otherwise of the pods below it, which are of its namespace."""
        self._edited[owner.uid] = owner.namespace

    def note_pods(self, uids: Iterable[str]) -> None:
        """The owners of these say otherwise of them."""
        self._due.update(dict.fromkeys(uids))

    def advance(self, now: float) -> None:
        """Look at some pods."""
        if self._edited and not self._unasked:
            self._searched, self._edited = self._edited, {}
            spaces = dict.fromkeys(self._searched.values())
            placed = chain.from_iterable(map(self._ledger.placed.in_namespace, spaces))
            self._unasked = list(dict.fromkeys(chain(placed, self._context.pods)))
            if not self._ledger.active:  # it is not kept who is placed
                self._queue.wake(quota_change("Owner"), now)
        self.note_pods(uid for uid in self._unasked[-ASKED:] if self._is_concerned(uid))
        del self._unasked[-ASKED:]
        for uid in list(islice(self._due, LOOKED_AT)):
            self._ledger.placed.doubt((uid,))
            if self._ledger.rights.limits_priority:
                self._priorities.update_soon((uid,))
            if (member := self._context.pods.get(uid)) is not None:
                self._look_at(member, now)
            del self._due[uid]

    def _is_concerned(self, uid: str) -> bool:
        """Whether one of the owners that were edited is above a pod."""
        member = self._context.pods.get(uid)
        info = self._context.cluster.pod(uid) if member is None else member.pod
        if info is None:
            return False
        namespace, owners = info.namespace, self._owners.uids_of(info.pod.metadata)
        return any(self._searched.get(owner) == namespace for owner in owners)

    def _look_at(self, member: QueuedPod, now: float) -> None:
        """Have a pod that waits be judged anew."""
        entity = member.entity
        if member.phase is not Phase.QUEUED or entity is None:
            return
        event = ClusterEvent(ActionType.OWN_UPDATE, pod=member.pod.pod)
        self._queue.update(entity, member, member.pod, event, now)
        if entity.state is QueueState.UNSCHEDULABLE:
            self._queue.activate(entity)
        self._tenants.tell(member)
