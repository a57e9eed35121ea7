"""What the watch of pods delivers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from arranger.api.quantity import QuantityError
from arranger.api.quarantine import UnreadableError
from arranger.api.settings.gang_membership import GangMembership
from arranger.api.types.core import Pod
from arranger.backfill.history import RunTimeHistory
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.phases import Phase
from arranger.engine.gang.hold_recovery import HoldRecovery
from arranger.engine.gang.priority import EffectivePriorities
from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.handlers.do_all import do_all
from arranger.engine.handlers.gang_handlers import GangHandlers
from arranger.engine.handlers.initial_objects import InitialObjects
from arranger.engine.handlers.tenant_handlers import TenantHandlers
from arranger.engine.handlers.workload_gangs import WorkloadGangs
from arranger.engine.pod.binding_cycle import BindingCycle
from arranger.engine.pod.node_release import NodeRelease
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.pod.requeue import PodRequeuer
from arranger.engine.queue.cluster_events import (
    placed_pod_change,
    quota_change,
    quota_fields,
    waiting_pod_change,
)
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.runtime.profile import Profile
from arranger.gangs.gang import Gang
from arranger.gangs.registry import GangRegistry
from arranger.quota.ledger import QuotaLedger


class PlacedPodFollower(Protocol):
    """Follows pods from the time they are on nodes."""

    def observe(self, pod: PodInfo) -> None:
        """A pod is on a node, or was edited there."""

    def forget(self, uid: str) -> None:
        """A pod has ended, or is gone."""


@dataclass(slots=True, eq=False)
class _Leaves:
    """A pod whose deletion is not done.

    Attributes:
        gang: its gang before.
        changed: the gangs that its leaving changes, of which not everybody has heard.
    """

    gang: Gang | None
    changed: set[str] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class PodHandlers:
    """Takes pods up, follows them to their nodes, and gives back what they leave.

    Attributes:
        uids: of all pods that there are, by key (``namespace/name``).
    """

    _initial: InitialObjects
    _context: EngineContext
    #: By scheduler name.
    _profiles: Mapping[str, Profile]
    _queue: SchedulingQueue
    _registry: GangRegistry
    _ledger: QuotaLedger
    _nominator: Nominator
    _release: NodeRelease
    _requeuer: PodRequeuer
    _binding_cycle: BindingCycle
    _preemption: PreemptionExecutor
    _gang_objects: GangObjects
    _hold_recovery: HoldRecovery
    _gangs: GangHandlers
    _workloads: WorkloadGangs
    _priorities: EffectivePriorities
    _tenants: TenantHandlers
    _history: RunTimeHistory
    _followers: Sequence[PlacedPodFollower]
    #: Whether a resource is ignored in all profiles; None where none is.
    _is_ignored: Callable[[str], bool] | None
    uids: dict[str, str] = field(default_factory=dict, init=False)
    #: uid → what is left to do of its deletion, which has raised.
    _leaving: dict[str, _Leaves] = field(default_factory=dict, init=False)
    #: Pods of the initial lists, until all objects of these are known.
    _unqueued: list[QueuedPod] = field(default_factory=list, init=False)

    def enqueue_initial(self, now: float) -> None:
        """Queue the pods of the initial lists that hold no node, each gang once.

        Once it raises it can be called again: those that are taken out meanwhile are left out.
        """
        pending = [pod for pod in self._unqueued if self._context.pods.get(pod.uid) is pod]
        entities = {id(e): e for pod in pending for e in (self._requeuer.entity_for(pod, now),)}
        self._hold_recovery.restore(pending, now)
        for pod in pending:
            self._preemption.restore_nomination(pod)
        for entity in entities.values():
            if entity.members:
                self._requeuer.enqueue(entity, now)
        self._unqueued = []

    def on_updated(self, pod: Pod, now: float) -> None:
        """A pod appeared or was edited.

        Raises:
            UnreadableError: what it requests is not an amount.
        """
        meta = pod.metadata
        earlier = self.uids.get(pod.key)
        if earlier is not None and earlier != meta.uid:
            # Deleted and recreated under one name, and the watch folded that into one event.
            self.on_deleted(pod.key, now)
        self.uids[pod.key] = meta.uid
        try:
            info = PodInfo(pod, self._is_ignored)
        except QuantityError as error:
            raise UnreadableError(f"resources: {error}") from None
        changed = self._update_gang_membership(pod)
        if (left := self._leaving.pop(meta.uid, None)) is not None:
            changed |= left.changed  # it is there after all, or again
        info.priority = self._priorities.of(info)
        info.gang = self._move_to_gang(meta.uid)
        if not pod.terminal and (before := self._known(meta.uid)) is not None:
            self._tell_ignored(pod, before.pod)
        if pod.terminal:
            seen = self._context.clock.to_unix_time(now)
            if meta.uid in self._context.cluster:
                self._history.record(info, seen)
            elif earlier != meta.uid and (ended := pod.ended_at) is not None:
                # It ended before we were there to see it.
                self._history.record(info, min(ended.timestamp(), seen))
            self._remove_pod(meta.uid, now)
        elif pod.spec.node_name:
            self._on_assigned_pod(info, now)
        elif pod.spec.scheduler_name in self._profiles:
            self._on_pending_pod(info, now, is_new=earlier != meta.uid)
        self._gangs.on_gangs_changed(changed, now)

    def hold_room(self, pod: Pod, now: float) -> None:
        """Count what a pod takes of its node, and have nobody else hear of it."""
        info, earlier = PodInfo(pod, self._is_ignored), self.uids.get(pod.key)
        if earlier is not None and earlier != info.uid:
            self.on_deleted(pod.key, now)
        self.uids[pod.key] = info.uid
        self._context.cluster.observe_pod(info)

    def on_deleted(self, key: str, now: float) -> None:
        """A pod (``namespace/name``) was deleted: whatever raises, it is in no book any more.

        Where that cannot be done, another call does what is left of it.
        """
        uid = self.uids.pop(key, None)
        if uid is None:
            return
        leaves = self._leaving.pop(uid, None) or _Leaves(self._registry.gang_of(uid))
        try:
            do_all(
                partial(self._remove_pod, uid, now),
                partial(self._leave_gang, uid, leaves, now),
                partial(self._workloads.forget_pod, uid),
            )
            if (gang := leaves.gang) is not None:
                self._gang_objects.on_member_lost(gang)
                if gang.name not in self._registry.gangs:
                    self._gangs.release_admission(gang.name, now)
        except Exception:
            self.uids[key], self._leaving[uid] = uid, leaves
            raise

    def _leave_gang(self, uid: str, leaves: _Leaves, now: float) -> None:
        leaves.changed |= self._registry.on_pod_deleted(uid)
        self._gangs.on_gangs_changed(leaves.changed, now)

    def regroup(self, claims: Iterable[tuple[Pod, GangMembership | None]], now: float) -> None:
        """What owns pods says otherwise than before: they may be in other gangs, or in none."""
        changed = self._workloads.define(())
        moved: list[QueuedPod] = []
        for pod, claim in claims:
            uid = pod.metadata.uid
            gang = self._registry.gang_of(uid)
            if claim == (gang.memberships[uid] if gang is not None else None):
                continue
            changed |= self._registry.on_pod_updated(pod, claim)
            self._move_to_gang(uid)
            if (member := self._context.pods.get(uid)) is not None:
                moved.append(member)
        queued = [member for member in moved if member.phase is Phase.QUEUED]
        entities = [self._requeuer.entity_for(member, now) for member in queued]
        for entity in {id(entity): entity for entity in entities}.values():
            self._requeuer.enqueue(entity, now)
        self._gangs.on_gangs_changed(changed, now)

    def _move_to_gang(self, uid: str) -> str:
        """Have a pod be of the gang that it is in now, wherever it is known; returns its name."""
        gang, member = self._registry.gang_of(uid), self._context.pods.get(uid)
        name = "" if gang is None else gang.name
        cluster = self._context.cluster
        placed = cluster.pod(uid)
        newest = () if member is None else (member.pod, member.pending_update)
        known = [info for info in (placed, *newest) if info is not None and info.gang != name]
        for info in known:
            info.gang = name
        if known and member is not None:
            member.sign_anew()
        if known and placed is not None:
            cluster.place_anew(uid)  # counted with others of its job
            self._ledger.placed.doubt((uid,))  # another PodGroup may name another queue
        return name

    def _update_gang_membership(self, pod: Pod) -> set[str]:
        """Take the pod up in its gang; returns the gangs that this changes."""
        uid = pod.metadata.uid
        gang = self._registry.gang_of(uid)
        before = gang.memberships[uid] if gang is not None else None
        claim = self._workloads.membership_of(pod)
        if claim is None and before is None:
            return set()
        defined = self._workloads.define((claim.gang,) if claim is not None else ())
        counted = gang is not None and gang.counts_towards_minimum(uid)
        changed = self._registry.on_pod_updated(pod, claim) | defined
        if gang is not None and counted and not gang.counts_towards_minimum(uid):
            self._gang_objects.on_member_lost(gang)
        problems = claim.problems if claim is not None else ()
        if problems and (before is None or before.problems != problems):
            self._context.outbox.append(pod_events.invalid_gang_annotations(pod, problems))
        return changed

    def _known(self, uid: str) -> PodInfo | None:
        """A pod as it was before an edit, whether it waits, holds a node or is on one."""
        member = self._context.pods.get(uid)
        if member is None:
            return self._context.cluster.pod(uid)
        return member.pending_update or member.pod

    def _tell_ignored(self, pod: Pod, before: Pod | None) -> None:
        """Tell what is ignored of the annotations of a pod of ours, which is new or was edited."""
        profile = self._profiles.get(pod.spec.scheduler_name)
        if profile is None or pod.metadata.deletion_timestamp is not None:
            return
        in_gang = self._registry.gang_of(pod.metadata.uid) is not None
        events = pod_events.invalid_annotations(pod, before, profile.by_name, in_gang=in_gang)
        self._context.outbox.extend(events)

    def _on_assigned_pod(self, info: PodInfo, now: float) -> None:
        cluster, member = self._context.cluster, self._context.pods.get(info.uid)
        before, reserved = cluster.pod(info.uid), cluster.node_of(info.uid)
        if nominated := info.uid in self._nominator:
            self._preemption.forget_pod(info.uid)  # somebody has bound it
        if member is not None:
            binding = member.phase in (Phase.BINDING, Phase.UNKNOWN)
            if not binding or member.node != info.pod.spec.node_name:
                self._stop_tracking(member, now)  # else the Binding's outcome ends the story
        new_rules = before is not None and quota_fields(before.pod) != quota_fields(info.pod)
        if new_rules or self._ledger.lacks_queue_of(info.uid):
            self._ledger.placed.doubt((info.uid,))
        cluster.observe_pod(info)
        for follower in self._followers:
            follower.observe(info)
        self._preemption.observe(info)
        if new_rules:
            self._priorities.update_soon((info.uid,))
            self._queue.wake(quota_change("Pod"), now)
        if self._initial.being_handed_on and pod_events.is_being_evicted(info.pod):
            self._preemption.restore_eviction(info)
        if before is not None and reserved is not None and reserved != info.pod.spec.node_name:
            # Somebody else bound it elsewhere: what we had reserved is free again.
            self._release.notify_pod_removed(before, reserved, now)
            before = None
        elif nominated:
            before = None
        if self._initial.being_handed_on:
            return  # nobody waits yet
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
            self._tell_ignored(info.pod, None)
            self._tenants.tell(member)
            if self._initial.being_handed_on:
                self._unqueued.append(member)
            else:
                self._preemption.restore_nomination(member)
                self._requeuer.enqueue(self._requeuer.entity_for(member, now), now)
            return
        nominated = member.others_nominate(info)
        if member.phase is Phase.WAITING:
            self._on_held_pod(member, info, now)
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
        self._tenants.tell(member)
        self._nominator.update(member)
        if nominated:
            self._follow_nomination(member, now)

    def _follow_nomination(self, member: QueuedPod, now: float) -> None:
        """Another has nominated a waiting pod, or ended its nomination."""
        self._preemption.release_nomination(member, now)
        if member.shown_node:
            self._nominator.nominate(member, member.shown_node)

    def _on_held_pod(self, member: QueuedPod, info: PodInfo, now: float) -> None:
        """A pod that holds a node was edited: it keeps the node, and counts as it is now."""
        cluster, before = self._context.cluster, member.pod
        member.update(info)
        cluster.remove_pod(info.uid)
        cluster.assume_pod(info, member.node)
        if (event := placed_pod_change(before, info)) is not None:
            self._queue.wake(event, now)
        if quota_fields(before.pod) != quota_fields(info.pod):
            self._queue.wake(quota_change("Pod"), now)

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
        member = self._context.pods.get(uid)
        do_all(
            partial(self._preemption.forget_pod, uid),
            *(partial(follower.forget, uid) for follower in self._followers),
            *(() if member is None else (partial(self._stop_tracking, member, now),)),
            partial(cluster.remove_pod, uid),
            *(
                ()
                if freed is None or node is None
                else (partial(self._tell_freed, freed, node, now),)
            ),
        )

    def _tell_freed(self, freed: PodInfo, node: str, now: float) -> None:
        self._release.notify_pod_removed(freed, node, now)
        self._preemption.on_victim_left(node)

    def _stop_tracking(self, member: QueuedPod, now: float) -> None:
        """Forget a pod that is not ours to place any more; its reservation stays counted."""
        do_all(
            partial(self._binding_cycle.cancel, member),
            partial(self._requeuer.remove, member, now),
            partial(self._release.stop_tracking, member),
        )
