"""What the watches of PodGroups and Gangs deliver."""

from __future__ import annotations

from dataclasses import dataclass

from arranger.api.settings.gang_settings import pod_group_settings
from arranger.api.types.pod_groups import AnyPodGroup, GangObject, PodGroup, WorkloadGroup
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.gang.priority import EffectivePriorities
from arranger.engine.gang.scheduler import GangScheduler
from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.handlers.initial_objects import InitialObjects
from arranger.engine.queue.cluster_events import quota_change
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.quota.gate import QuotaGate
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.gangs.pod_group_index import rules_of
from arranger.gangs.registry import GangRegistry
from arranger.quota.ledger import QuotaLedger

#: Phases of a PodGroup that has had its minimum bound before.
_MINIMUM_REACHED = frozenset({"Scheduled", "Running", "Finished", "Failed", "Completed"})


@dataclass(slots=True, eq=False)
class GangHandlers:
    """Changes gangs by what their objects say, and looks again at whatever that concerns."""

    _initial: InitialObjects
    _context: EngineContext
    _queue: SchedulingQueue
    _registry: GangRegistry
    _ledger: QuotaLedger
    _priorities: EffectivePriorities
    _quota: QuotaGate
    _gang_scheduler: GangScheduler
    _gang_objects: GangObjects

    def restore_pod_group(self, group: AnyPodGroup, now: float) -> None:
        """A PodGroup was there at the start: what it records holds on."""
        if isinstance(group, PodGroup) and group.status.phase in _MINIMUM_REACHED:
            self._gang_objects.on_minimum_reached(group.key)
        self.on_pod_group_updated(group, now)

    def restore_gang(self, gang: GangObject, _now: float) -> None:
        """A Gang was there at the start: what it records holds on."""
        self._registry.restore_recorded_bundles(gang)
        self._gang_objects.on_updated(gang)

    def on_pod_group_updated(self, group: AnyPodGroup, now: float) -> None:
        """A PodGroup appeared or was edited."""
        gang = self._registry.gangs.get(group.key)
        edited = self._registry.changes_owner_fields(group)
        was_known = self._registry.knows(group)
        self._ledger.uncharged.note_group(group)
        changed = self._registry.on_pod_group_updated(group)
        if edited and gang is not None and gang.pod_group is group:
            # Its queue, its service type or its cards may be others.
            changed = changed | {gang.name}
            if self._quota.withdraw(group.key):
                self._queue.wake(ClusterEvent(ActionType.OTHER, resource="PodGroup"), now)
        if edited:
            self._quota.watch(group)
        self._priorities.update_group(group)
        self.on_gangs_changed(changed, now)
        if edited and self._concerns_others(group.key, was_known=was_known):
            self._queue.wake(quota_change("PodGroup"), now)
        if edited and not isinstance(group, WorkloadGroup):  # what is wrong of owners is told there
            problems: list[str] = []  # whether it has pods yet or not
            pod_group_settings(group, problems)
            if problems:
                self._context.outbox.append(pod_events.invalid_pod_group(group, problems))

    def on_workload_group_updated(self, group: WorkloadGroup, now: float) -> None:
        """An owner says otherwise of a gang; most often only its minimum, and nothing of queues."""
        before = self._registry.workload_group(group.key)
        if before is None or rules_of(before) == rules_of(group):
            self._ledger.uncharged.note_group(group)
            changed = self._registry.on_pod_group_updated(group)
            self._priorities.update_group(group)
            self.on_gangs_changed(changed, now)
        else:
            self.on_pod_group_updated(group, now)

    def on_pod_group_deleted(self, group: AnyPodGroup, now: float) -> None:
        """A PodGroup was deleted."""
        self.release_admission(group.key, now)
        self._ledger.uncharged.forget_group(type(group), group.key)
        changed = self._registry.on_pod_group_deleted(type(group), group.key)
        if group.key in self._registry.gangs:
            changed = changed | {group.key}  # its pods may be of another queue now
        else:
            self._gang_objects.mark((group.key,))  # its Gang has been kept for its sake
        self._priorities.update_group(group)
        self.on_gangs_changed(changed, now)
        if self._ledger.active and self._has_placed_pods(group.key):
            self._queue.wake(quota_change("PodGroup"), now)

    def _concerns_others(self, name: str, *, was_known: bool) -> bool:
        """Whether an edit of a PodGroup may matter to pods of others.

        By what queues use, or who may be evicted, if pods of it are on nodes; or by a queue that is
        closed, as it may be that of a pod that cannot be counted.
        """
        if was_known and self._ledger.uncharged:
            return True
        return (was_known or self._ledger.active) and self._has_placed_pods(name)

    def _has_placed_pods(self, name: str) -> bool:
        """Whether pods of a gang are on nodes: who may evict them, and which queue they count
        towards, may be another now."""
        gang, cluster = self._registry.gangs.get(name), self._context.cluster
        return gang is not None and any(uid in cluster for uid in gang.memberships)

    def on_gang_updated(self, gang: GangObject, now: float) -> None:
        """A Gang object appeared or was edited."""
        edited = self._gang_objects.names_other_bundles(gang)
        self._gang_objects.on_updated(gang)
        if edited:
            changed = self._registry.restore_recorded_bundles(gang, edited=True)
            self.on_gangs_changed(changed, now)
            # Who wrote fewer has not seen the pods of the others, and is to be told of them.
            self._gang_objects.mark(changed | {gang.key})

    def on_gang_deleted(self, gang: GangObject) -> None:
        """A Gang object was deleted."""
        self._registry.forget_records(gang.key)
        self._gang_objects.on_deleted(gang.key)

    def release_admission(self, gang: str, now: float) -> None:
        """A gang that was admitted is gone: others may have the cards that were kept for it."""
        if self._quota.release(gang):
            self._queue.wake(ClusterEvent(ActionType.OTHER, resource="PodGroup"), now)

    def on_gangs_changed(self, names: set[str], now: float) -> None:
        """Gangs have other members or settings; at the start they are looked at once, after it."""
        if names and not self._initial.being_handed_on:
            self._gang_scheduler.on_gangs_changed(names, now)
