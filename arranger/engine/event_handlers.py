"""What the watches tell, and what it does to the state of the core."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from arranger.api.annotation_checks import invalid_values
from arranger.api.annotations import SERVICE_TYPE
from arranger.api.extenders import Extender
from arranger.api.gang_membership import gang_membership
from arranger.api.quantity import QuantityError
from arranger.api.queue_annotations import is_preemptable, queue_of
from arranger.api.types.core import Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.pod_groups import AnyPodGroup, GangObject, PodGroup
from arranger.api.types.queue import Queue
from arranger.cluster.cluster import Cluster
from arranger.cluster.object_store import StoredObject, equal_but_version
from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.extenders.coordinator import ExtenderCoordinator
from arranger.engine.gang.holds import GangPolicy
from arranger.engine.gang.manager import GangManager
from arranger.engine.gang.priority import effective_priority, update_priorities
from arranger.engine.phases import Phase
from arranger.engine.pod.binding_cycle import BindingCycle
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.queue.cluster_events import node_change, placed_pod_change, waiting_pod_change
from arranger.engine.queue.fair_share import FairShareOrder
from arranger.engine.queue.job_shares import JobShares
from arranger.engine.queue.scheduling_queue import SchedulingQueue, SchedulingQueueConfig
from arranger.engine.queued_pod import QueuedPod
from arranger.engine.quota_timers import QuotaTimers
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import Status
from arranger.gangs.group import GangGroup
from arranger.gangs.registry import GangRegistry
from arranger.quota.admission import Admission
from arranger.quota.ledger import QuotaLedger
from arranger.quota.preemption_policy import QueuePreemptionPolicy, QuotaConfig

log = logging.getLogger(__name__)

#: Phases of a PodGroup that has had its minimum bound before.
_MINIMUM_REACHED = frozenset({"Scheduled", "Running", "Finished", "Failed", "Completed"})


class EventHandlers:
    """Owns all state, and takes in what happens to it.

    Attributes:
        cluster: nodes and placed pods.
        queue: what is not placed.
        registry: the gangs.
    """

    def __init__(
        self,
        profiles: Sequence[Profile],
        *,
        queue_config: SchedulingQueueConfig | None = None,
        gang_policy: GangPolicy | None = None,
        quota_config: QuotaConfig | None = None,
        to_unix_time: Callable[[float], float] = float,
        extenders: Sequence[Extender] = (),
        parallel_extender_calls: int = 1,
        perf_counter: Callable[[], float] | None = None,
    ) -> None:
        """``to_unix_time`` turns the engine's clock into seconds since 1970.

        ``perf_counter`` measures, in seconds, how long attempts take; no decision depends on it.
        Without one they are not measured.

        ``parallel_extender_calls``: see
        :class:`~arranger.engine.extenders.coordinator.ExtenderCoordinator`.
        """
        self.cluster = Cluster()
        self.registry = GangRegistry()
        quotas = quota_config or QuotaConfig()
        self.ledger = QuotaLedger(
            self.cluster,
            group_of=lambda pod: self.registry.pod_group_of(pod.uid),
            service_by_owner=quotas.service_type_by_owner,
            exempt_card_pods=quotas.exempt_card_pods,
        )
        self.queue = SchedulingQueue(
            queue_config or SchedulingQueueConfig(),
            lambda entity: self._gangs.missing_requirement(entity),
            FairShareOrder(self.ledger),
            JobShares(self.cluster).share_of,
        )
        self._profiles: Mapping[str, Profile] = {p.scheduler_name: p for p in profiles}
        self._context = EngineContext(self.cluster, self.queue, extenders)
        self._extender_calls = ExtenderCoordinator(self._context, parallel_extender_calls)
        self._context.to_unix_time = to_unix_time
        self._binding_cycle = BindingCycle(
            self._context,
            retry=self._requeue_with_backoff,
            reject=self._requeue_unschedulable,
            bound=self._on_bound,
        )
        self._preemption = PreemptionExecutor(
            self._context, preempt=self._binding_cycle.preempt, retry=self._requeue_with_backoff
        )
        self._gangs = GangManager(
            self._context,
            self.registry,
            gang_policy or GangPolicy(),
            self._binding_cycle.begin,
            self._preemption,
        )
        cycle = self._context.cycle
        self._admission = Admission(self.ledger, quotas.over_commit, quotas.card_request_timeout)
        self._context.quota_admission, self._context.is_partially_bound = (
            self._admit_to_quota,
            self._gangs.is_partially_bound,
        )
        self._quota_timers = QuotaTimers(self._context, self.registry, quotas, self._admission)
        sparing = self._quota_timers.protection
        self._context.on_evicted, self._context.on_eviction_failed = (
            self._on_evicted,
            self._gangs.on_eviction_failed,
        )
        policy = QueuePreemptionPolicy(
            self.ledger, quotas, cycle.nominator.terminating_victims, sparing
        )
        cycle.time_protection = policy if sparing.active else None
        cycle.extenders_choose = lambda pod: bool(
            self._extender_calls.interested_in_preemption(pod)
        )
        cycle.expand_to_gang, cycle.can_preempt = self._gangs.expand_to_gang, policy.can_preempt
        cycle.in_gang = lambda pod: self.registry.gang_of(pod.uid) is not None
        cycle.importance, cycle.allows, cycle.quota = policy.importance, policy.allows, policy
        self._perf_counter = perf_counter
        self._uid_of: dict[str, str] = {}
        self._started = False

    # --- events: nodes ---------------------------------------------------------------------

    def on_node_updated(self, node: Node, now: float) -> None:
        """A node appeared or was edited."""
        try:
            before = self.cluster.set_node(node)
        except QuantityError as error:
            # Its last good state stays; a node never seen in a good state stays unknown.
            log.warning("node %s ignored: allocatable: %s", node.metadata.name, error)
            return
        event = node_change(before, node)
        if event is not None:
            self.ledger.mark_stale()
            self._context.publish_event(event, now)

    def on_node_deleted(self, name: str, now: float) -> None:
        """A node was deleted."""
        for member in self._context.cycle.nominator.nominated_pods_on(name):
            self._preemption.cancel_nomination(member, now)
        before = self.cluster.remove_node(name)
        if before is not None:
            self.ledger.mark_stale()
            self._context.publish_event(
                ClusterEvent(ActionType.NODE_REMOVED, node_before=before), now
            )

    # --- events: what plugins look up ------------------------------------------------------

    def on_object_updated(self, stored: StoredObject, now: float) -> None:
        """An object that plugins look up appeared or was edited."""
        before = self.cluster.objects.set(stored)
        if before is None or not equal_but_version(before, stored):
            self._context.publish_event(_object_event(before, stored), now)

    def on_object_deleted(self, stored: StoredObject, now: float) -> None:
        """An object that plugins look up was deleted."""
        self.cluster.objects.remove(stored)
        self._context.publish_event(_object_event(stored, None), now)

    # --- events: budgets -------------------------------------------------------------------

    def on_disruption_budget_updated(self, budget: PodDisruptionBudget, now: float) -> None:
        """A PodDisruptionBudget appeared or was edited."""
        self.cluster.set_budget(budget)

    def on_disruption_budget_deleted(self, budget: PodDisruptionBudget, now: float) -> None:
        """A PodDisruptionBudget was deleted."""
        self.cluster.remove_budget(budget)

    # --- events: queues --------------------------------------------------------------------

    def on_queue_updated(self, queue: Queue, now: float) -> None:
        """A Queue appeared or was edited."""
        before = self.ledger.queues.get(queue.name)
        if not self.ledger.set_queue(queue):
            return
        problems = self.ledger.queues[queue.name].problems
        if problems and (before is None or before.problems != problems):
            self._context.outbox += pod_events.invalid_queue(queue, problems)
        self._context.publish_event(ClusterEvent(ActionType.OTHER, resource="Queue"), now)

    def _admit_to_quota(self, group: GangGroup) -> str:
        # Who has had its minimum has its cards; they count by its pods.
        asking = [g.pod_group for g in group.gangs if g.pod_group and not g.satisfied]
        refusal = self._admission.admit(asking, self._context.cycle.now)
        self._quota_timers.publish_pending()
        return refusal

    def _release_admission(self, gang: str, now: float) -> None:
        """A gang that was let in is gone: others may have what it was to get."""
        if self._admission.release(gang):
            self._context.publish_event(ClusterEvent(ActionType.OTHER, resource="PodGroup"), now)

    def on_queue_deleted(self, queue: Queue, now: float) -> None:
        """A Queue was deleted."""
        self.ledger.remove_queue(queue.name)
        self._context.publish_event(ClusterEvent(ActionType.OTHER, resource="Queue"), now)

    # --- events: gangs ---------------------------------------------------------------------

    def on_pod_group_updated(self, group: AnyPodGroup, now: float) -> None:
        """A PodGroup appeared or was edited."""
        if (
            not self._started
            and isinstance(group, PodGroup)
            and group.status.phase in _MINIMUM_REACHED
        ):
            self._on_gangs_changed(self.registry.mark_previously_satisfied(group.name), now)
        gang = self.registry.gangs.get(group.name)
        before = list(gang.problems) if gang is not None else []
        if self.registry.changes_owner_fields(group):
            self.ledger.mark_stale()  # its queue or service type may be another
        changed = self.registry.on_pod_group_updated(group)
        update_priorities(self._context, self.registry, group)
        self._on_gangs_changed(changed, now)
        if gang is not None and gang.problems != before:
            self._context.outbox += pod_events.invalid_pod_group(group, gang.problems)

    def on_pod_group_deleted(self, group: AnyPodGroup, now: float) -> None:
        """A PodGroup was deleted."""
        self._release_admission(group.name, now)
        self.ledger.mark_stale()
        changed = self.registry.on_pod_group_deleted(type(group), group.name)
        update_priorities(self._context, self.registry, group)
        self._on_gangs_changed(changed, now)

    def on_gang_updated(self, gang: GangObject, now: float) -> None:
        """A Gang object tells, at the start, what has become of a gang before."""
        self._gangs.attempt_status.on_updated(gang, now)
        if self._started:
            return
        if gang.status.resource_satisfied:
            self._on_gangs_changed(self.registry.mark_previously_satisfied(gang.name), now)
        self._on_gangs_changed(self.registry.restore_recorded_bundles(gang), now)

    def on_gang_deleted(self, gang: GangObject, now: float) -> None:
        """A Gang object was deleted."""
        self.registry.forget_records(gang.name)
        self._gangs.attempt_status.on_deleted(gang.name)

    def _on_gangs_changed(self, names: set[str], now: float) -> None:
        if names:
            self._gangs.on_gangs_changed(names, now)

    # --- events: pods ----------------------------------------------------------------------

    def on_pod_updated(self, pod: Pod, now: float) -> None:
        """A pod appeared or was edited."""
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
        info.priority = effective_priority(self.registry, pod)
        if pod.terminal:
            self._remove_pod(meta.uid, now)
        elif pod.spec.node_name:
            self._on_assigned_pod(info, now)
        elif pod.spec.scheduler_name in self._profiles:
            self._on_pending_pod(info, now)
        self._on_gangs_changed(changed, now)

    def on_pod_deleted(self, key: str, now: float) -> None:
        """A pod (``namespace/name``) was deleted."""
        uid = self._uid_of.pop(key, None)
        if uid is not None:
            gang = self.registry.gang_of(uid)
            self._remove_pod(uid, now)
            self._on_gangs_changed(self.registry.on_pod_deleted(uid), now)
            if gang is not None and gang.name not in self.registry.gangs:
                self._release_admission(gang.name, now)

    def _update_gang_membership(self, pod: Pod) -> set[str]:
        """Take the pod up in its gang; returns the gangs that this changes."""
        uid = pod.metadata.uid
        gang = self.registry.gang_of(uid)
        before = gang.memberships[uid] if gang is not None else None
        claim = gang_membership(pod)
        if claim is None and before is None:
            return set()
        changed = self.registry.on_pod_updated(pod, claim)
        if (
            claim is not None
            and claim.problems
            and (not before or before.problems != claim.problems)
        ):
            self._context.outbox += pod_events.invalid_gang_annotations(pod, claim.problems)
        return changed

    def _on_assigned_pod(self, info: PodInfo, now: float) -> None:
        before = self.cluster.pod(info.uid)
        reserved = self.cluster.node_of(info.uid)
        member = self._context.pods.get(info.uid)
        if info.uid in self._context.cycle.nominator:
            self._preemption.on_pod_deleted(info.uid)  # somebody has bound it
            reserved = None
        if member is not None and not self._is_own_binding(member, info):
            self._stop_tracking(member, now)
        if before is not None and _quota_fields(before.pod) != _quota_fields(info.pod):
            self.ledger.mark_stale()
        self.cluster.observe_pod(info)
        if before is not None and reserved != info.pod.spec.node_name:
            # Somebody else bound it elsewhere: what we had reserved is free again.
            self._context.publish_event(ClusterEvent(ActionType.POD_REMOVED, pod=before.pod), now)
            before = None
        event = placed_pod_change(before, info)
        if event is not None:
            self._context.publish_event(event, now)

    def _is_own_binding(self, member: QueuedPod, info: PodInfo) -> bool:
        """Whether the pod is where we are binding it, so that the outcome will end the story."""
        return (
            member.phase in (Phase.BINDING, Phase.UNKNOWN)
            and member.node == info.pod.spec.node_name
        )

    def _on_pending_pod(self, info: PodInfo, now: float) -> None:
        member = self._context.pods.get(info.uid)
        if info.pod.metadata.deletion_timestamp is not None:
            if member is not None and member.phase in (Phase.QUEUED, Phase.WAITING):
                self._remove_pod(info.uid, now)
            elif member is not None:
                member.pending_update = info
            return
        if member is None:
            if info.uid in self.cluster:
                return  # bound by an earlier life of ours or by others; this event is older
            member = QueuedPod(info, self._profiles[info.pod.spec.scheduler_name], now)
            self._context.pods[info.uid] = member
            self._context.outbox += pod_events.invalid_annotations(member)
            if node := info.pod.status.nominated_node_name:
                # Promised by an earlier life of ours: its victims may be gone already.
                self._context.cycle.nominator.nominate(member, node)
            self._gangs.enqueue(self._gangs.entity_for(member, now), now)
            return
        if member.phase is not Phase.QUEUED:
            member.pending_update = info
            return
        entity, change = member.entity, waiting_pod_change(member.pod, info)
        earlier = member.pod
        assert entity is not None, f"{member} is queued nowhere"
        if change is None:
            member.pod = info
        elif (home := self._gangs.entity_for(member, now)) is entity:
            self.queue.update(entity, member, info, change, now)
        else:
            member.update(info)
            self._gangs.enqueue(home, now)
        if earlier.pod.metadata.annotations != info.pod.metadata.annotations:
            told = invalid_values(earlier.pod, member.profile.by_name)
            self._context.outbox += pod_events.invalid_annotations(member, told)
        self._context.cycle.nominator.update(member)

    def _remove_pod(self, uid: str, now: float) -> None:
        freed, node = self.cluster.pod(uid), self.cluster.node_of(uid)  # on it, or promised it
        self._preemption.on_pod_deleted(uid)
        member = self._context.pods.get(uid)
        if member is not None:
            self._stop_tracking(member, now)
        self.cluster.remove_pod(uid)
        if freed is not None and node is not None:
            self._context.notify_pod_removed(freed, node, now)
            self._preemption.on_victim_left(node)

    def _stop_tracking(self, member: QueuedPod, now: float) -> None:
        """Forget a pod that is not ours to place any more; its reservation stays counted."""
        self._binding_cycle.cancel(member)
        self._gangs.on_pod_removed(member, now)
        self._context.stop_tracking(member)

    # --- what becomes of placed pods -------------------------------------------------------

    def _requeue_with_backoff(self, member: QueuedPod, now: float) -> None:
        """A pod has lost its node to an error: again after a back-off."""
        self._gangs.on_node_lost(member, now)
        entity = self._gangs.entity_for(member, now)
        entity.attempts = max(entity.attempts, 1)
        entity.last_attempt = now
        self._gangs.enqueue(entity, now)

    def _requeue_unschedulable(self, member: QueuedPod, refusal: Status, now: float) -> None:
        """A pod has lost its node to a plugin: again when the plugin's events say so."""
        self._gangs.on_node_lost(member, now)
        entity = self._gangs.entity_for(member, now)
        entity.blockers = (member.pod,)
        self.queue.add_unschedulable(entity, frozenset({refusal.plugin}), now)

    def _on_evicted(self, victim: PodInfo) -> None:
        self._quota_timers.protection.record_eviction(victim)
        self._gangs.on_evicted(victim)

    def _on_bound(self, member: QueuedPod, now: float) -> None:
        satisfied = self.registry.mark_bound(member.uid)
        for name in satisfied:
            self._admission.release(name)
        self._on_gangs_changed(satisfied, now)


def _quota_fields(pod: Pod) -> tuple[str, str, bool]:
    """What a pod says that its queue's ledger notes: its queue and service, and if it may go."""
    notes = pod.metadata.annotations
    return queue_of(pod), notes.get(SERVICE_TYPE, ""), is_preemptable(pod)


def _object_event(before: StoredObject | None, after: StoredObject | None) -> ClusterEvent:
    resource = type(after or before).__name__
    return ClusterEvent(ActionType.OTHER, resource=resource, stored=after, stored_before=before)
