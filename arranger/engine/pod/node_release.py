"""Gives reserved nodes back, and wakes the pods that may fit there now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from arranger.cluster.pod_info import PodInfo
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.phases import HOLDS_NODE, Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.pod.possible_room import Freed, FreedRoom
from arranger.engine.pod.reserve_and_permit import run_unreserve_plugins
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.collaborators import Nominations
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.preemption import EvictionPolicy


class PartiallyBound(Protocol):
    """Knows the gangs that are bound in part."""

    def is_partially_bound(self, uid: str) -> bool:
        """Whether others of a pod's gang are bound, and may want its node before all others."""


@dataclass(slots=True, eq=False)
class NodeRelease:
    """Ends reservations of pods that are not bound."""

    _context: EngineContext
    _queue: SchedulingQueue
    _cycle: SchedulingCycle
    _policy: EvictionPolicy
    _nominations: Nominations
    _gangs: PartiallyBound
    #: Of what nobody has been told, see :meth:`together`, and whether others may want it first.
    _given_back: list[tuple[Freed, bool]] | None = field(default=None, init=False)

    @contextmanager
    def together(self, now: float) -> Iterator[None]:
        """Of all nodes that are given back inside those that wait are told at the end, at once.

        Else each of them would be asked anew for every pod of a gang that gives its nodes back.
        """
        if self._given_back is not None:
            yield
            return
        self._given_back = []
        try:
            yield
        finally:
            given_back, self._given_back = self._given_back, None
            for of_partial in (True, False):
                removed = [each for each, yields in given_back if yields is of_partial]
                self._notify(removed, now, yields=of_partial)

    def notify_pod_removed(self, pod: PodInfo, node: str, now: float) -> None:
        """A pod has left a node, or its nomination: wake pods that might fit there now."""
        removed, yields = Freed(node, pod), self._gangs.is_partially_bound(pod.uid)
        if self._given_back is not None:
            self._given_back.append((removed, yields))
        else:
            self._notify([removed], now, yields=yields)

    def _notify(self, removed: Sequence[Freed], now: float, *, yields: bool) -> None:
        """Pods have left their nodes: one event, whichever they are and however many."""
        if not removed:
            return
        room = FreedRoom(self._context, self._policy, self._nominations, list(removed))
        first = removed[0].left if len(removed) == 1 else None
        event = ClusterEvent(
            ActionType.POD_REMOVED,
            # Of several nothing is known: whoever asks about the pod may be helped by any of them.
            pod=None if first is None else first.pod,
            could_fit=room.could_fit,
            frees_quota=room.frees_quota,
        )
        self._queue.wake(event, now, yields=yields, room=room)
        for node in dict.fromkeys(each.node for each in removed):
            self._wake_nominees(node, partial(self.fits_nominee, node=node))

    def notify_node_changed(self, event: ClusterEvent, now: float) -> None:
        """A node has appeared or was edited: wake pods that might fit there now.

        Pods that are nominated for it are tried in any case: it may not be for them any more.
        """
        assert event.node is not None, f"{event} is of no node"
        name = event.node.metadata.name
        room = FreedRoom(self._context, self._policy, self._nominations, [Freed(name)])
        event = replace(event, could_fit=room.could_fit, frees_quota=room.frees_quota)
        self._queue.wake(event, now)
        self._wake_nominees(name, lambda _: True)

    def _wake_nominees(self, node: str, wanted: Callable[[QueuedPod], bool]) -> None:
        """Try those that are nominated for a node, apart from the others of their class."""
        for member in self._nominations.nominated_pods_on(node):
            entity = member.entity
            if entity is None or entity.group is not None:
                continue
            if entity.state is QueueState.UNSCHEDULABLE and wanted(member):
                self._queue.activate(entity)

    def fits_nominee(self, member: QueuedPod, node: str) -> bool:
        """Whether a pod now fits on the node that it is nominated for."""
        nominations, can_preempt = self._nominations, self._policy.can_preempt

        def steps_aside(other: PodInfo) -> bool:
            """Whether another pod is nominated, and that does not count against the member."""
            if other.uid not in nominations:
                return False
            return other.uid == member.uid or can_preempt(member.pod, other)

        return self._context.cluster.could_fit(member.pod, node, steps_aside)

    def release_node(self, member: QueuedPod, now: float) -> bool:
        """Take a reservation back; False if the pod is being deleted and is gone with it.

        The caller queues the pod again: its own leaving must not wake it.
        """
        context, node = self._context, member.node
        context.waiting_pods.pop(member.uid, None)
        self._cycle.unreserve(member)
        context.cluster.devices.claim_tracker.give_up(member.uid)
        self.notify_pod_removed(member.pod, node, now)
        update = member.pending_update
        if update is not None and update.pod.metadata.deletion_timestamp is not None:
            member.transition(Phase.GONE)
            del context.pods[member.uid]
            member.entity = None
            return False
        member.transition(Phase.QUEUED)
        if member.shown_node:
            context.outbox.append(pod_events.nominated(member, ""))
        if update is not None:
            member.update(update)
        return True

    def stop_tracking(self, member: QueuedPod) -> None:
        """A pod is not ours to place any more; its reservation stays counted."""
        self._context.waiting_pods.pop(member.uid, None)
        if member.phase in HOLDS_NODE:
            run_unreserve_plugins(member)
        self._context.cluster.devices.claim_tracker.give_up(member.uid)
        member.transition(Phase.GONE)
        del self._context.pods[member.uid]
        member.entity = None  # a reference cycle would be left
