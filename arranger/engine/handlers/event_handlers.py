"""What the watches deliver, and how it changes the engine's state (``eventhandlers.go``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from arranger.api.effects import Effect
from arranger.api.quantity import QuantityError
from arranger.api.quarantine import UnreadableError
from arranger.api.types.core import Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.pod_groups import POD_GROUPS, AnyPodGroup, GangObject
from arranger.api.types.queue import Queue
from arranger.cluster.object_store import STORED_KINDS, StoredObject, equal_but_version
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.gang.scheduler import GangScheduler
from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.handlers.closed_nodes import ClosedNodes
from arranger.engine.handlers.gang_handlers import GangHandlers
from arranger.engine.handlers.initial_objects import InitialObjects, key_of
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.engine.handlers.tenant_handlers import TenantHandlers
from arranger.engine.handlers.watched_kinds import WatchedKind, WatchedKinds, watched_kind
from arranger.engine.pod.node_release import NodeRelease
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.queue.cluster_events import node_change, object_change, quota_change
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.quota.cards import same_cards
from arranger.quota.ledger import QuotaLedger

T = TypeVar("T")


class EventBarrier(Protocol):
    """Does a step, and sets objects aside that make it raise."""

    def hand_on(
        self,
        kind: WatchedKind[T],
        obj: T,
        now: float,
        hear: Callable[[T, float], None] | None = None,
    ) -> None:
        """Have an object heard of by ``hear``, or by whoever hears of updates of its kind."""

    def on_update_fault(
        self, kind: WatchedKind[T], obj: T, before: T | None, error: Exception, now: float
    ) -> None:
        """What concerns an object has raised."""

    def run(self, now: float, step: Callable[[], None]) -> None:
        """Do a step, again without those that make it raise."""


@dataclass(slots=True, eq=False)
class EventHandlers:
    """Changes the engine's state by the events of the watches.

    Until :meth:`start` the events are only taken in; see
    :mod:`~arranger.engine.handlers.initial_objects`.

    Attributes:
        pods: takes in what concerns pods.
        kinds: who hears of objects of each kind; empty when given, for others to look them up.
    """

    _initial: InitialObjects
    _context: EngineContext
    _queue: SchedulingQueue
    _release: NodeRelease
    _ledger: QuotaLedger
    _nominator: Nominator
    _preemption: PreemptionExecutor
    _gang_scheduler: GangScheduler
    _gang_objects: GangObjects
    _gangs: GangHandlers
    _barrier: EventBarrier
    _tenants: TenantHandlers
    _closed: ClosedNodes
    pods: PodHandlers
    kinds: WatchedKinds

    def __post_init__(self) -> None:
        self.kinds.update(self._watched_kinds())

    @property
    def started(self) -> bool:
        """Whether events change the engine's state; until then they are only taken in."""
        return self._initial.taken

    def start(self, now: float) -> None:
        """All kinds have been read: take in what there is, as a whole. Later calls do nothing."""
        if (taken := self._initial.take()) is None:
            return
        initial, failed = taken
        restore: dict[type[Any], Callable[[Any, float], None]] = {
            GangObject: self._gangs.restore_gang,
            **dict.fromkeys(POD_GROUPS, self._gangs.restore_pod_group),
        }
        for obj in initial:
            self._barrier.hand_on(self.kinds[type(obj)], obj, now, restore.get(type(obj)))
        for obj, error in failed:
            self._barrier.on_update_fault(self.kinds[type(obj)], obj, None, error, now)
        self._barrier.run(now, self._gang_objects.start)
        self._initial.end_handing_on()
        self._barrier.run(now, partial(self.pods.enqueue_initial, now))
        self._barrier.run(now, partial(self._gang_scheduler.bind_ready, now))

    def forget_notes(self, awaits: Callable[[Effect], bool]) -> None:
        """Drop what was only to be told, of an engine that never runs: nobody carries it out."""
        self._context.keep_effects(awaits)

    def _watched_kinds(self) -> dict[type[Any], WatchedKind[Any]]:
        groups = (self.on_pod_group_updated, self.on_pod_group_deleted)
        handlers: dict[type[Any], tuple[Callable[..., None], Callable[..., None]]] = {
            **dict.fromkeys(
                STORED_KINDS.values(), (self.on_object_updated, self.on_object_deleted)
            ),
            **dict.fromkeys(POD_GROUPS, groups),
            Node: (
                self.on_node_updated,
                lambda node, now: self.on_node_deleted(node.metadata.name, now),
            ),
            PodDisruptionBudget: (
                self.on_disruption_budget_updated,
                self.on_disruption_budget_deleted,
            ),
            Queue: (self.on_queue_updated, self.on_queue_deleted),
            GangObject: (self.on_gang_updated, self.on_gang_deleted),
            Pod: (self.on_pod_updated, lambda pod, now: self.on_pod_deleted(pod.key, now)),
        }
        return {kind: watched_kind(kind, *pair) for kind, pair in handlers.items()}

    def on_node_updated(self, node: Node, now: float) -> None:
        """A node appeared or was edited.

        Raises:
            UnreadableError: what it offers is not an amount.
        """
        if self._initial.keep(node):
            return
        node = self._closed.as_counted(node)
        try:
            before = self._context.cluster.set_node(node)
        except QuantityError as error:
            # Its last good state stays; a node never seen in a good state stays unknown.
            raise UnreadableError(f"allocatable: {error}") from None
        event = node_change(before, node)
        if event is not None:
            if not same_cards(before, node) and self._context.cluster.pods_on(node.metadata.name):
                self._ledger.mark_stale()
            self._release.notify_node_changed(event, now)

    def on_node_deleted(self, name: str, now: float) -> None:
        """A node was deleted."""
        if self._initial.drop(Node, f"/{name}"):
            return
        self._closed.forget_node(name)
        for member in self._nominator.nominated_pods_on(name):
            self._preemption.cancel_nomination(member, now)
        self._gang_scheduler.bind_ready(now)
        before = self._context.cluster.remove_node(name)
        self._gang_scheduler.on_node_deleted(name, now)
        if before is not None:
            if not same_cards(before, None):
                self._ledger.mark_stale()
            self._queue.wake(ClusterEvent(ActionType.NODE_REMOVED, node_before=before), now)

    def on_object_updated(self, stored: StoredObject, now: float) -> None:
        """An object that plugins look up appeared or was edited."""
        if self._initial.keep(stored):
            return
        before = self._context.cluster.objects.set(stored)
        if before is None or not equal_but_version(before, stored):
            self._queue.wake(object_change(before, stored), now)
            self._tenants.on_object_updated(stored, now)

    def on_object_deleted(self, stored: StoredObject, now: float) -> None:
        """An object that plugins look up was deleted."""
        if self._initial.drop(type(stored), key_of(stored)):
            return
        self._context.cluster.objects.remove(stored)
        self._queue.wake(object_change(stored, None), now)
        self._tenants.on_object_deleted(stored, now)

    def on_disruption_budget_updated(self, budget: PodDisruptionBudget, now: float) -> None:
        """A PodDisruptionBudget appeared or was edited."""
        if self._initial.keep(budget):
            return
        self._context.cluster.budgets.set(budget)

    def on_disruption_budget_deleted(self, budget: PodDisruptionBudget, now: float) -> None:
        """A PodDisruptionBudget was deleted."""
        if self._initial.drop(type(budget), key_of(budget)):
            return
        self._context.cluster.budgets.remove(budget)

    def on_queue_updated(self, queue: Queue, now: float) -> None:
        """A Queue appeared or was edited."""
        if self._initial.keep(queue):
            return
        before, was_active = self._ledger.queues.get(queue.name), self._ledger.active
        was_limited = self._ledger.rights.limited
        if not self._ledger.set_queue(queue):
            return
        if was_limited or self._ledger.rights.limited:
            self._tenants.on_rights_changed(now)
        elif not was_active:
            self._queue.requeue_all(now)
        problems = self._ledger.queues[queue.name].problems
        if problems and (before is None or before.problems != problems):
            self._context.outbox.append(pod_events.invalid_queue(queue, problems))
        self._queue.wake(quota_change("Queue"), now)

    def on_queue_deleted(self, queue: Queue, now: float) -> None:
        """A Queue was deleted."""
        if self._initial.drop(type(queue), key_of(queue)):
            return
        was_limited = self._ledger.rights.limited
        self._ledger.remove_queue(queue.name)
        if was_limited:
            self._tenants.on_rights_changed(now)
        elif not self._ledger.active:
            self._queue.requeue_all(now)
        self._queue.wake(quota_change("Queue"), now)

    def on_pod_group_updated(self, group: AnyPodGroup, now: float) -> None:
        """A PodGroup appeared or was edited."""
        if not self._initial.keep(group):
            self._gangs.on_pod_group_updated(group, now)

    def on_pod_group_deleted(self, group: AnyPodGroup, now: float) -> None:
        """A PodGroup was deleted."""
        if not self._initial.drop(type(group), key_of(group)):
            self._gangs.on_pod_group_deleted(group, now)

    def on_gang_updated(self, gang: GangObject, now: float) -> None:
        """A Gang object appeared or was edited."""
        if not self._initial.keep(gang):
            self._gangs.on_gang_updated(gang, now)

    def on_gang_deleted(self, gang: GangObject, now: float) -> None:
        """A Gang object was deleted."""
        if not self._initial.drop(type(gang), key_of(gang)):
            self._gangs.on_gang_deleted(gang)

    def on_pod_updated(self, pod: Pod, now: float) -> None:
        """A pod appeared or was edited."""
        if not self._initial.keep(pod):
            self.pods.on_updated(pod, now)

    def on_pod_deleted(self, key: str, now: float) -> None:
        """A pod (``namespace/name``) was deleted."""
        if not self._initial.drop(Pod, key):
            self.pods.on_deleted(key, now)
