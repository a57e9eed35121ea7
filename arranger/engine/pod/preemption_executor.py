"""Carries preemption out: promise the node, evict the victims, and see that they go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from arranger.api.effects import Ambiguous, Applied, DeletePod, Outcome, PatchPodStatus
from arranger.cluster.pod_info import PodInfo
from arranger.cluster.resource_fit import might_fit
from arranger.engine import pod_events
from arranger.engine.context import Desk
from arranger.engine.entity import Part
from arranger.engine.phases import Phase
from arranger.engine.queued_pod import Member
from arranger.framework.status import Code, Status
from arranger.quota.ledger import QueueLedger

#: Named as the plugin that takes a waiting pod's node.
PREEMPTION = "DefaultPreemption"


class Preempting:
    """Evicts victims on behalf of pods.

    Args:
        desk: the engine's state.
        reject: takes the node of a pod that a plugin makes wait, in Permit or in PreBind.
        retry: queues a pod again whose victims could not be evicted, or that has lost its promise.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        reject: Callable[[Member, Status, float], None],
        retry: Callable[[Member, float], None],
    ) -> None:
        self._desk = desk
        self._reject = reject
        self._retry = retry
        #: Deletes on their way, by identity, with whom they are for.
        self._deletes: dict[int, tuple[DeletePod, Member]] = {}

    def nominate(self, member: Member, node: str, victims: Iterable[PodInfo], now: float) -> None:
        """Promise ``node`` to the pod and evict the victims there."""
        nominations, may_take = self._desk.cycle.nominations, self._desk.cycle.may_take
        for other in nominations.on(node):
            if other.entity is not member.entity and may_take(member.pod, other.pod):
                self.break_promise(other, now)
        nominations.promise(member, node)
        victims = list(victims)
        for victim in victims:
            self.evict(victim, member, node, now)
        if victims:
            self._desk.outbox.append(pod_events.preempting(member, victims))

    def break_promise(self, member: Member, now: float) -> None:
        """Withdraw a promise; the pod looks for another node."""
        self.withdraw(member, now)
        self._retry(member, now)

    def withdraw(self, member: Member, now: float) -> None:
        """Take a promise back, and the nomination with it."""
        if self.release(member, now):
            self._desk.outbox.append(
                PatchPodStatus(pod_events.pod_ref(member.pod.pod), nominated_node="")
            )

    def release(self, member: Member, now: float) -> bool:
        """The pod needs no promised room any more, so that others may have it; whether it had."""
        nominations = self._desk.cycle.nominations
        node = nominations.node_of(member.uid)
        if nominations.take_back(member.uid):
            self._desk.freed(member.pod, node, now)
        return bool(node)

    def evict(
        self, victim: PodInfo, member: Member, node: str, now: float, *, group: str = ""
    ) -> None:
        """Make one victim leave; a pod whose Binding is not on its way only loses its node.

        ``group`` names the gang group that the member is of.
        """
        desk = self._desk
        if victim.pod.metadata.deletion_timestamp is not None:
            return  # it is on its way already
        if victim.uid in desk.cycle.nominations.leaving:
            return
        ours = desk.members.get(victim.uid)
        by, controller = member.pod.pod, _controller(member)
        ours_yet = ours is not None and (
            ours.phase is Phase.WAITING or (ours.phase is Phase.BINDING and ours.binding is None)
        )
        told = pod_events.preempted(
            victim.pod,
            by,
            node,
            controller,
            group=group,
            queue=self._other_queue(victim, member),
            stays=ours_yet,
        )
        desk.outbox.append(told)
        if ours is not None and ours_yet:
            reason = f"preempted by a pod of higher priority, {member.pod.key}"
            self._reject(ours, Status(Code.UNSCHEDULABLE, (reason,), PREEMPTION), now)
            return
        delete = DeletePod(
            pod_events.pod_ref(victim.pod), pod_events.disruption(controller, group=bool(group))
        )
        desk.cycle.nominations.leaving.add(victim.uid)
        desk.evicted(victim)
        self._deletes[id(delete)] = delete, member
        desk.outbox.append(delete)

    def _other_queue(self, victim: PodInfo, taker: Member) -> str:
        """The taker's queue where that is not the victim's, and queues count; else ""."""
        ledger = self._desk.cluster.companions.get(QueueLedger)
        if not isinstance(ledger, QueueLedger) or not ledger.active:
            return ""
        queue = ledger.queue_name(taker.pod)
        return queue if queue != ledger.queue_name(victim) else ""

    def awaits(self, effect: object) -> bool:
        """Whether the outcome of an effect matters."""
        return id(effect) in self._deletes

    def settle(self, effect: object, outcome: Outcome, now: float) -> None:
        """What became of a delete: if the victim stays, so does the pod without its promise."""
        if isinstance(outcome, Ambiguous):
            return
        delete, member = self._deletes.pop(id(effect))
        if isinstance(outcome, Applied):
            return
        self._desk.cycle.nominations.leaving.discard(delete.pod.uid)
        self._desk.spared(delete.pod.uid)
        if self._desk.members.get(member.uid) is member and member.phase is Phase.QUEUED:
            self.break_promise(member, now)

    def gone(self, uid: str) -> None:
        """A pod is gone: it leaves nowhere any more, and is promised nothing."""
        self._desk.cycle.nominations.leaving.discard(uid)
        self._desk.cycle.nominations.take_back(uid)

    def left(self, node: str) -> None:
        """A pod has left a node: those who are promised it try again as soon as they fit.

        There is no need to try before, and they have waited long enough to be spared a back-off.
        """
        desk = self._desk
        nominations = desk.cycle.nominations
        for member in nominations.on(node):
            entity = member.entity
            if entity is None or entity.part not in (Part.BACKOFF, Part.UNSCHEDULABLE):
                continue
            if entity.group is not None:
                enough = not entity.victims & nominations.leaving
            else:
                enough = might_fit(desk.cluster, member.pod, node, partial(self._aside, member))
            if enough:
                desk.queue.hurry(entity)

    def _aside(self, member: Member, other: PodInfo) -> bool:
        """Whether another's promise counts for nothing against a pod's own."""
        if other.uid not in self._desk.cycle.nominations:
            return False
        return other.uid == member.uid or self._desk.cycle.may_take(member.pod, other)


def _controller(member: Member) -> str:
    return member.profile.scheduler_name
