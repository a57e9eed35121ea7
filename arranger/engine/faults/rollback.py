"""Takes back what an attempt that broke off has done for the pods that are not to blame."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from arranger.api.quarantine import QuarantineKey
from arranger.api.types.core import Pod
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.faults.states import succeeds
from arranger.engine.gang.manager import GangManager
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.engine.pod.node_release import NodeRelease
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.pod.requeue import PodRequeuer
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.scheduling_queue import SchedulingQueue


@dataclass(slots=True, eq=False)
class Rollback:
    """Gives the nodes of an attempt back, and queues its pods again."""

    _context: EngineContext
    _queue: SchedulingQueue
    _cycle: SchedulingCycle
    _release: NodeRelease
    _nominator: Nominator
    _requeuer: PodRequeuer
    _gangs: GangManager
    _pods: PodHandlers
    _preemption: PreemptionExecutor

    def pods_of(self, entity: QueuedEntity) -> list[QueuedPod]:
        """The pods of an entity that are ours and not bound, whether or not it still has them."""
        uids = dict.fromkeys(entity.members)
        if entity.group is None:
            uids[entity.key] = None
        else:
            uids.update((uid, None) for gang in entity.group.gangs for uid in gang.memberships)
        pods = self._context.pods
        return [pods[uid] for uid in uids if uid in pods]

    def requeue(self, members: Iterable[QueuedPod], now: float) -> None:
        """Queue pods again that have no node, or one that only an attempt has reserved."""
        context, waiting = self._context, []
        for member in members:
            uid = member.uid
            if uid not in context.pods:
                continue
            stranded = member.phase is Phase.WAITING and not (
                uid in context.waiting_pods or self._gangs.is_held(member)
            )
            if member.phase is Phase.RESERVED or stranded:
                if not self._release.release_node(member, now):
                    continue
            else:
                self.unreserve(uid)
            if member.phase is Phase.QUEUED:
                waiting.append(member)
        entities = [self._requeuer.entity_for(member, now) for member in waiting]
        for entity in {id(entity): entity for entity in entities}.values():
            entity.count_loss()
            entity.last_attempt = now
            self._requeuer.enqueue(entity, now)

    def is_nominated(self, member: QueuedPod) -> bool:
        """Whether room is kept for a pod of ours that waits."""
        return member.uid in self._nominator

    def forget(self, pod: Pod, now: float) -> None:
        """Take a pod out of all books, of which any may have it or not."""
        succeeds(self._pods.on_deleted, pod.key, now)

    def take_in_again(self, pod: Pod, now: float) -> None:
        """Have a pod heard of anew; one that is being evicted leaves all the same."""
        leaves = self.is_leaving(pod.metadata.uid)
        self.forget(pod, now)
        try:
            self._pods.on_updated(pod, now)
        finally:
            self.leave_again(pod.metadata.uid, leaves=leaves)

    def is_leaving(self, uid: str) -> bool:
        """Whether a pod on a node is being evicted; who has only been told so is told anew."""
        return self._preemption.is_evicted(uid)

    def leave_again(self, uid: str, *, leaves: bool) -> None:
        """A pod has been taken out of the books and in again; it is evicted no second time."""
        placed = self._context.cluster.pod(uid) if leaves else None
        if placed is not None:
            self._nominator.terminating_victims.add(uid)
            with suppress(Exception):  # its gang is told again when the server says so
                self._gangs.on_evicted(placed)

    def unreserve(self, uid: str) -> None:
        """Take back what an attempt has reserved for a pod of ours, and not yet noted."""
        member = self._context.pods.get(uid)
        if (
            member is not None
            and member.phase is Phase.QUEUED
            and uid in self._context.cluster
            and uid not in self._nominator
        ):
            self._cycle.unreserve(member)

    def hurry(self, key: QuarantineKey) -> None:
        """Try a pod now that waits for its back-off to end."""
        kind, namespace, name = key
        if kind != "Pod":
            return
        for member in self._context.pods.values():
            meta = member.pod.pod.metadata
            if (meta.namespace, meta.name) == (namespace, name):
                self.end_backoff(member.entity)
                return

    def end_backoff(self, entity: QueuedEntity | None) -> None:
        """Try an entity now if it waits for its back-off to end."""
        if entity is not None and entity.state is QueueState.BACKOFF:
            self._queue.activate(entity)
