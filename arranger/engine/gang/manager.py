"""Gang groups in the queue: who is placed with whom, what is held, and when holding ends.

A group's entity in the queue has its members without a node. What a group holds while it is
incomplete is its :class:`GangHold`: the placed members of a NonStrict gang, and any that a Permit
plugin makes wait. The clock of WaitTime runs while there is a hold, or while part of the minimum is
bound; a Strict gang that fits nowhere holds nothing and may wait for ever. See
``docs/design/gang-scheduling.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from arranger.api.annotations import BUNDLE_TIMEOUT, GANG_TIMEOUT
from arranger.api.effects import AnnotatePod, DeletePod
from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.deadlines import DeadlineSet
from arranger.engine.entity import GANG, QueuedEntity, QueuedPod, QueueState
from arranger.engine.gang.holds import GangHold, GangPolicy
from arranger.engine.gang.scheduling_cycle import Placements, topology_constraint
from arranger.engine.phases import Phase
from arranger.engine.pod.node_release import NodeRelease
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.quota_gate import QuotaGate
from arranger.gangs import messages
from arranger.gangs.gang import MemberState
from arranger.gangs.group import GangGroup
from arranger.gangs.registry import GangRegistry

#: Seconds without an arrival after which the members of an incomplete gang are told: telling each
#: of a large gang costs the server as much as binding it.
ARRIVAL_QUIET_PERIOD: Final = 2.0
#: Seconds between two notices to the same group, for each of its members: telling one costs the
#: server about 3 ms.
NOTIFY_INTERVAL_PER_MEMBER: Final = 0.01


class GangManager:
    """Keeps the entities of gang groups and what incomplete groups hold; places nothing itself.

    Where a group becomes complete, its pods are to be bound next: :meth:`take_ready_to_bind`.

    Args:
        holds: what incomplete groups hold, by the group's name; the gate reads it, too.
        notices: the keys of entities whose members are to be told why they wait.
    """

    def __init__(
        self,
        context: EngineContext,
        queue: SchedulingQueue,
        registry: GangRegistry,
        policy: GangPolicy,
        quota: QuotaGate,
        release: NodeRelease,
        holds: dict[str, GangHold],
        notices: DeadlineSet,
    ) -> None:
        self._context = context
        self._queue = queue
        self._registry = registry
        self._policy = policy
        self._quota = quota
        self._release = release
        self._holds = holds
        self._notices = notices
        #: Group name → its entity, whether or not it is in the queue.
        self._entities: dict[str, QueuedEntity] = {}
        #: Gang → the names under which its groups are in there.
        self._groups_of_gang: dict[str, set[str]] = {}
        #: Groups that could not be completed in time after part of them was bound.
        self._timed_out: set[str] = set()
        #: Gangs of pods that are evicted, or could not be, of which nothing has followed yet.
        self._changed_gangs: set[str] = set()
        #: Members of groups that are complete, whose bindings are to be started next.
        self._ready_to_bind: list[QueuedPod] = []

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
        queued = entity.key in self._queue
        self._queue.remove(entity)
        entity.remove_member(member)
        if queued and entity.members:
            self.enqueue(entity, now)

    def enqueue(self, entity: QueuedEntity, now: float) -> None:
        """Queue an entity, and tell its members in a while if it is not complete."""
        if entity.group is not None:
            entity.urgent = self.is_urgent(entity.group)
        self._queue.add(entity, now)
        if entity.group is not None and entity.state is QueueState.GATED:
            entity.notify_after = now + ARRIVAL_QUIET_PERIOD
            self.schedule_notice(entity, entity.notify_after)

    def entity(self, key: str) -> QueuedEntity | None:
        """The entity of a gang group, by its key."""
        return self._entities.get(key.removeprefix("gang:"))

    # --- what happens to gangs -------------------------------------------------------------

    def on_gangs_changed(self, names: Iterable[str], now: float) -> None:
        """Gangs have other settings, other partners or new standing: sort their members anew."""
        names = set(names)
        concerned = sorted({key for name in names for key in self._groups_of_gang.get(name, ())})
        partners = {g.name for key in concerned for g in self._entities[key].gang_group.gangs}
        members = self._members_of(names | partners)
        for key in concerned:
            hold = self._holds.get(key)
            if hold is None:
                continue
            if not self._still_valid(hold):
                members += self._release_all(hold, now)
                continue
            members += self._release_moved(hold, now)
            if hold.members:
                self._release_if_short(hold, now)
            elif not hold.entity.gang_group.partially_bound:
                self._end_hold(hold)  # those bound, whose time it was, have lost their nodes
            if key in self._holds:
                self._bind_if_complete(hold, now)
        entities: dict[int, QueuedEntity] = {}
        for member in members:
            if member.phase is Phase.QUEUED:
                entity = self.entity_for(member, now)
                entities[id(entity)] = entity
        for entity in entities.values():
            self.enqueue(entity, now)
        self._clear_timeout_mark(members)
        for key in concerned:
            if not self._entities[key].members and self._is_stale(self._entities[key]):
                self._forget_group(key)

    def process_changes(self, now: float) -> None:
        """Let the gangs know of whose pods some are being evicted, or could not be."""
        while self._changed_gangs:
            names, self._changed_gangs = self._changed_gangs, set()
            self.on_gangs_changed(names, now)

    def on_evicted(self, victim: PodInfo) -> None:
        """A pod is being evicted; what follows for its gang waits for
        :meth:`GangManager.process_changes`.

        Others are being placed now, perhaps of the same gang.
        """
        self._changed_gangs |= self._registry.mark_evicting(victim.uid)

    def on_eviction_failed(self, uid: str) -> None:
        """A pod could not be evicted; what follows waits as with :meth:`evicted`."""
        self._changed_gangs |= self._registry.mark_eviction_failed(uid)

    def on_bound(self, member: QueuedPod, now: float) -> None:
        """A pod has been bound; its gang may have its minimum now."""
        satisfied = self._registry.mark_bound(member.uid)
        for name in satisfied:
            self._quota.release(name)
        if satisfied:
            self.on_gangs_changed(satisfied, now)

    def on_pod_removed(self, member: QueuedPod, now: float) -> None:
        """A member of a gang is gone, or is not ours any more."""
        self._leave_entity(member, now)
        for hold in list(self._holds.values()):
            if hold.members.pop(member.uid, None) is not None:
                self._release_if_short(hold, now)
        gang = self._registry.gang_of(member.uid)
        entity = None if gang is None else self._entities.get(self._registry.group_of(gang).name)
        if entity is not None and not entity.members:
            entity.notify_after = now + ARRIVAL_QUIET_PERIOD
            self.schedule_notice(entity, entity.notify_after)  # those that are held may miss it

    def on_node_lost(self, member: QueuedPod, now: float) -> None:
        """A member has lost its node; a Strict group that holds others gives them back, too."""
        changed = self._registry.set_binding(member.uid, MemberState.PENDING)
        if changed:
            # Members that could be placed on their own have to wait for it again.
            self.on_gangs_changed(changed, now)
        hold = self.hold_of(member)
        if hold is not None:
            hold.members.pop(member.uid)
            self._release_if_short(hold, now)

    def advance(self, now: float) -> None:
        """End the holds whose time is over."""
        for hold in [h for h in self._holds.values() if h.deadline <= now]:
            self._expire(hold, now)

    def next_timer(self) -> float | None:
        """When :meth:`advance` will have something to do."""
        return min((hold.deadline for hold in self._holds.values()), default=None)

    # --- holding ---------------------------------------------------------------------------

    def take_ready_to_bind(self) -> list[QueuedPod]:
        """The pods whose bindings are to be started now, since their groups are complete."""
        members, self._ready_to_bind = self._ready_to_bind, []
        return members

    def is_held(self, member: QueuedPod) -> bool:
        """Whether a group keeps this member's node."""
        return self.hold_of(member) is not None

    def held_members(self, entity: QueuedEntity) -> list[QueuedPod]:
        """Members that have a node and wait for the others: what these lack, they lack, too."""
        hold = self.hold(entity)
        return (
            [m for m in hold.members.values() if m.permit_plugin == GANG]
            if hold is not None
            else []
        )

    def hold(self, entity: QueuedEntity) -> GangHold | None:
        """What an entity's group holds."""
        return self._holds.get(entity.gang_group.name)

    def hold_of(self, member: QueuedPod) -> GangHold | None:
        """The hold that keeps a member's node."""
        gang = self._registry.gang_of(member.uid)
        if gang is None:
            return None
        hold = self._holds.get(self._registry.group_of(gang).name)
        return hold if hold is not None and member.uid in hold.members else None

    def get_or_create_hold(self, entity: QueuedEntity, now: float) -> GangHold:
        """What an entity's group holds; the clock of WaitTime starts if it held nothing."""
        group = entity.gang_group
        hold = self._holds.get(group.name)
        if hold is None:
            hold = GangHold(entity, now, now + self._wait_time(group), topology_constraint(group))
            self._holds[group.name] = hold
        return hold

    def hold_placed(self, entity: QueuedEntity, placed: Placements, now: float) -> None:
        """Keep the nodes of members whose group is not complete, or that Permit makes wait."""
        hold = self.get_or_create_hold(entity, now)
        for member, permit in placed:
            member.transition(Phase.WAITING)
            hold.members[member.uid] = member
            if permit is None:
                member.permit_plugin = GANG
            else:
                member.permit_plugin, member.permit_timeout = permit.plugin, permit.timeout
                member.deadline = now + permit.timeout
                self._context.waiting_pods[member.uid] = member
        self._bind_if_complete(hold, now)

    def on_permitted(self, member: QueuedPod, now: float) -> bool:
        """A Permit plugin lets a member go; True if its group keeps it until it is complete."""
        hold = self.hold_of(member)
        if hold is None:
            return False
        member.permit_plugin = GANG
        self._bind_if_complete(hold, now)
        return True

    def _bind_if_complete(self, hold: GangHold, now: float) -> None:
        """Bind what is held if that completes the group."""
        if self.requeue_lost(hold, now):
            return
        group = hold.entity.gang_group
        ready = [m for m in hold.members.values() if m.uid not in self._context.waiting_pods]
        if not group.lacks_members(group.count_by_bundle(member.uid for member in ready)):
            self.bind_all(ready, hold)

    def bind_all(self, members: Iterable[QueuedPod], hold: GangHold | None) -> None:
        """The group is complete: all that it has is to be bound."""
        if hold is not None:
            self._end_hold(hold)
        members = list(members)
        for member in members:
            self._registry.set_binding(member.uid)
        self._ready_to_bind += members

    def requeue_lost(self, hold: GangHold, now: float) -> bool:
        """Queue held members whose node is gone again; whether there were any."""
        nodes = self._context.cluster.table.index
        lost = [m for m in hold.members.values() if m.node not in nodes]
        if not lost:
            return False
        for member in lost:
            del hold.members[member.uid]
        released = [m for m in lost if self._release.release_node(m, now)]
        self._release_if_short(hold, now)
        self._requeue(hold, released, now)
        return True

    def _release_if_short(self, hold: GangHold, now: float) -> None:
        """Members have gone, or others have: a Strict group keeps nothing that is too little."""
        group = hold.entity.gang_group
        if not hold.members:
            self._end_hold(hold)
        elif group.is_strict and group.lacks_members(group.count_by_bundle(hold.members)):
            self._requeue(hold, self._release_all(hold, now), now)

    def _release_all(self, hold: GangHold, now: float) -> list[QueuedPod]:
        self._end_hold(hold)
        members, hold.members = hold.members, {}
        return [m for m in members.values() if self._release.release_node(m, now)]

    def _release_moved(self, hold: GangHold, now: float) -> list[QueuedPod]:
        """Give back what is held for members that say by now that they are in another gang."""
        ours = hold.entity.gang_group.gangs
        strangers = [m for m in hold.members.values() if self._registry.gang_of(m.uid) not in ours]
        for member in strangers:
            del hold.members[member.uid]
        released = [m for m in strangers if self._release.release_node(m, now)]
        if strangers:
            self._release_if_short(hold, now)
        return released

    def _requeue(self, hold: GangHold, released: Iterable[QueuedPod], now: float) -> None:
        entities = {id(e): e for e in (self.entity_for(m, now) for m in released)}
        if hold.entity.members:
            entities.setdefault(id(hold.entity), hold.entity)
        for entity in entities.values():
            entity.attempts = max(entity.attempts, 1)
            entity.last_attempt = now
            self.enqueue(entity, now)

    def _still_valid(self, hold: GangHold) -> bool:
        """Take up what the group says by now; False if that makes the hold void.

        Its clock goes on: who edits a gang does not thereby keep nodes from others for longer.
        """
        before = hold.entity.gang_group
        if any(self._registry.gangs.get(gang.name) is not gang for gang in before.gangs):
            return False
        group = self._registry.group_of(before.gangs[0])
        if (
            group != before
            or messages.blocking_reason(group)
            or topology_constraint(group) != hold.topology
        ):
            return False
        hold.entity.group = group
        hold.deadline = hold.since + self._wait_time(group)
        return True

    def _wait_time(self, group: GangGroup) -> float:
        return min(gang.settings.wait_time or self._policy.wait_time for gang in group.gangs)

    def _end_hold(self, hold: GangHold) -> None:
        group = hold.entity.gang_group
        self._holds.pop(group.name, None)

    def _expire(self, hold: GangHold, now: float) -> None:
        """WaitTime is over: give everything back ."""
        group = hold.entity.gang_group
        released = self._release_all(hold, now)
        partial = group.partially_bound
        if not partial and not released:
            return  # it was held for members that were bound then, and are gone
        if partial:
            self._timed_out.add(group.name)
            if self._policy.on_partial_bind == "Delete":
                self._delete_bound(group)
        elif self._policy.on_timeout == "Block":
            for gang in group.gangs:
                gang.blocked = True
            for member in (*hold.entity.members.values(), *released):
                mark = self._registry.membership_of(member.uid).timeout_annotation
                self._context.outbox.append(
                    AnnotatePod(pod_events.pod_key(member.pod.pod), {mark: "true"})
                )
        text = (
            f"{messages.display_name(group)} gave its nodes back: it did not become complete "
            f"within {hold.deadline - hold.since:g}s"
        )
        for member in [*hold.entity.members.values(), *released]:
            self._context.outbox.append(pod_events.gang_timed_out(member, text))
        self._requeue(hold, released, now)
        if hold.entity.members:
            self.schedule_notice(hold.entity, now)

    def _delete_bound(self, group: GangGroup) -> None:
        for gang in group.gangs:
            for uid in gang.memberships:
                pod = self._context.cluster.pod(uid)
                if (
                    pod is not None
                    and uid not in self._context.pods
                    and not gang.is_terminating(uid)
                ):
                    self._context.outbox.append(DeletePod(pod_events.pod_key(pod.pod)))

    def _forget_group(self, key: str) -> None:
        """A group is not formed any more, and none of its members is waiting in it."""
        for gang in self._entities.pop(key).gang_group.gangs:
            self._groups_of_gang[gang.name].discard(key)
            if not self._groups_of_gang[gang.name]:
                del self._groups_of_gang[gang.name]
        self._timed_out.discard(key)

    def schedule_notice(self, entity: QueuedEntity, due: float) -> None:
        """Have the members told, not before ``due`` and not more often than it is worth."""
        count = len(entity.members) + len(self.held_members(entity))
        self._notices.schedule(
            entity.key, max(due, entity.notified_at + NOTIFY_INTERVAL_PER_MEMBER * count)
        )

    def _clear_timeout_mark(self, members: Iterable[QueuedPod]) -> None:
        """Take the timeout mark off the pods of gangs whose owner has reacted."""
        for member in members:
            gang = self._registry.gang_of(member.uid)
            if gang is not None and not gang.blocked and gang.memberships[member.uid].timed_out:
                mark = {GANG_TIMEOUT: None, BUNDLE_TIMEOUT: None}
                self._context.outbox.append(AnnotatePod(pod_events.pod_key(member.pod.pod), mark))

    def _members_of(self, names: Iterable[str]) -> list[QueuedPod]:
        gangs = [self._registry.gangs.get(name) for name in sorted(names)]
        uids = [uid for gang in gangs if gang is not None for uid in gang.memberships]
        return [self._context.pods[uid] for uid in uids if uid in self._context.pods]

    def is_urgent(self, group: GangGroup) -> bool:
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

    def check_consistent(self) -> None:
        """Check entities and holds against each other.

        Raises:
            AssertionError: they disagree.
        """
        self._registry.check_consistent()
        for name, entity in self._entities.items():
            assert entity.group is not None, f"{entity} has no group"
            assert entity.group.name == name, f"{entity} is filed under {name}"
            for uid, member in entity.members.items():
                assert member.entity is entity, f"{member} is in two entities"
                assert member.phase is Phase.QUEUED, f"{member} is queued and has a node"
                gang = self._registry.gang_of(uid)
                assert gang in entity.group.gangs, f"{member} is not of {name}"
            counted = entity.gang_group.count_by_bundle(member.uid for member in entity.ready())
            arrived = {gang: +roles for gang, roles in entity.arrived.items() if +roles}
            assert arrived == {gang: roles for gang, roles in counted.items() if roles}, f"{entity}"
        for name, hold in self._holds.items():
            assert self._entities[name] is hold.entity, f"{name}: the hold of another"
            for member in hold.members.values():
                assert member.phase is Phase.WAITING, f"{member} is held in no such phase"
