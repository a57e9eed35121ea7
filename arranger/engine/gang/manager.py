"""Follows what happens to gangs: who waits with whom, and which nodes are held or released.

Places and binds nothing itself: the members of groups that become complete are collected for the
scheduler, see :meth:`GangManager.take_ready_to_bind`. See ``docs/design/gang-scheduling.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from arranger.api.annotations import BUNDLE_TIMEOUT, GANG_TIMEOUT
from arranger.api.effects import AnnotatePod, Eviction
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.phases import Phase
from arranger.engine.context.rejecters import GANG
from arranger.engine.context.spared_pods import SparedPods
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.placement.boards import Placements
from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.gang.state.holds import GangHold, GangHolds
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.pod.node_release import NodeRelease
from arranger.engine.quota.gate import QuotaGate
from arranger.gangs.gang import Gang
from arranger.gangs.group import GangGroup
from arranger.gangs.registry import GangRegistry


@dataclass(slots=True, eq=False)
class GangManager:
    """Keeps entities and holds of gang groups as their gangs and members change."""

    _context: EngineContext
    _registry: GangRegistry
    _policy: GangPolicy
    _quota: QuotaGate
    _release: NodeRelease
    _entities: GangEntityIndex
    _holds: GangHolds
    _gang_objects: GangObjects
    _spared: SparedPods
    #: Gangs of pods whose eviction has begun or failed, for :meth:`process_changes`.
    _changed_gangs: set[str] = field(default_factory=set)
    #: Groups that timed out, of which nobody was deleted: perhaps no member was missing.
    _not_judged: set[str] = field(default_factory=set)
    #: Members of complete groups, for :meth:`take_ready_to_bind`.
    _ready_to_bind: list[QueuedPod] = field(default_factory=list)

    # --- events ----------------------------------------------------------------------------

    def on_gangs_changed(self, names: Iterable[str], now: float) -> None:
        """Gangs have other settings, other partners or another state: assign their members anew."""
        names = set(names)
        self._gang_objects.mark(names)
        groups = self._entities.groups_of(names)
        partners = (self._entities[name].gang_group.gang_names for name in groups)
        members, released = self._members_of(names.union(*partners)), list[QueuedPod]()
        for name in groups:
            hold = self._holds.get(name)
            if hold is not None:
                released += self._update_hold(hold, now)
        entities, left = dict[int, QueuedEntity](), dict[int, QueuedEntity]()
        for gang, pods in members:
            waiting = [member for member in pods if member.phase is Phase.QUEUED]
            home = self._entities.home_of(gang) if waiting else None
            for member in waiting:
                # Of a large gang nearly all stay where they are.
                entity = home if member.entity is home and not member.in_domain else None
                entity = entity or self._entities.entity_for(member, now, left)
                entities[id(entity)] = entity
        for member in released:
            if member.phase is Phase.QUEUED:
                entity = self._entities.entity_for(member, now, left)
                entities[id(entity)] = entity
        for entity in (left | entities).values():
            if entity.members:
                self._entities.enqueue(entity, now)
        for gang, pods in members:
            if not gang.blocked and any(each.timed_out for each in gang.memberships.values()):
                self._clear_timeout_marks(pods)
        self._clear_timeout_marks(released)
        for name in groups:
            self._entities.forget_stale(name)

    def on_evicted(self, victim: PodInfo) -> None:
        """A pod is being evicted.

        What follows for its gang waits for :meth:`process_changes`: others, perhaps of the same
        gang, are being placed now.
        """
        self._changed_gangs |= self._registry.mark_evicting(victim.uid)

    def on_eviction_failed(self, uid: str) -> None:
        """A pod could not be evicted; what follows waits for :meth:`process_changes`."""
        self._changed_gangs |= self._registry.mark_eviction_failed(uid)
        if (gang := self._registry.gang_of(uid)) is not None:
            self._gang_objects.on_member_lost(gang)  # the others may be gone

    def process_changes(self, now: float) -> None:
        """Do what follows for gangs of which pods are being evicted, or could not be."""
        self._changed_gangs |= self._gang_objects.take_changed()
        while self._changed_gangs:
            names, self._changed_gangs = self._changed_gangs, set()
            self.on_gangs_changed(names, now)

    def on_bound(self, member: QueuedPod, now: float) -> None:
        """A pod has been bound; its gang may have its minimum now."""
        satisfied = self._registry.mark_bound(member.uid)
        if (gang := self._registry.gang_of(member.uid)) is not None:
            self._context.outbox.extend(pod_events.gang_scheduled(gang))
        for name in satisfied:
            self._quota.on_satisfied(name)
        if satisfied:
            entity = self._entities.of_gang_of(member.uid)
            if entity is not None and all(gang.satisfied for gang in entity.gang_group.gangs):
                entity.forget_losses()
            self.on_gangs_changed(satisfied, now)

    def on_member_unschedulable(self, uid: str, message: str) -> None:
        """A pod that is placed by itself found no node; its gang may lack its minimum by that."""
        gang = self._registry.gang_of(uid)
        if gang is not None and not gang.has_minimum:
            self._context.outbox.extend(pod_events.gang_unschedulable(gang, message))

    def on_complete(self, group: GangGroup, now: float) -> bool:
        """A group that was tried lacks nobody; whether those that wait are lone pods now."""
        changed = self._registry.mark_tried(group)
        for name in changed:
            self._quota.on_satisfied(name)
        self.on_gangs_changed(changed, now)
        return bool(changed)

    def on_pod_removed(self, member: QueuedPod, now: float) -> None:
        """A pod is gone, or is not ours to place any more."""
        self._entities.leave(member, now)
        was_held = False
        for hold in self._holds:
            if hold.members.pop(member.uid, None) is not None:
                was_held = True
                self._release_if_short(hold, now)
        entity = self._entities.of_gang_of(member.uid)
        if entity is not None and entity.members and was_held:
            self._entities.enqueue(entity, now)  # the others may now lack this one
        elif entity is not None and not entity.members:
            # The members that are held may now lack this one.
            self._entities.notify_after_arrivals(entity, now)

    def on_node_lost(self, member: QueuedPod, now: float) -> None:
        """A member has lost its node; a Strict group then releases those of the others, too."""
        changed = self._registry.mark_binding_failed(member.uid)
        if changed:
            # Members that were placed one by one have to be placed with it again.
            self.on_gangs_changed(changed, now)
        hold = self._holds.of_member(member)
        if hold is not None:
            hold.members.pop(member.uid)
            self._release_if_short(hold, now)

    def on_node_deleted(self, node: str, now: float) -> None:
        """Nobody holds a node any more that is gone."""
        for hold in list(self._holds):
            if any(member.node == node for member in hold.members.values()):
                self.requeue_lost(hold, now)

    def on_permitted(self, member: QueuedPod, now: float) -> bool:
        """A Permit plugin lets a member go; True if its group holds it until it is complete."""
        hold = self._holds.of_member(member)
        if hold is None:
            return False
        member.permit_plugin = GANG
        self._bind_if_complete(hold, now)
        return True

    def advance(self, now: float) -> None:
        """End the holds whose wait time is over; it begins anew for who can be judged again."""
        for name in sorted(self._not_judged):
            self._judge_again(name, now)
        for hold in self._holds.overdue(now):
            self._expire(hold, now)

    # --- binding and holding ---------------------------------------------------------------

    def take_ready_to_bind(self) -> list[QueuedPod]:
        """The members of complete groups whose bindings are to be started; each once."""
        ready, self._ready_to_bind = self._ready_to_bind, []
        return ready

    def is_held(self, member: QueuedPod) -> bool:
        """Whether a group holds this member's node."""
        return self._holds.of_member(member) is not None

    def bind_all(self, members: Iterable[QueuedPod], hold: GangHold | None) -> None:
        """The group is complete: all these members are to be bound."""
        if hold is not None:
            self._end_hold(hold)
        members = list(members)
        self._registry.mark_binding(member.uid for member in members)
        self._ready_to_bind += members

    def hold_placed(self, entity: QueuedEntity, placed: Placements, now: float) -> None:
        """Hold the nodes of members whose group is incomplete, or that Permit makes wait."""
        hold = self.begin_hold(entity, now)
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

    def begin_hold(self, entity: QueuedEntity, now: float) -> GangHold:
        """The wait time of a group runs, from now on or since earlier."""
        self._gang_objects.mark(entity.gang_group.gang_names)
        return self._holds.get_or_create(entity, now, self._context.unix_now)

    def requeue_lost(self, hold: GangHold, now: float) -> bool:
        """Queue held members again whose node is gone; returns whether there were any."""
        nodes = self._context.cluster.table.index
        lost = [member for member in hold.members.values() if member.node not in nodes]
        if not lost:
            return False
        released = self._release_members(hold, lost, now)
        self._release_if_short(hold, now)
        self._requeue(hold, released, now)
        return True

    # --- inside ----------------------------------------------------------------------------

    def _end_hold(self, hold: GangHold) -> None:
        self._gang_objects.mark(hold.entity.gang_group.gang_names)
        self._holds.end(hold)

    def _update_hold(self, hold: GangHold, now: float) -> list[QueuedPod]:
        """The group of a hold has changed; returns the members whose nodes are released."""
        if not self._holds.update(hold):
            return self._release_all(hold, now)
        gangs = hold.entity.gang_group.gangs
        moved = [m for m in hold.members.values() if self._registry.gang_of(m.uid) not in gangs]
        released = self._release_members(hold, moved, now)
        if moved or hold.members:
            self._release_if_short(hold, now)
        elif not hold.entity.gang_group.partially_bound:
            self._end_hold(hold)  # it was for bound members, which have lost their nodes
        if self._holds.get(hold.entity.gang_group.name) is not None:
            self._bind_if_complete(hold, now)
        return released

    def _bind_if_complete(self, hold: GangHold, now: float) -> None:
        if self.requeue_lost(hold, now):
            return
        group = hold.entity.gang_group
        ready = [m for m in hold.members.values() if m.uid not in self._context.waiting_pods]
        if not group.lacks_members(group.count_by_bundle(member.uid for member in ready)):
            self.bind_all(ready, hold)

    def _release_if_short(self, hold: GangHold, now: float) -> None:
        """A Strict group holds nothing when that is less than its minimum."""
        group = hold.entity.gang_group
        if not hold.members:
            self._end_hold(hold)
        elif group.is_strict and group.lacks_members(group.count_by_bundle(hold.members)):
            self._requeue(hold, self._release_all(hold, now), now)

    def _release_all(self, hold: GangHold, now: float) -> list[QueuedPod]:
        self._end_hold(hold)
        return self._release_members(hold, list(hold.members.values()), now)

    def _release_members(
        self, hold: GangHold, members: list[QueuedPod], now: float
    ) -> list[QueuedPod]:
        """Release nodes that a group holds; returns the members that are to be queued again."""
        for member in members:
            del hold.members[member.uid]
        with self._release.together(now):
            return [member for member in members if self._release.release_node(member, now)]

    def _requeue(self, hold: GangHold, released: Iterable[QueuedPod], now: float) -> None:
        entities = [self._entities.entity_for(member, now) for member in released]
        if hold.entity.members:
            entities.append(hold.entity)
        self._entities.requeue(entities, now)

    def _expire(self, hold: GangHold, now: float) -> None:
        """The wait time is over: release all nodes, and block the group or delete what is bound."""
        group = hold.entity.gang_group
        released = self._release_all(hold, now)
        partially_bound = group.partially_bound
        if not partially_bound and not released:
            return  # the hold was for bound members, which are gone
        waiting = [*hold.entity.members.values(), *released]
        if partially_bound:
            self._holds.mark_timed_out(group)
            if self._policy.on_partial_bind == "Delete":
                self._delete_bound(group, hold.deadline - hold.since)
        elif self._policy.on_timeout == "Block":
            for gang in group.gangs:
                gang.blocked = True
            for member in waiting:
                mark = self._registry.membership_of(member.uid).timeout_annotation
                self._annotate(member, {mark: "true"})
        text = (
            f"{group.display_name} gave its nodes back: it did not become complete "
            f"within {hold.deadline - hold.since:g}s"
        )
        for member in waiting:
            self._context.outbox.append(pod_events.gang_timed_out(member, text))
        self._requeue(hold, released, now)
        if hold.entity.members:
            self._entities.notify(hold.entity, now)

    def _delete_bound(self, group: GangGroup, waited: float) -> None:
        if any(map(self._spared.spares_any_of, group.gangs)):
            self._not_judged.add(group.name)  # perhaps nobody is missing
            return
        for gang in group.gangs:
            for uid in gang.memberships:
                pod = self._context.cluster.pod(uid)
                if pod is None or uid in self._context.pods or gang.is_terminating(uid):
                    continue
                why = Eviction(pod.pod.spec.node_name, "incomplete gang", gang=group.name)
                condition = pod_events.incomplete_gang_condition(pod.pod, waited)
                delete = self._context.deletion(pod.pod, condition, why)
                event = pod_events.incomplete_gang(pod.pod, waited)
                self._context.outbox.extend((event, delete))

    def _judge_again(self, name: str, now: float) -> None:
        """Have the wait time of a group begin anew, once it is known who its members are."""
        entity = self._entities.by_key(name)
        gangs = [] if entity is None else entity.gang_group.gangs
        if any(map(self._spared.spares_any_of, gangs)):
            return
        self._not_judged.discard(name)
        if entity is None or any(self._registry.gangs.get(g.name) is not g for g in gangs):
            return
        if self._entities.home_of(gangs[0]) is entity and entity.gang_group.partially_bound:
            self._holds.forget(name)
            self.begin_hold(entity, now)

    def _clear_timeout_marks(self, members: Iterable[QueuedPod]) -> None:
        """Remove the annotation of a timeout from pods of gangs whose owner has reacted."""
        for member in members:
            gang = self._registry.gang_of(member.uid)
            if gang is not None and not gang.blocked and gang.memberships[member.uid].timed_out:
                self._annotate(member, {GANG_TIMEOUT: None, BUNDLE_TIMEOUT: None})

    def _annotate(self, member: QueuedPod, annotations: dict[str, str | None]) -> None:
        self._context.outbox.append(AnnotatePod(pod_events.pod_key(member.pod.pod), annotations))

    def _members_of(self, gangs: Iterable[str]) -> list[tuple[Gang, list[QueuedPod]]]:
        """The gangs of these names, each with those of its pods that are ours and not bound."""
        known, pods = [self._registry.gangs.get(name) for name in sorted(gangs)], self._context.pods
        return [
            (gang, [pods[uid] for uid in gang.memberships if uid in pods])
            for gang in known
            if gang is not None
        ]

    def check_consistent(self) -> None:
        """Check gangs, entities and holds.

        Raises:
            AssertionError: they disagree.
        """
        assert not self._ready_to_bind, "complete groups whose bindings nobody starts"
        self._registry.check_consistent()
        self._entities.check_consistent()
