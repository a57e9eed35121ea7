"""What the watches deliver, and how it changes the engine's state (``eventhandlers.go``)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from arranger.api.gang_membership import gang_membership
from arranger.api.quantity import QuantityError
from arranger.api.queue_annotations import invalid_values
from arranger.api.types.core import Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.pod_groups import AnyPodGroup, GangObject
from arranger.api.types.queue import Queue
from arranger.cluster.object_store import StoredObject, equal_but_version
from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.entity import QueuedPod
from arranger.engine.gang.gang_objects import GangObjects
from arranger.engine.gang.priority import effective_priority, update_priorities
from arranger.engine.gang.recovery import GangRecovery
from arranger.engine.gang.scheduler import GangScheduler
from arranger.engine.handlers.initial_objects import InitialObjects, key_of
from arranger.engine.phases import Phase
from arranger.engine.pod.binding_cycle import BindingCycle
from arranger.engine.pod.node_release import NodeRelease
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.pod.requeue import PodRequeuer
from arranger.engine.queue.cluster_events import (
    node_change,
    object_change,
    placed_pod_change,
    quota_change,
    quota_fields,
    waiting_pod_change,
)
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.quota_gate import QuotaGate
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.runtime.profile import Profile
from arranger.gangs.registry import GangRegistry
from arranger.quota.ledger import QuotaLedger

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class EventHandlers:
    """Changes the engine's state by the events of the watches.

    Until :meth:`start` the events are only taken in; see
    :mod:`~arranger.engine.handlers.initial_objects`.
    """

    _context: EngineContext
    #: By scheduler name.
    _profiles: Mapping[str, Profile]
    _queue: SchedulingQueue
    _registry: GangRegistry
    _ledger: QuotaLedger
    _nominator: Nominator
    _quota: QuotaGate
    _release: NodeRelease
    _requeuer: PodRequeuer
    _binding_cycle: BindingCycle
    _preemption: PreemptionExecutor
    _gang_scheduler: GangScheduler
    _gang_objects: GangObjects
    _recovery: GangRecovery
    #: Key (``namespace/name``) of a pod → its uid.
    _uid_of: dict[str, str] = field(default_factory=dict, init=False)
    _initial: InitialObjects = field(default_factory=InitialObjects, init=False)
    #: While the initial objects are taken in: the pods that are to be queued once all are known.
    _unqueued: list[QueuedPod] | None = field(default=None, init=False)

    @property
    def started(self) -> bool:
        """Whether events change the engine's state; until then they are only taken in."""
        return self._initial.taken

    def start(self, now: float) -> None:
        """All kinds have been read: take in what there is, as a whole. Later calls do nothing."""
        if (initial := self._initial.take()) is None:
            return
        pending: list[QueuedPod] = []
        self._unqueued = pending
        handlers = self._initial_handlers()
        for obj in initial:
            handlers.get(type(obj), self.on_object_updated)(obj, now)
        self._gang_objects.start()
        self._unqueued = None
        entities = {id(e): e for pod in pending for e in (self._requeuer.entity_for(pod, now),)}
        self._recovery.restore_holds(pending, now)
        for pod in pending:
            self._preemption.restore_nomination(pod)
        for entity in filter(lambda each: each.members, entities.values()):
            self._requeuer.enqueue(entity, now)
        self._gang_scheduler.bind_ready(now)

    def _initial_handlers(self) -> dict[type[Any], Callable[[Any, float], None]]:
        return {
            Node: self.on_node_updated,
            PodDisruptionBudget: self.on_disruption_budget_updated,
            Queue: self.on_queue_updated,
            GangObject: self._restore_gang,
            **dict.fromkeys(get_args(AnyPodGroup), self._restore_pod_group),
            Pod: self.on_pod_updated,
        }

    def _restore_pod_group(self, group: AnyPodGroup, now: float) -> None:
        self._recovery.on_pod_group(group)
        self.on_pod_group_updated(group, now)

    def _restore_gang(self, gang: GangObject, now: float) -> None:
        self._recovery.on_gang_object(gang)
        self.on_gang_updated(gang, now)

    def on_node_updated(self, node: Node, now: float) -> None:
        """A node appeared or was edited."""
        if self._initial.keep(node):
            return
        try:
            before = self._context.cluster.set_node(node)
        except QuantityError as error:
            # Its last good state stays; a node never seen in a good state stays unknown.
            log.warning("node %s ignored: allocatable: %s", node.metadata.name, error)
            return
        event = node_change(before, node)
        if event is not None:
            self._ledger.mark_stale()
            self._queue.wake(event, now)

    def on_node_deleted(self, name: str, now: float) -> None:
        """A node was deleted."""
        if self._initial.drop(Node, f"/{name}"):
            return
        for member in self._nominator.nominated_pods_on(name):
            self._preemption.cancel_nomination(member, now)
        self._gang_scheduler.bind_ready(now)
        before = self._context.cluster.remove_node(name)
        if before is not None:
            self._ledger.mark_stale()
            self._queue.wake(ClusterEvent(ActionType.NODE_REMOVED, node_before=before), now)

    def on_object_updated(self, stored: StoredObject, now: float) -> None:
        """An object that plugins look up appeared or was edited."""
        if self._initial.keep(stored):
            return
        before = self._context.cluster.objects.set(stored)
        if before is None or not equal_but_version(before, stored):
            self._queue.wake(object_change(before, stored), now)

    def on_object_deleted(self, stored: StoredObject, now: float) -> None:
        """An object that plugins look up was deleted."""
        if self._initial.drop(type(stored), key_of(stored)):
            return
        self._context.cluster.objects.remove(stored)
        self._queue.wake(object_change(stored, None), now)

    def on_disruption_budget_updated(self, budget: PodDisruptionBudget, now: float) -> None:
        """A PodDisruptionBudget appeared or was edited."""
        if self._initial.keep(budget):
            return
        self._context.cluster.set_budget(budget)

    def on_disruption_budget_deleted(self, budget: PodDisruptionBudget, now: float) -> None:
        """A PodDisruptionBudget was deleted."""
        if self._initial.drop(type(budget), key_of(budget)):
            return
        self._context.cluster.remove_budget(budget)

    def on_queue_updated(self, queue: Queue, now: float) -> None:
        """A Queue appeared or was edited."""
        if self._initial.keep(queue):
            return
        before, was_active = self._ledger.queues.get(queue.name), self._ledger.active
        if not self._ledger.set_queue(queue):
            return
        if not was_active:
            self._queue.requeue_all(now)
        problems = self._ledger.queues[queue.name].problems
        if problems and (before is None or before.problems != problems):
            self._context.outbox.append(pod_events.invalid_queue(queue, problems))
        self._queue.wake(quota_change("Queue"), now)

    def _release_admission(self, gang: str, now: float) -> None:
        """A gang that was admitted is gone: others may have the cards that were kept for it."""
        if self._quota.release(gang):
            self._queue.wake(ClusterEvent(ActionType.OTHER, resource="PodGroup"), now)

    def on_queue_deleted(self, queue: Queue, now: float) -> None:
        """A Queue was deleted."""
        if self._initial.drop(type(queue), key_of(queue)):
            return
        self._ledger.remove_queue(queue.name)
        if not self._ledger.active:
            self._queue.requeue_all(now)
        self._queue.wake(quota_change("Queue"), now)

    def on_pod_group_updated(self, group: AnyPodGroup, now: float) -> None:
        """A PodGroup appeared or was edited."""
        if self._initial.keep(group):
            return
        gang = self._registry.gangs.get(group.key)
        before = list(gang.problems) if gang is not None else []
        edited = self._registry.changes_owner_fields(group)
        was_known = self._registry.knows(group)
        changed = self._registry.on_pod_group_updated(group)
        if edited and gang is not None and gang.pod_group is group:
            # Its queue, its service type or its cards may be others.
            self._ledger.mark_stale()
            changed = changed | {gang.name}
            if self._quota.withdraw(group.key):
                self._queue.wake(ClusterEvent(ActionType.OTHER, resource="PodGroup"), now)
        update_priorities(self._context, self._nominator, self._registry, group)
        self._on_gangs_changed(changed, now)
        if edited and was_known:
            self._queue.wake(quota_change("PodGroup"), now)
        if gang is not None and gang.problems and gang.problems != before:
            self._context.outbox.append(pod_events.invalid_pod_group(group, gang.problems))

    def on_pod_group_deleted(self, group: AnyPodGroup, now: float) -> None:
        """A PodGroup was deleted."""
        if self._initial.drop(type(group), key_of(group)):
            return
        self._release_admission(group.key, now)
        self._ledger.mark_stale()
        changed = self._registry.on_pod_group_deleted(type(group), group.key)
        if group.key in self._registry.gangs:
            changed = changed | {group.key}  # its pods may be of another queue now
        update_priorities(self._context, self._nominator, self._registry, group)
        self._on_gangs_changed(changed, now)

    def on_gang_updated(self, gang: GangObject, now: float) -> None:
        """A Gang object appeared or was edited."""
        if self._initial.keep(gang):
            return
        self._gang_objects.on_updated(gang)

    def on_gang_deleted(self, gang: GangObject, now: float) -> None:
        """A Gang object was deleted."""
        if self._initial.drop(type(gang), key_of(gang)):
            return
        self._registry.forget_records(gang.key)
        self._gang_objects.on_deleted(gang.key)

    def _on_gangs_changed(self, names: set[str], now: float) -> None:
        if names and self._unqueued is None:
            self._gang_scheduler.on_gangs_changed(names, now)

    # --- pods ------------------------------------------------------------------------------

    def on_pod_updated(self, pod: Pod, now: float) -> None:
        """A pod appeared or was edited."""
        if self._initial.keep(pod):
            return
        meta = pod.metadata
        earlier = self._uid_of.get(pod.key)
        if earlier is not None and earlier != meta.uid:
            # Deleted and recreated under one name, and the watch folded that into one event.
            self.on_pod_deleted(pod.key, now)
        self._uid_of[pod.key] = meta.uid
        try:
            info = PodInfo(pod)
        except QuantityError as error:
            log.warning("pod %s ignored: resources: %s", pod.key, error)
            return
        changed = self._update_gang_membership(pod)
        info.priority = effective_priority(self._registry, pod)
        if pod.terminal:
            self._remove_pod(meta.uid, now)
        elif pod.spec.node_name:
            self._on_assigned_pod(info, now)
        elif pod.spec.scheduler_name in self._profiles:
            self._on_pending_pod(info, now, is_new=earlier != meta.uid)
        self._on_gangs_changed(changed, now)

    def on_pod_deleted(self, key: str, now: float) -> None:
        """A pod (``namespace/name``) was deleted."""
        if self._initial.drop(Pod, key):
            return
        uid = self._uid_of.pop(key, None)
        if uid is not None:
            gang = self._registry.gang_of(uid)
            self._remove_pod(uid, now)
            self._on_gangs_changed(self._registry.on_pod_deleted(uid), now)
            if gang is not None:
                self._gang_objects.on_member_lost(gang)
                if gang.name not in self._registry.gangs:
                    self._release_admission(gang.name, now)

    def _update_gang_membership(self, pod: Pod) -> set[str]:
        """Take the pod up in its gang; returns the gangs that this changes."""
        uid = pod.metadata.uid
        gang = self._registry.gang_of(uid)
        before = gang.memberships[uid] if gang is not None else None
        claim = gang_membership(pod)
        if claim is None and before is None:
            return set()
        changed = self._registry.on_pod_updated(pod, claim)
        problems = claim.problems if claim is not None else ()
        if problems and (before is None or before.problems != problems):
            self._context.outbox.append(pod_events.invalid_gang_annotations(pod, problems))
        return changed

    def _on_assigned_pod(self, info: PodInfo, now: float) -> None:
        cluster, member = self._context.cluster, self._context.pods.get(info.uid)
        before, reserved = cluster.pod(info.uid), cluster.node_of(info.uid)
        if info.uid in self._nominator:
            self._preemption.forget_pod(info.uid)  # somebody has bound it
            reserved = None
        if member is not None:
            binding = member.phase in (Phase.BINDING, Phase.UNKNOWN)
            if not binding or member.node != info.pod.spec.node_name:
                self._stop_tracking(member, now)  # else the Binding's outcome ends the story
        new_rules = before is not None and quota_fields(before.pod) != quota_fields(info.pod)
        if new_rules:
            self._ledger.mark_stale()
        cluster.observe_pod(info)
        if new_rules:
            self._queue.wake(quota_change("Pod"), now)
        if self._unqueued is not None and pod_events.is_being_evicted(info.pod):
            self._preemption.restore_eviction(info.uid)
        if before is not None and reserved != info.pod.spec.node_name:
            # Somebody else bound it elsewhere: what we had reserved is free again.
            self._queue.wake(ClusterEvent(ActionType.POD_REMOVED, pod=before.pod), now)
            before = None
        event = placed_pod_change(before, info)
        if event is not None:
            self._queue.wake(event, now)

    def _on_pending_pod(self, info: PodInfo, now: float, *, is_new: bool) -> None:
        member = self._context.pods.get(info.uid)
        if info.pod.metadata.deletion_timestamp is not None:
            self._on_deleting_pod(info, member, now, is_new=is_new)
            return
        if member is None:
            if info.uid in self._context.cluster:
                return  # bound by an earlier run of ours or by others; this event is older
            member = QueuedPod(info, self._profiles[info.pod.spec.scheduler_name], now)
            self._context.pods[info.uid] = member
            self._context.outbox.extend(pod_events.invalid_annotations(member))
            if self._unqueued is not None:
                self._unqueued.append(member)
            else:
                self._preemption.restore_nomination(member)
                self._requeuer.enqueue(self._requeuer.entity_for(member, now), now)
            return
        if member.phase is not Phase.QUEUED:
            member.pending_update = info
            return
        entity, earlier = member.entity, member.pod
        change = waiting_pod_change(earlier, info)
        assert entity is not None, f"{member} is queued nowhere"
        if change is None:
            member.pod = info
        elif (home := self._requeuer.entity_for(member, now)) is entity:
            self._queue.update(entity, member, info, change, now)
        else:
            member.update(info)
            self._requeuer.enqueue(home, now)
        if earlier.pod.metadata.annotations != info.pod.metadata.annotations:
            published = invalid_values(earlier.pod, member.profile.by_name)
            self._context.outbox.extend(pod_events.invalid_annotations(member, published))
        self._nominator.update(member)

    def _on_deleting_pod(
        self, info: PodInfo, member: QueuedPod | None, now: float, *, is_new: bool
    ) -> None:
        """A pod without a node is being deleted: it is not tried any more, and told so once."""
        waits = member is not None and member.phase is Phase.QUEUED
        if waits or (is_new and info.uid not in self._context.cluster):
            self._context.outbox.append(pod_events.skipped_deleting(info.pod))
        if member is None:
            return
        if member.phase in (Phase.QUEUED, Phase.WAITING):
            self._remove_pod(info.uid, now)
        else:
            member.pending_update = info

    def _remove_pod(self, uid: str, now: float) -> None:
        cluster = self._context.cluster
        freed, node = cluster.pod(uid), cluster.node_of(uid)  # on it, or nominated for it
        self._preemption.forget_pod(uid)
        if (member := self._context.pods.get(uid)) is not None:
            self._stop_tracking(member, now)
        cluster.remove_pod(uid)
        if freed is not None and node is not None:
            self._release.notify_pod_removed(freed, node, now)
            self._preemption.on_victim_left(node)

    def _stop_tracking(self, member: QueuedPod, now: float) -> None:
        """Forget a pod that is not ours to place any more; its reservation stays counted."""
        self._binding_cycle.cancel(member)
        self._requeuer.remove(member, now)
        self._release.stop_tracking(member)
