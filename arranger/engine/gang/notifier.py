"""Gang groups as units of the queue: who is placed with whom, and what members are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from arranger.api.annotations import BUNDLE_TIMEOUT, GANG_TIMEOUT
from arranger.api.effects import AnnotatePod
from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.deadlines import DeadlineSet
from arranger.engine.entity import GANG, QueuedEntity, QueueState, gang_rejection
from arranger.engine.gang.attempt_status import GangAttemptStatus
from arranger.engine.gang.holds import GangHold, GangPolicy
from arranger.engine.gang.preemption import GangPreemptionExecutor, GangPreemptionPlanner
from arranger.engine.gang.scheduling_cycle import GangSchedulingCycle
from arranger.engine.gang.starvation import StarvationGuard
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.queued_pod import QueuedPod
from arranger.framework.status import Code, Status
from arranger.gangs import messages
from arranger.gangs.group import BundleCounts, GangGroup
from arranger.gangs.registry import GangRegistry

#: Seconds without an arrival after which the members of an incomplete gang are told: telling each
#: of a large gang costs the server as much as binding it.
ARRIVAL_QUIET_PERIOD: Final = 2.0
#: Seconds between two rounds of telling, for each member: a round costs the server about 3 ms each.
NOTIFY_INTERVAL_PER_MEMBER: Final = 0.01


class GangUnits:
    """Keeps the entities of gang groups, and in ``attempt_status`` how often they have been tried.

    Args:
        desk: the engine's state.
        registry: what is known about gangs.
        bind: starts binding a placed member.
        preempting: evicts pods for members, and takes back what they are promised.
    """

    def __init__(
        self,
        desk: EngineContext,
        registry: GangRegistry,
        policy: GangPolicy,
        bind: Callable[[QueuedPod, float], None],
        preempting: PreemptionExecutor,
    ) -> None:
        self._desk = desk
        self._registry = registry
        self._policy = policy
        self._bind = bind
        self._preempting = preempting
        self._cycle = GangSchedulingCycle(desk.cluster, desk.cycle)
        self.attempt_status = GangAttemptStatus(desk, registry)
        self._starvation_guard = StarvationGuard(desk, policy.starvation_after)
        plans = GangPreemptionPlanner(desk, self._cycle, self.expand_to_gang, self._gang_group_uids)
        self._preemption = GangPreemptionExecutor(desk, plans, preempting)
        #: Group name → its entity, whether or not it is in the queue.
        self._entities: dict[str, QueuedEntity] = {}
        #: Gang → the names under which its groups are in there.
        self._groups_of_gang: dict[str, set[str]] = {}
        self._holds: dict[str, GangHold] = {}
        #: Entities whose members are to be told.
        self._notices = DeadlineSet()
        #: Groups that could not be completed in time after part of them was bound.
        self._timed_out: set[str] = set()
        #: Gangs of pods that are evicted, or could not be, of which nothing has followed yet.
        self._changed_gangs: set[str] = set()

    # --- who is placed with whom -----------------------------------------------------------

    def entity_for(self, member: QueuedPod, now: float) -> QueuedEntity:
        """The entity that a pod without a node belongs to; it joins it, and is not queued yet."""
        gang = self._registry.gang_of(member.uid)
        group = None if gang is None else self._registry.group_of(gang)
        mine = member.entity
        if group is None or group.schedules_individually:
            if mine is not None and mine.group is None:
                return mine
            self._leave_entity(member, now)
            return QueuedEntity.from_pod(member)
        entity = self._entities.get(group.name)
        if entity is None:
            key = f"gang:{group.name}"
            entity = self._entities[group.name] = QueuedEntity(
                key, now, group, self._registry.gang_and_bundle_of
            )
            for partner in group.gangs:
                self._groups_of_gang.setdefault(partner.name, set()).add(group.name)
        entity.group = group
        if mine is not entity:
            self._leave_entity(member, now)
            entity.add_member(member)
        return entity

    def _leave_entity(self, member: QueuedPod, now: float) -> None:
        entity = member.entity
        if entity is None:
            return
        queued = entity.key in self._desk.queue
        self._desk.queue.remove(entity)
        entity.remove_member(member)
        if queued and entity.members:
            self.enqueue(entity, now)

    def enqueue(self, entity: QueuedEntity, now: float) -> None:
        """Queue an entity, and tell its members in a while if it is not complete."""
        if entity.group is not None:
            entity.urgent = self._is_urgent(entity.group)
        self._desk.queue.add(entity, now)
        if entity.group is not None and entity.state is QueueState.GATED:
            entity.notify_after = now + ARRIVAL_QUIET_PERIOD
            self._schedule_notice(entity, entity.notify_after)

    def missing_requirement(self, entity: QueuedEntity) -> Status | None:
        """What the group still lacks to be tried: the seed's first two checks of PreFilter."""
        group = entity.gang_group
        if reason := messages.blocking_reason(group):
            return gang_rejection(reason)
        if self._lacks_members(entity, group):
            return gang_rejection(f"{messages.display_name(group)} waits for members")
        if reason := self._desk.quota_admission(group):
            text = f"{messages.display_name(group)} waits: {reason}"
            # The plugin's queueing hints say what may help.
            return Status(Code.UNSCHEDULABLE, (text,), entity.profile.quota_plugin)
        if not entity.ready_count():
            return gang_rejection(f"{messages.display_name(group)}: its members are held back")
        return None

    def _lacks_members(self, entity: QueuedEntity, group: GangGroup) -> bool:
        """Whether too few members have arrived."""
        return group.lacks_members(self._arrived_counts(entity))

    def expand_to_gang(self, victims: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """The victims, and the whole of each gang that would be left short of its minimum."""
        leaving = {pod.uid: pod for pod in victims}
        groups = {
            self._registry.group_of(gang).name: self._registry.group_of(gang)
            for pod in victims
            if (gang := self._registry.gang_of(pod.uid)) is not None
        }
        for _, group in sorted(groups.items()):
            pods = [self._desk.cluster.pod(uid) for gang in group.gangs for uid in gang.memberships]
            placed = {pod.uid: pod for pod in pods if pod is not None}
            if any(
                gang.breaks_if_evicted(
                    sum(u in leaving and not gang.is_terminating(u) for u in gang.memberships)
                )
                for gang in group.gangs
            ):
                leaving |= placed
        return list(leaving.values())

    def on_evicted(self, victim: PodInfo) -> None:
        """A pod is being evicted; what follows for its gang waits for
        :meth:`GangManager.process_changes`.

        Others are being placed now, perhaps of the same gang.
        """
        self._changed_gangs |= self._registry.mark_evicting(victim.uid)

    def on_eviction_failed(self, uid: str) -> None:
        """A pod could not be evicted; what follows waits as with :meth:`evicted`."""
        self._changed_gangs |= self._registry.mark_eviction_failed(uid)

    def _gang_group_uids(self, pod: PodInfo) -> frozenset[str]:
        gang = self._registry.gang_of(pod.uid)
        gangs = () if gang is None else self._registry.group_of(gang).gangs
        return frozenset(uid for each in gangs for uid in each.memberships)

    # --- telling ---------------------------------------------------------------------------

    def _schedule_notice(self, entity: QueuedEntity, due: float) -> None:
        """Have the members told, not before ``due`` and not more often than it is worth."""
        count = len(entity.members) + len(self._held_members(entity))
        self._notices.schedule(
            entity.key, max(due, entity.notified_at + NOTIFY_INTERVAL_PER_MEMBER * count)
        )

    def _notify_due(self, now: float) -> None:
        for key in self._notices.pop_due(now):
            entity = self._entities.get(key.removeprefix("gang:"))
            if entity is None:
                continue
            held = self._held_members(entity)
            left_alone = not entity.members and bool(held)
            left_alone = left_alone and self._lacks_members(entity, entity.gang_group)
            if not left_alone and entity.key not in self._desk.queue:
                continue
            if left_alone or entity.state is QueueState.GATED:
                if now < entity.notify_after and self._lacks_members(entity, entity.gang_group):
                    self._schedule_notice(entity, entity.notify_after)  # members are still arriving
                    continue
                entity.reason = self._gated_reason(entity)
                for member in entity.members.values():
                    # Who knows when it is complete again; others can use what it was promised.
                    self._preempting.clear_nomination(member, now)
            if entity.reason and entity.state is not QueueState.ACTIVE:
                entity.notified_at = now
                for member in (*entity.ready(), *held):
                    self._desk.outbox += pod_events.scheduling_failed(
                        member, pod_events.UNSCHEDULABLE, entity.reason
                    )

    def _held_members(self, entity: QueuedEntity) -> list[QueuedPod]:
        """Members that have a node and wait for the others: what these lack, they lack, too."""
        hold = self._holds.get(entity.gang_group.name)
        return (
            [m for m in hold.members.values() if m.permit_plugin == GANG]
            if hold is not None
            else []
        )

    def _gated_reason(self, entity: QueuedEntity) -> str:
        """The reason with the members counted, which is too much work for every arrival."""
        group, refused = entity.gang_group, self.missing_requirement(entity)
        if (
            refused is not None
            and not group.missing_partners
            and self._lacks_members(entity, group)
        ):
            arrived = messages.arrival_summary(group, self._arrived_counts(entity))
            return f"{refused.message()}: {arrived}"
        return entity.reason

    def _clear_timeout_mark(self, members: Iterable[QueuedPod]) -> None:
        """Take the timeout mark off the pods of gangs whose owner has reacted."""
        for member in members:
            gang = self._registry.gang_of(member.uid)
            if gang is not None and not gang.blocked and gang.memberships[member.uid].timed_out:
                mark = {GANG_TIMEOUT: None, BUNDLE_TIMEOUT: None}
                self._desk.outbox.append(AnnotatePod(pod_events.pod_key(member.pod.pod), mark))

    # --- counting --------------------------------------------------------------------------

    def _members_of(self, names: Iterable[str]) -> list[QueuedPod]:
        gangs = [self._registry.gangs.get(name) for name in sorted(names)]
        uids = [uid for gang in gangs if gang is not None for uid in gang.memberships]
        return [self._desk.pods[uid] for uid in uids if uid in self._desk.pods]

    def _arrived_counts(self, entity: QueuedEntity) -> BundleCounts:
        """Members that are there to be placed, and those already held."""
        group = entity.gang_group
        hold = self._holds.get(group.name)
        if hold is None or not hold.members:
            return entity.arrived
        held = group.count_by_bundle(hold.members)
        return {gang: held[gang] + entity.arrived.get(gang, Counter()) for gang in held}

    def _is_urgent(self, group: GangGroup) -> bool:
        """Whether the group is to be completed before all others."""
        if self._policy.on_partial_bind == "Hold" or group.name in self._timed_out:
            return False
        return group.partially_bound

    def _is_stale(self, entity: QueuedEntity) -> bool:
        group = entity.gang_group
        return any(
            self._registry.gangs.get(gang.name) is not gang
            or self._registry.group_of(gang) is not group
            for gang in group.gangs
        )
