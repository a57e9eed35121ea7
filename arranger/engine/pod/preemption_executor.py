"""Carries preemption out: promise the node, evict the victims, and see that they go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from arranger.api.effects import Ambiguous, Applied, DeletePod, Outcome, PatchPodStatus
from arranger.cluster.pod_info import PodInfo
from arranger.cluster.resource_fit import could_fit
from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.entity import QueueState
from arranger.engine.phases import Phase
from arranger.engine.queued_pod import QueuedPod
from arranger.quota.ledger import QuotaLedger


class PreemptionExecutor:
    """Evicts victims on behalf of pods.

    Args:
        desk: the engine's state.
        preempt: takes the node of a pod that a plugin makes wait, in Permit or in PreBind.
        retry: queues a pod again whose victims could not be evicted, or that has lost its promise.
    """

    def __init__(
        self,
        context: EngineContext,
        *,
        preempt: Callable[[QueuedPod, str, float], None],
        retry: Callable[[QueuedPod, float], None],
    ) -> None:
        self._context = context
        self._preempt = preempt
        self._retry = retry
        #: Deletes on their way, by identity, with whom they are for.
        self._deletes: dict[int, tuple[DeletePod, QueuedPod]] = {}

    def nominate(
        self, member: QueuedPod, node: str, victims: Iterable[PodInfo], now: float
    ) -> None:
        """Promise ``node`` to the pod and evict the victims there."""
        nominator, can_preempt = self._context.cycle.nominator, self._context.cycle.can_preempt
        for other in nominator.nominated_pods_on(node):
            if other.entity is not member.entity and can_preempt(member.pod, other.pod):
                self.cancel_nomination(other, now)
        nominator.nominate(member, node)
        victims = list(victims)
        for victim in victims:
            self.evict(victim, member, node, now)
        if victims:
            self._context.outbox.append(pod_events.preempting(member, victims))

    def cancel_nomination(self, member: QueuedPod, now: float) -> None:
        """Withdraw a promise; the pod looks for another node."""
        self.clear_nomination(member, now)
        self._retry(member, now)

    def clear_nomination(self, member: QueuedPod, now: float) -> None:
        """Take a promise back, and the nomination with it."""
        if self.release_nomination(member, now):
            self._context.outbox.append(
                PatchPodStatus(pod_events.pod_key(member.pod.pod), nominated_node="")
            )

    def release_nomination(self, member: QueuedPod, now: float) -> bool:
        """The pod needs no promised room any more, so that others may have it; whether it had."""
        nominator = self._context.cycle.nominator
        node = nominator.node_of(member.uid)
        if nominator.clear(member.uid):
            self._context.notify_pod_removed(member.pod, node, now)
        return bool(node)

    def evict(
        self, victim: PodInfo, member: QueuedPod, node: str, now: float, *, group: str = ""
    ) -> None:
        """Make one victim leave; a pod whose Binding is not on its way only loses its node.

        ``group`` names the gang group that the member is of.
        """
        context = self._context
        if victim.pod.metadata.deletion_timestamp is not None:
            return  # it is on its way already
        if victim.uid in context.cycle.nominator.terminating_victims:
            return
        own = context.pods.get(victim.uid)
        by, controller = member.pod.pod, _controller(member)
        not_bound_yet = own is not None and (
            own.phase is Phase.WAITING or (own.phase is Phase.BINDING and own.binding is None)
        )
        event = pod_events.preempted(
            victim.pod,
            by,
            node,
            controller,
            group=group,
            queue=self._foreign_queue(victim, member),
            stays=not_bound_yet,
        )
        context.outbox.append(event)
        if own is not None and not_bound_yet:
            reason = f"preempted by a pod of higher priority, {member.pod.key}"
            self._preempt(own, reason, now)
            return
        delete = DeletePod(
            pod_events.pod_key(victim.pod),
            pod_events.disruption_condition(controller, group=bool(group)),
        )
        context.cycle.nominator.terminating_victims.add(victim.uid)
        context.on_evicted(victim)
        self._deletes[id(delete)] = delete, member
        context.outbox.append(delete)

    def _foreign_queue(self, victim: PodInfo, taker: QueuedPod) -> str:
        """The taker's queue where that is not the victim's, and queues count; else ""."""
        ledger = self._context.cluster.quota
        if not isinstance(ledger, QuotaLedger) or not ledger.active:
            return ""
        queue = ledger.queue_name(taker.pod)
        return queue if queue != ledger.queue_name(victim) else ""

    def awaits(self, effect: object) -> bool:
        """Whether the outcome of an effect matters."""
        return id(effect) in self._deletes

    def on_outcome(self, effect: object, outcome: Outcome, now: float) -> None:
        """What became of a delete: if the victim stays, so does the pod without its promise."""
        if isinstance(outcome, Ambiguous):
            return
        delete, member = self._deletes.pop(id(effect))
        if isinstance(outcome, Applied):
            return
        self._context.cycle.nominator.terminating_victims.discard(delete.pod.uid)
        self._context.on_eviction_failed(delete.pod.uid)
        if self._context.pods.get(member.uid) is member and member.phase is Phase.QUEUED:
            self.cancel_nomination(member, now)

    def on_pod_deleted(self, uid: str) -> None:
        """A pod is gone: it leaves nowhere any more, and is promised nothing."""
        self._context.cycle.nominator.terminating_victims.discard(uid)
        self._context.cycle.nominator.clear(uid)

    def on_victim_left(self, node: str) -> None:
        """A pod has left a node: those who are promised it try again as soon as they fit.

        There is no need to try before, and they have waited long enough to be spared a back-off.
        """
        context = self._context
        nominator = context.cycle.nominator
        for member in nominator.nominated_pods_on(node):
            entity = member.entity
            if entity is None or entity.state not in (QueueState.BACKOFF, QueueState.UNSCHEDULABLE):
                continue
            if entity.group is not None:
                enough = not entity.victims & nominator.terminating_victims
            else:
                enough = could_fit(
                    context.cluster, member.pod, node, partial(self._yields_to, member)
                )
            if enough:
                context.queue.activate(entity)

    def _yields_to(self, member: QueuedPod, other: PodInfo) -> bool:
        """Whether another's promise counts for nothing against a pod's own."""
        if other.uid not in self._context.cycle.nominator:
            return False
        return other.uid == member.uid or self._context.cycle.can_preempt(member.pod, other)


def _controller(member: QueuedPod) -> str:
    return member.profile.scheduler_name
