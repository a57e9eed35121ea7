"""The life of gang groups: who is placed with whom, what is held, and when patience ends.

Seeds 000 and 002. A group's entity in the queue has its members without a node. What a group holds
while it is incomplete is its :class:`GangHold`: the placed members of a NonStrict gang, and any
that a Permit plugin makes wait. The clock of WaitTime runs while there is a hold, or while part of
the minimum is bound; a Strict gang that fits nowhere holds nothing and may wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from arranger.api.effects import AnnotatePod, DeletePod
from arranger.engine import pod_events
from arranger.engine.entity import GANG, QueuedEntity
from arranger.engine.gang.holds import GangHold
from arranger.engine.gang.notifier import ARRIVAL_QUIET_PERIOD, GangUnits
from arranger.engine.gang.scheduling_cycle import GangScheduleResult, topology_constraint
from arranger.engine.phases import Phase
from arranger.engine.queued_pod import QueuedPod
from arranger.gangs import messages
from arranger.gangs.gang import MemberState
from arranger.gangs.group import GangGroup


class GangManager(GangUnits):
    """Places gang groups, and keeps or gives back what they hold."""

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
            self._schedule_notice(entity, entity.notify_after)  # those that are held may miss it

    def is_partially_bound(self, uid: str) -> bool:
        """Whether part of a pod's gang group is being bound, or is bound, and never all it needs.

        Who else could use the room of such a pod is not let into it any sooner than he must be:
        the gang is to be completed first, perhaps by the pod that its owner makes in its place.
        """
        gang = self._registry.gang_of(uid)
        if gang is None:
            return False
        gangs = self._registry.group_of(gang).gangs
        begun = any(g.count(at) for g in gangs for at in (MemberState.BINDING, MemberState.BOUND))
        return begun and not all(g.satisfied for g in gangs)

    # --- placing ---------------------------------------------------------------------------

    def attempt(self, entity: QueuedEntity, now: float) -> None:
        """Try to place the group; everything that follows from the answer is done here."""
        group = entity.gang_group
        hold = self._holds.get(group.name)
        if hold is not None and self._requeue_lost(hold, now):
            return
        held = list(hold.members.values()) if hold else []
        self.attempt_status.record_attempt(group, now)
        decision = self._cycle.schedule(entity, held)
        for member, _ in decision.placed:
            entity.remove_member(member)
            member.transition(Phase.RESERVED)
            member.attempts = entity.attempts
            self._desk.record_attempt(member, "scheduled")
        waits = any(permit for _, permit in decision.placed)
        if (
            decision.complete
            and not waits
            and not any(m.uid in self._desk.waiting_pods for m in held)
        ):
            self._bind_all([*held, *(member for member, _ in decision.placed)], hold, now)
        elif decision.placed:
            self._hold_placed(entity, decision, now)
        elif not decision.complete and self._is_urgent(group):
            self._get_or_create_hold(entity, now)  # nothing to keep but the time
        if decision.complete:
            entity.starving_since = None
        if decision.error:
            self._on_error(entity, decision, now)
        elif entity.key in self._desk.queue:
            pass  # a Binding could not even begin, and its pod is to be tried again in its own way
        elif entity.ready_count():
            self._on_infeasible(entity, decision, now)
        else:
            entity.reason = ""
            entity.attempts = 0
            if entity.members:
                self.enqueue(entity, now)  # PreEnqueue holds the rest back
        self._starvation_guard.release_if_idle(self._entities, now)

    def _bind_all(self, members: Iterable[QueuedPod], hold: GangHold | None, now: float) -> None:
        """The group is complete: bind all that it has."""
        if hold is not None:
            self._end_hold(hold)
        members = list(members)
        for member in members:
            self._registry.set_binding(member.uid)
        for member in members:
            self._bind(member, now)

    def _hold_placed(self, entity: QueuedEntity, decision: GangScheduleResult, now: float) -> None:
        hold = self._get_or_create_hold(entity, now)
        for member, permit in decision.placed:
            member.transition(Phase.WAITING)
            hold.members[member.uid] = member
            if permit is None:
                member.permit_plugin = GANG
            else:
                member.permit_plugin, member.permit_timeout = permit.plugin, permit.timeout
                member.deadline = now + permit.timeout
                self._desk.waiting_pods[member.uid] = member
        self._bind_if_complete(hold, now)

    def _on_error(self, entity: QueuedEntity, decision: GangScheduleResult, now: float) -> None:
        assert decision.blocker is not None, "something broke while no member was tried"
        title = messages.display_name(entity.gang_group)
        text = f"{decision.error} ({title}, pod {decision.blocker.pod.key})"
        self._desk.record_attempt(decision.blocker, "error")
        for member in entity.members.values():
            self._desk.outbox += pod_events.scheduling_failed(
                member, pod_events.SCHEDULER_ERROR, text
            )
        self._desk.queue.requeue_with_backoff(entity, now)

    def _on_infeasible(
        self, entity: QueuedEntity, decision: GangScheduleResult, now: float
    ) -> None:
        for member in entity.ready():
            self._desk.record_attempt(member, "unschedulable")
        if decision.blocker is not None and not decision.complete:
            self._desk.outbox += pod_events.plugin_events(decision.blocker, decision.events)
            if decision.infeasible is not None:
                self._desk.cycle.run_pod_group_post_filter(decision.blocker, decision.infeasible)
        entity.blockers = decision.blockers
        entity.reason = self._explain(entity, decision)
        hold = self._holds.get(entity.gang_group.name)
        held = list(hold.members.values()) if hold is not None else []
        if not decision.complete:
            self._starvation_guard.on_unschedulable(
                entity, now, lambda: self._cycle.nodes_needed(entity, held)
            )
        self._desk.queue.add_unschedulable(entity, decision.rejected_by, now)
        if not decision.complete:
            self._preemption.preempt_for(entity, held, now)
        self._schedule_notice(entity, now)
        self._notify_due(now)

    def _explain(self, entity: QueuedEntity, decision: GangScheduleResult) -> str:
        group = entity.gang_group
        text = messages.display_name(group)
        if decision.complete:
            text += ": placed, with no room for the members beyond its minimum"
        else:
            text += (
                f": {messages.arrival_summary(group, self._arrived_counts(entity))}, "
                f"{decision.placeable} placeable now"
            )
        if decision.blocker is not None and not decision.complete:
            text += f", blocked by pod {decision.blocker.pod.key}"
        return f"{decision.message} {text}.".lstrip()

    # --- holding ---------------------------------------------------------------------------

    def on_permitted(self, member: QueuedPod, now: float) -> bool:
        """A Permit plugin lets a member go; True if its group keeps it until it is complete."""
        hold = self._hold_of(member)
        if hold is None:
            return False
        member.permit_plugin = GANG
        self._bind_if_complete(hold, now)
        return True

    def on_node_lost(self, member: QueuedPod, now: float) -> None:
        """A member has lost its node; a Strict group that holds others gives them back, too."""
        changed = self._registry.set_binding(member.uid, MemberState.PENDING)
        if changed:
            self.on_gangs_changed(
                changed, now
            )  # those that could go alone have to wait for it again
        hold = self._hold_of(member)
        if hold is not None:
            hold.members.pop(member.uid)
            self._release_if_short(hold, now)

    def _release_if_short(self, hold: GangHold, now: float) -> None:
        """Members have gone, or others have: a Strict group keeps nothing that is too little."""
        group = hold.entity.gang_group
        if not hold.members:
            self._end_hold(hold)
        elif group.is_strict and group.lacks_members(group.count_by_bundle(hold.members)):
            self._requeue(hold, self._release_all(hold, now), now)

    def advance(self, now: float) -> None:
        """End the holds whose time is over, and tell who is to be told."""
        for hold in [h for h in self._holds.values() if h.deadline <= now]:
            self._expire(hold, now)
        self._starvation_guard.release_if_idle(self._entities, now)
        self._notify_due(now)
        self.attempt_status.write_due(now)

    def next_timer(self) -> float | None:
        """When :meth:`next_state` will have something to do."""
        told = (self._notices.next_deadline(), self.attempt_status.next_timer())
        due = [hold.deadline for hold in self._holds.values()]
        return min([*due, *(at for at in told if at is not None)], default=None)

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

    def is_held(self, member: QueuedPod) -> bool:
        """Whether a group keeps this member's node."""
        return self._hold_of(member) is not None

    # --- inside: holding -------------------------------------------------------------------

    def _get_or_create_hold(self, entity: QueuedEntity, now: float) -> GangHold:
        group = entity.gang_group
        hold = self._holds.get(group.name)
        if hold is None:
            hold = GangHold(entity, now, now + self._wait_time(group), topology_constraint(group))
            self._holds[group.name] = hold
        return hold

    def _wait_time(self, group: GangGroup) -> float:
        return min(gang.settings.wait_time or self._policy.wait_time for gang in group.gangs)

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

    def _hold_of(self, member: QueuedPod) -> GangHold | None:
        gang = self._registry.gang_of(member.uid)
        if gang is None:
            return None
        hold = self._holds.get(self._registry.group_of(gang).name)
        return hold if hold is not None and member.uid in hold.members else None

    def _end_hold(self, hold: GangHold) -> None:
        group = hold.entity.gang_group
        self._holds.pop(group.name, None)

    def _forget_group(self, key: str) -> None:
        """A group is not formed any more, and none of its members is waiting in it."""
        for gang in self._entities.pop(key).gang_group.gangs:
            self._groups_of_gang[gang.name].discard(key)
            if not self._groups_of_gang[gang.name]:
                del self._groups_of_gang[gang.name]
        self._timed_out.discard(key)

    def _bind_if_complete(self, hold: GangHold, now: float) -> None:
        """Bind what is held if that completes the group."""
        if self._requeue_lost(hold, now):
            return
        group = hold.entity.gang_group
        ready = [m for m in hold.members.values() if m.uid not in self._desk.waiting_pods]
        if not group.lacks_members(group.count_by_bundle(member.uid for member in ready)):
            self._bind_all(ready, hold, now)

    def _release_all(self, hold: GangHold, now: float) -> list[QueuedPod]:
        self._end_hold(hold)
        members, hold.members = hold.members, {}
        return [m for m in members.values() if self._desk.release_node(m, now)]

    def _release_moved(self, hold: GangHold, now: float) -> list[QueuedPod]:
        """Give back what is held for members that say by now that they are in another gang."""
        ours = hold.entity.gang_group.gangs
        strangers = [m for m in hold.members.values() if self._registry.gang_of(m.uid) not in ours]
        for member in strangers:
            del hold.members[member.uid]
        released = [m for m in strangers if self._desk.release_node(m, now)]
        if strangers:
            self._release_if_short(hold, now)
        return released

    def _requeue_lost(self, hold: GangHold, now: float) -> bool:
        """Queue held members whose node is gone again; whether there were any."""
        nodes = self._desk.cluster.table.index
        lost = [m for m in hold.members.values() if m.node not in nodes]
        if not lost:
            return False
        for member in lost:
            del hold.members[member.uid]
        released = [m for m in lost if self._desk.release_node(m, now)]
        self._release_if_short(hold, now)
        self._requeue(hold, released, now)
        return True

    def _requeue(self, hold: GangHold, released: Iterable[QueuedPod], now: float) -> None:
        entities = {id(e): e for e in (self.entity_for(m, now) for m in released)}
        if hold.entity.members:
            entities.setdefault(id(hold.entity), hold.entity)
        for entity in entities.values():
            entity.attempts = max(entity.attempts, 1)
            entity.last_attempt = now
            self.enqueue(entity, now)

    def _expire(self, hold: GangHold, now: float) -> None:
        """WaitTime is over: give everything back (seeds 000 and 002, Permit and Unreserve)."""
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
                self._desk.outbox.append(
                    AnnotatePod(pod_events.pod_key(member.pod.pod), {mark: "true"})
                )
        text = (
            f"{messages.display_name(group)} gave its nodes back: it did not become complete "
            f"within {hold.deadline - hold.since:g}s"
        )
        for member in [*hold.entity.members.values(), *released]:
            self._desk.outbox.append(pod_events.gang_timed_out(member, text))
        self._requeue(hold, released, now)
        if hold.entity.members:
            self._schedule_notice(hold.entity, now)

    def _delete_bound(self, group: GangGroup) -> None:
        for gang in group.gangs:
            for uid in gang.memberships:
                pod = self._desk.cluster.pod(uid)
                if pod is not None and uid not in self._desk.pods and not gang.is_terminating(uid):
                    self._desk.outbox.append(DeletePod(pod_events.pod_key(pod.pod)))
