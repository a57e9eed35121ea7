"""Carries preemption out: nominate the pod, evict the victims, and follow what becomes of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from arranger.api.effects import (
    Ambiguous,
    Applied,
    DeletePod,
    Effect,
    Eviction,
    Outcome,
    PatchPodStatus,
    Refused,
)
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.eviction_listener import EvictionListener
from arranger.engine.context.pending_effects import PendingEffects
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.evictions import texts
from arranger.engine.evictions.notices import EvictionNotices, Notice
from arranger.engine.evictions.unsent import Unsent
from arranger.engine.pod.binding_cycle import BindingCycle
from arranger.engine.pod.node_release import NodeRelease
from arranger.engine.pod.requeue import PodRequeuer
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.preemption import EvictionPolicy
from arranger.framework.status import Code, Status
from arranger.quota.ledger import QuotaLedger
from arranger.quota.preemption.eviction_protection import EvictionProtection

#: Evictions that are sent in one step, of one plan: about 15 µs each. The others follow in the next
#: steps, so that a plan for thousands does not hold the loop, nor fill the queue of writes.
EVICTIONS_PER_STEP: Final = 1000


@dataclass(slots=True, eq=False)
class PreemptionExecutor:
    """Evicts victims on behalf of pods.

    Args:
        effects: sends the deletes, and brings their outcomes back to :meth:`on_outcome`.
        binding_cycle: takes the node of a victim that waits in Permit or in PreBind.
        requeuer: queues a pod again whose victims could not be evicted, or whose nomination is
            cancelled.
        protection: remembers who was evicted when.
        gangs: follows the evictions of members.
        notices: gives victims time that have asked for it.
    """

    _context: EngineContext
    _queue: SchedulingQueue
    _nominator: Nominator
    _policy: EvictionPolicy
    _ledger: QuotaLedger
    _effects: PendingEffects
    _release: NodeRelease
    _binding_cycle: BindingCycle
    _requeuer: PodRequeuer
    _protection: EvictionProtection
    _gangs: EvictionListener
    _notices: EvictionNotices
    _unsent: deque[Unsent] = field(default_factory=deque, init=False)

    def nominate(
        self, member: QueuedPod, node: str, victims: Iterable[PodInfo], now: float
    ) -> None:
        """Nominate the pod for ``node`` and evict the victims there."""
        nominator, can_preempt = self._nominator, self._policy.can_preempt
        for other in nominator.nominated_pods_on(node):
            if other.entity is not member.entity and can_preempt(member.pod, other.pod):
                self.clear_nomination(other, now)
                self._requeuer.requeue(other, now)
        earlier = nominator.node_of(member.uid)
        nominator.nominate(member, node)
        if earlier and earlier != node:
            self._release.notify_pod_removed(member.pod, earlier, now)
        victims = list(victims)
        self.evict([(victim, node) for victim in victims], member, now)
        if victims:
            self._context.outbox.append(pod_events.preempting(member, victims))

    def cancel_nomination(self, member: QueuedPod, now: float) -> None:
        """Clear a nomination; the pod looks for another node."""
        self.clear_nomination(member, now)
        self._requeuer.requeue_with_backoff(member, now)

    def clear_nomination(self, member: QueuedPod, now: float) -> None:
        """Clear a nomination, in the pod's status as well."""
        if self.release_nomination(member, now):
            self._context.outbox.append(pod_events.nominated(member, ""))

    def clear_nominations(self, members: Iterable[QueuedPod], now: float) -> None:
        """Clear nominations of many pods: who waits is told once, of all their nodes."""
        with self._release.together(now):
            for member in members:
                self.clear_nomination(member, now)

    def together(self, now: float) -> AbstractContextManager[None]:
        """See :meth:`~arranger.engine.pod.node_release.NodeRelease.together`."""
        return self._release.together(now)

    def release_nomination(self, member: QueuedPod, now: float) -> bool:
        """The pod needs its nominated node no more: others may have it; whether it had one."""
        nominator = self._nominator
        node = nominator.node_of(member.uid)
        if nominator.clear(member.uid):
            self._release.notify_pod_removed(member.pod, node, now)
        return bool(node)

    def release_lost(self, member: QueuedPod, node: str, now: float) -> None:
        """A pod without a node has lost its nomination, in the books: in its status as well."""
        self._release.notify_pod_removed(member.pod, node, now)
        self._context.outbox.append(pod_events.nominated(member, ""))

    def release_unused(self, member: QueuedPod, nominated: str, now: float) -> None:
        """A pod has got a node: the one that it was nominated for is free, if that is another."""
        if nominated and nominated != member.node:
            self._release.notify_pod_removed(member.pod, nominated, now)

    def evict(
        self,
        victims: Sequence[tuple[PodInfo, str]],
        member: QueuedPod,
        now: float,
        *,
        group: str = "",
    ) -> None:
        """Make victims leave their nodes: at once, or when the time is over that they ask for.

        A pod whose Binding is not on its way only loses its node. ``group`` names the gang group
        that the member is of. Of more than :data:`EVICTIONS_PER_STEP` the rest is sent, or given
        notice, by :meth:`advance`; all count as leaving from now on.
        """
        entity = member.entity if group else None
        later = Unsent(member, group, (member.uid,) if entity is None else set(entity.members))
        at_once = EVICTIONS_PER_STEP
        time = self._notices.time_for([victim for victim, _ in victims])
        try:
            for victim, node in victims:
                seconds = time.get(victim.uid, 0.0)
                at_once -= self._make_leave(
                    victim, member, node, later, now, seconds=seconds, at_once=at_once > 0
                )
        finally:  # whatever is raised about one, others count as leaving
            if later.victims:
                self._unsent.append(later)

    def _make_leave(
        self,
        victim: PodInfo,
        member: QueuedPod,
        node: str,
        later: Unsent,
        now: float,
        *,
        seconds: float,
        at_once: bool,
    ) -> bool:
        """Begin the eviction of a victim, if nobody has; whether anything is sent now."""
        leaving = self._context.is_leaving(victim.pod)
        if leaving or victim.uid in self._nominator.terminating_victims:
            return False
        own, group = self._context.pods.get(victim.uid), later.group
        if own is not None and (
            own.phase is Phase.WAITING or (own.phase is Phase.BINDING and own.binding is None)
        ):
            self._publish_preempted(victim, member, node, group, stays=True)
            reason = f"preempted by pod {member.uid} of higher priority"
            self._binding_cycle.preempt(own, Status(Code.UNSCHEDULABLE, (reason,)), now)
            return False
        self._nominator.terminating_victims.add(victim.uid)
        try:
            if at_once:
                self._send(victim, member, node, group, seconds)
            else:
                later.victims.append((victim, node, seconds))
        except Exception:
            self._notices.forget(victim.uid)
            if not self._is_sent(victim.uid):
                self._nominator.keep(victim.uid)  # nobody makes it leave
            raise
        self._gangs.on_evicted(victim)
        return at_once

    def _send(
        self, victim: PodInfo, member: QueuedPod, node: str, group: str, seconds: float
    ) -> None:
        """Have a victim deleted, or told by when it has to be ready for that."""
        if not seconds:
            self._delete(victim, member, node, group)
            return
        notice = self._notices.give(victim, seconds, member, node, group)
        said = texts.for_taker(node, notice.deadline)
        self._effects.send(texts.condition(victim.pod, said), self, member)

    def _delete(self, victim: PodInfo, member: QueuedPod, node: str, group: str) -> None:
        """Have a victim deleted, and say why."""
        queue = self._publish_preempted(victim, member, node, group, stays=False)
        condition = pod_events.disruption_condition(
            member.profile.scheduler_name, group=bool(group)
        )
        reason = "reclaim" if queue else "preemption"
        eviction = Eviction(node, reason, member.pod.pod.key, group, queue)
        delete = self._context.deletion(victim.pod, condition, eviction)
        self._protection.record_eviction(victim)
        self._effects.send(delete, self, member)

    def _publish_preempted(
        self, victim: PodInfo, member: QueuedPod, node: str, group: str, *, stays: bool
    ) -> str:
        """Say for whom a victim has to go; returns the taker's queue, if that is not its own."""
        by, controller = member.pod.pod, member.profile.scheduler_name
        queue = texts.foreign_queue(self._ledger, victim, member.pod)
        event = pod_events.preempted(
            victim.pod, by, node, controller, group=group, queue=queue, stays=stays
        )
        self._context.outbox.append(event)
        return queue

    def advance(self, now: float) -> None:
        """Delete whose time is over, and let those stay whose place nobody needs any more."""
        self._send_more()
        for notice, taker in self._notices.take_settled(EVICTIONS_PER_STEP):
            victim = notice.victim
            if self._context.is_leaving(victim.pod):
                continue  # it leaves anyway
            if taker is None:
                self._let_stay(notice)
                continue
            group, entity = notice.group, taker.entity
            if not group and entity is not None and entity.group is not None:
                group = entity.group.name  # an earlier run of ours gave notice, for whomever
            try:
                self._delete(victim, taker, notice.node, group)
            except Exception:
                if not self._is_sent(victim.uid):
                    self._keep(victim.uid)
                raise

    @property
    def ready(self) -> bool:
        """Whether :meth:`advance` has evictions to send now."""
        return bool(self._unsent)

    def next_timer(self) -> float | None:
        """When something will be due, in the engine's clock."""
        return self._context.clock.now if self._unsent else self._notices.next_timer()

    def observe(self, pod: PodInfo) -> None:
        """A placed pod was edited."""
        self._notices.observe(pod)

    def _let_stay(self, notice: Notice) -> None:
        self._keep(notice.victim.uid)
        self._context.outbox.extend(texts.withdrawn(notice.victim.pod))

    def is_evicted(self, uid: str) -> bool:
        """Whether a victim is being deleted, or will be when it is its turn."""
        return uid in self._nominator.terminating_victims and uid not in self._notices

    def _is_sent(self, uid: str) -> bool:
        """Whether the delete of a victim is on its way, though what follows for it has raised."""
        return any(isinstance(e, DeletePod) and e.pod.uid == uid for e in self._context.outbox)

    def _keep(self, uid: str) -> None:
        self._nominator.keep(uid)
        self._gangs.on_eviction_failed(uid)

    def _send_more(self) -> None:
        """Send the next evictions of the oldest plan, if a taker of it is still nominated."""
        if not self._unsent:
            return
        plan, nominator = self._unsent[0], self._nominator
        takers = (plan.member.uid, *plan.takers)
        taker = next((nominator.nominated_pod(uid) for uid in takers if uid in nominator), None)
        try:
            for _ in range(min(EVICTIONS_PER_STEP, len(plan.victims))):
                victim, node, seconds = plan.victims.popleft()
                self._send_late(victim, node, taker, plan.group, seconds)
        finally:
            if not plan.victims:
                self._unsent.popleft()

    def _send_late(
        self, victim: PodInfo, node: str, taker: QueuedPod | None, group: str, seconds: float
    ) -> None:
        uid, current = victim.uid, self._context.cluster.pod(victim.uid)
        if current is None or uid not in self._nominator.terminating_victims:
            return  # it is gone
        if self._context.is_leaving(current.pod):
            return  # it leaves anyway
        if taker is None:
            self._keep(uid)
            return
        try:
            self._send(current, taker, node, group, seconds)
        except Exception:
            self._notices.forget(uid)
            if not self._is_sent(uid):
                self._keep(uid)
            raise

    def _on_notice_outcome(
        self, effect: PatchPodStatus, outcome: Outcome, subject: QueuedPod, now: float
    ) -> None:
        """The outcome of a notice: nobody is made to leave without being told."""
        uid = effect.pod.uid
        if isinstance(outcome, Applied):
            if (notice := self._notices.on_told(uid, self._context.unix_now)) is not None:
                pod, until = notice.victim.pod, notice.deadline
                said = texts.told(pod, texts.for_taker(notice.node, until), until)
                self._context.outbox.extend(said)
        elif isinstance(outcome, Refused) and (notice := self._notices.forget(uid)) is not None:
            if not outcome.status or outcome.status >= 500:  # it may have been written
                self._context.outbox.extend(texts.withdrawn(notice.victim.pod))
            self._on_eviction_failed(uid, subject, now)

    def restore_eviction(self, victim: PodInfo) -> None:
        """A pod that is seen at the start is being evicted, by an earlier run of ours."""
        if self._context.is_leaving(victim.pod) or self._notices.restore(victim):
            self._nominator.terminating_victims.add(victim.uid)
            self._nominator.inherited_victims.add(victim.uid)

    def restore_nomination(self, member: QueuedPod) -> None:
        """Nominate a pod as an earlier run of ours did: its victims may be gone already."""
        if (node := member.pod.pod.status.nominated_node_name) and member.phase is Phase.QUEUED:
            self._nominator.nominate(member, node)

    def on_outcome(self, effect: Effect, outcome: Outcome, subject: QueuedPod, now: float) -> None:
        """The outcome of a delete for ``subject``, or of a notice.

        If the victim stays, its nomination is void.
        """
        if isinstance(effect, PatchPodStatus):
            self._on_notice_outcome(effect, outcome, subject, now)
            return
        assert isinstance(effect, DeletePod), f"{effect} is no eviction"
        if not isinstance(outcome, Ambiguous | Applied):
            self._on_eviction_failed(effect.pod.uid, subject, now)

    def _on_eviction_failed(self, uid: str, subject: QueuedPod, now: float) -> None:
        self._keep(uid)
        if self._context.pods.get(subject.uid) is subject and subject.phase is Phase.QUEUED:
            self.cancel_nomination(subject, now)

    def forget_pod(self, uid: str) -> None:
        """A pod is gone or bound: it is no terminating victim, and not nominated."""
        self._nominator.keep(uid)
        self._notices.forget(uid)
        self._nominator.clear(uid)

    def on_victim_left(self, node: str) -> None:
        """A pod has left a node: pods that are nominated for it try again as soon as they fit.

        There is no need to try before, and they have waited long enough to skip their back-offs.
        Where others have taken the room of all victims, they look elsewhere.
        """
        nominator = self._nominator
        for member in nominator.nominated_pods_on(node):
            entity = member.entity
            if entity is None or entity.state not in (QueueState.BACKOFF, QueueState.UNSCHEDULABLE):
                continue
            if entity.group is not None:
                enough = not entity.victims & nominator.terminating_victims
            else:
                enough = self._release.fits_nominee(member, node) or (
                    entity.state is QueueState.UNSCHEDULABLE and not self._awaits_victims(node)
                )
            if enough:
                self._queue.activate(entity)

    def _awaits_victims(self, node: str) -> bool:
        leaving = self._nominator.terminating_victims
        return any(pod.uid in leaving for pod in self._context.cluster.pods_on(node))

    def check_consistent(self) -> None:
        """Check the notices and what is still to be sent.

        Raises:
            AssertionError: somebody was given notice and does not count as leaving, or an eviction
                is to be sent of a plan that has none.
        """
        self._notices.check_consistent()
        assert all(plan.victims for plan in self._unsent), "a plan without evictions is kept"
