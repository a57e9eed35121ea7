"""The life of gang groups: who is placed with whom, what is held, and when patience ends.

Seeds 000 and 002. A group's entity in the queue has its members without a node. What a group holds
while it is incomplete is its :class:`Hold`: the placed members of a NonStrict gang, and any that a
Permit plugin makes wait. The clock of WaitTime runs while there is a hold, or while part of the
minimum is bound; a Strict gang that fits nowhere holds nothing and may wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from arranger.api.effects import AnnotatePod, DeletePod
from arranger.engine import pod_events
from arranger.engine.entity import GANG, Entity
from arranger.engine.gang.holds import Hold
from arranger.engine.gang.notifier import QUIET, GangUnits
from arranger.engine.gang.scheduling_cycle import GangDecision, topology_of
from arranger.engine.phases import Phase
from arranger.engine.queued_pod import Member
from arranger.gangs import messages
from arranger.gangs.gang import Standing
from arranger.gangs.group import GangGroup


class GangWork(GangUnits):
    """Places gang groups, and keeps or gives back what they hold."""

    # --- what happens to gangs -------------------------------------------------------------

    def changed(self, names: Iterable[str], now: float) -> None:
        """Gangs have other settings, other partners or new standing: sort their members anew."""
        names = set(names)
        concerned = sorted({key for name in names for key in self._names.get(name, ())})
        partners = {g.name for key in concerned for g in self._entities[key].gang_group.gangs}
        members = self._members_of(names | partners)
        for key in concerned:
            hold = self._holds.get(key)
            if hold is None:
                continue
            if not self._goes_on(hold):
                members += self._release_all(hold, now)
                continue
            members += self._release_strangers(hold, now)
            if hold.members:
                self._review(hold, now)
            elif not hold.entity.gang_group.partial:
                self._end(hold)  # those bound, whose time it was, have lost their nodes
            if key in self._holds:
                self._proceed(hold, now)
        entities: dict[int, Entity] = {}
        for member in members:
            if member.phase is Phase.QUEUED:
                entity = self.home(member, now)
                entities[id(entity)] = entity
        for entity in entities.values():
            self.enqueue(entity, now)
        self._unmark(members)
        for key in concerned:
            if not self._entities[key].members and self._is_stale(self._entities[key]):
                self._forget(key)

    def catch_up(self, now: float) -> None:
        """Let the gangs know of whose pods some are being evicted, or could not be."""
        while self._stirred:
            names, self._stirred = self._stirred, set()
            self.changed(names, now)

    def left(self, member: Member, now: float) -> None:
        """A member of a gang is gone, or is not ours any more."""
        self._leave(member, now)
        for hold in list(self._holds.values()):
            if hold.members.pop(member.uid, None) is not None:
                self._review(hold, now)
        gang = self._registry.gang_of(member.uid)
        entity = None if gang is None else self._entities.get(self._registry.group_of(gang).name)
        if entity is not None and not entity.members:
            entity.quiet_from = now + QUIET
            self._notice(entity, entity.quiet_from)  # those that are held may miss it

    def is_half_bound(self, uid: str) -> bool:
        """Whether part of a pod's gang group is being bound, or is bound, and never all it needs.

        Who else could use the room of such a pod is not let into it any sooner than he must be:
        the gang is to be completed first, perhaps by the pod that its owner makes in its place.
        """
        gang = self._registry.gang_of(uid)
        if gang is None:
            return False
        gangs = self._registry.group_of(gang).gangs
        begun = any(g.count(at) for g in gangs for at in (Standing.PLACED, Standing.BOUND))
        return begun and not all(g.satisfied for g in gangs)

    # --- placing ---------------------------------------------------------------------------

    def attempt(self, entity: Entity, now: float) -> None:
        """Try to place the group; everything that follows from the answer is done here."""
        group = entity.gang_group
        hold = self._holds.get(group.name)
        if hold is not None and self._drop_lost(hold, now):
            return
        held = list(hold.members.values()) if hold else []
        self.rounds.tried(group, now)
        decision = self._cycle.decide(entity, held)
        for member, _ in decision.placed:
            entity.leave(member)
            member.move(Phase.RESERVED)
            member.tries = entity.attempts
            self._desk.count(member, "scheduled")
        waits = any(permit for _, permit in decision.placed)
        if decision.complete and not waits and not any(m.uid in self._desk.waiting for m in held):
            self._go([*held, *(member for member, _ in decision.placed)], hold, now)
        elif decision.placed:
            self._keep(entity, decision, now)
        elif not decision.complete and self._is_urgent(group):
            self._hold(entity, now)  # nothing to keep but the time
        if decision.complete:
            entity.starving_since = None
        if decision.broken:
            self._broken(entity, decision, now)
        elif entity.key in self._desk.queue:
            pass  # a Binding could not even begin, and its pod is to be tried again in its own way
        elif entity.count_ready():
            self._failed(entity, decision, now)
        else:
            entity.reason = ""
            entity.attempts = 0
            if entity.members:
                self.enqueue(entity, now)  # PreEnqueue holds the rest back
        self._keeper.check(self._entities, now)

    def _go(self, members: Iterable[Member], hold: Hold | None, now: float) -> None:
        """The group is complete: bind all that it has."""
        if hold is not None:
            self._end(hold)
        members = list(members)
        for member in members:
            self._registry.placed(member.uid)
        for member in members:
            self._bind(member, now)

    def _keep(self, entity: Entity, decision: GangDecision, now: float) -> None:
        hold = self._hold(entity, now)
        for member, permit in decision.placed:
            member.move(Phase.WAITING)
            hold.members[member.uid] = member
            if permit is None:
                member.held_by = GANG
            else:
                member.held_by, member.held_for = permit.plugin, permit.timeout
                member.deadline = now + permit.timeout
                self._desk.waiting[member.uid] = member
        self._proceed(hold, now)

    def _broken(self, entity: Entity, decision: GangDecision, now: float) -> None:
        assert decision.blocker is not None, "something broke while no member was tried"
        title = messages.title(entity.gang_group)
        text = f"{decision.broken} ({title}, pod {decision.blocker.pod.key})"
        self._desk.count(decision.blocker, "error")
        for member in entity.members.values():
            self._desk.outbox += pod_events.failed(member, pod_events.SCHEDULER_ERROR, text)
        self._desk.queue.retry(entity, now)

    def _failed(self, entity: Entity, decision: GangDecision, now: float) -> None:
        for member in entity.ready():
            self._desk.count(member, "unschedulable")
        if decision.blocker is not None and not decision.complete:
            self._desk.outbox += pod_events.further(decision.blocker, decision.events)
            if decision.stuck is not None:
                self._desk.cycle.take_back(decision.blocker, decision.stuck)
        entity.blockers = decision.blockers
        entity.reason = self._explain(entity, decision)
        hold = self._holds.get(entity.gang_group.name)
        held = list(hold.members.values()) if hold is not None else []
        if not decision.complete:
            self._keeper.starve(entity, now, lambda: self._cycle.room_for(entity, held))
        self._desk.queue.rest(entity, decision.rejected_by, now)
        if not decision.complete:
            self._eviction.try_for(entity, held, now)
        self._notice(entity, now)
        self._tell_due(now)

    def _explain(self, entity: Entity, decision: GangDecision) -> str:
        group = entity.gang_group
        text = messages.title(group)
        if decision.complete:
            text += ": placed, with no room for the members beyond its minimum"
        else:
            text += (
                f": {messages.census(group, self._arrived(entity))}, "
                f"{decision.placeable} placeable now"
            )
        if decision.blocker is not None and not decision.complete:
            text += f", blocked by pod {decision.blocker.pod.key}"
        return f"{decision.why} {text}.".lstrip()

    # --- holding ---------------------------------------------------------------------------

    def permitted(self, member: Member, now: float) -> bool:
        """A Permit plugin lets a member go; True if its group keeps it until it is complete."""
        hold = self._hold_of(member)
        if hold is None:
            return False
        member.held_by = GANG
        self._proceed(hold, now)
        return True

    def refused(self, member: Member, now: float) -> None:
        """A member has lost its node; a Strict group that holds others gives them back, too."""
        changed = self._registry.placed(member.uid, Standing.PENDING)
        if changed:
            self.changed(changed, now)  # those that could go alone have to wait for it again
        hold = self._hold_of(member)
        if hold is not None:
            hold.members.pop(member.uid)
            self._review(hold, now)

    def _review(self, hold: Hold, now: float) -> None:
        """Members have gone, or others have: a Strict group keeps nothing that is too little."""
        group = hold.entity.gang_group
        if not hold.members:
            self._end(hold)
        elif group.strict and group.is_short(group.tally(hold.members)):
            self._put_back(hold, self._release_all(hold, now), now)

    def advance(self, now: float) -> None:
        """End the holds whose time is over, and tell who is to be told."""
        for hold in [h for h in self._holds.values() if h.deadline <= now]:
            self._expire(hold, now)
        self._keeper.check(self._entities, now)
        self._tell_due(now)
        self.rounds.tell_due(now)

    def next_timer(self) -> float | None:
        """When :meth:`advance` will have something to do."""
        told = (self._notices.next(), self.rounds.next_timer())
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
            counted = entity.gang_group.tally(member.uid for member in entity.ready())
            arrived = {gang: +roles for gang, roles in entity.arrived.items() if +roles}
            assert arrived == {gang: roles for gang, roles in counted.items() if roles}, f"{entity}"
        for name, hold in self._holds.items():
            assert self._entities[name] is hold.entity, f"{name}: the hold of another"
            for member in hold.members.values():
                assert member.phase is Phase.WAITING, f"{member} is held in no such phase"

    def holds(self, member: Member) -> bool:
        """Whether a group keeps this member's node."""
        return self._hold_of(member) is not None

    # --- inside: holding -------------------------------------------------------------------

    def _hold(self, entity: Entity, now: float) -> Hold:
        group = entity.gang_group
        hold = self._holds.get(group.name)
        if hold is None:
            hold = Hold(entity, now, now + self._patience(group), topology_of(group))
            self._holds[group.name] = hold
        return hold

    def _patience(self, group: GangGroup) -> float:
        return min(gang.settings.wait or self._policy.wait for gang in group.gangs)

    def _goes_on(self, hold: Hold) -> bool:
        """Take up what the group says by now; False if that makes the hold void.

        Its clock goes on: who edits a gang does not thereby keep nodes from others for longer.
        """
        before = hold.entity.gang_group
        if any(self._registry.gangs.get(gang.name) is not gang for gang in before.gangs):
            return False
        group = self._registry.group_of(before.gangs[0])
        if group != before or messages.why_not(group) or topology_of(group) != hold.topology:
            return False
        hold.entity.group = group
        hold.deadline = hold.since + self._patience(group)
        return True

    def _hold_of(self, member: Member) -> Hold | None:
        gang = self._registry.gang_of(member.uid)
        if gang is None:
            return None
        hold = self._holds.get(self._registry.group_of(gang).name)
        return hold if hold is not None and member.uid in hold.members else None

    def _end(self, hold: Hold) -> None:
        group = hold.entity.gang_group
        self._holds.pop(group.name, None)

    def _forget(self, key: str) -> None:
        """A group is not formed any more, and none of its members is waiting in it."""
        for gang in self._entities.pop(key).gang_group.gangs:
            self._names[gang.name].discard(key)
            if not self._names[gang.name]:
                del self._names[gang.name]
        self._given_up.discard(key)

    def _proceed(self, hold: Hold, now: float) -> None:
        """Bind what is held if that completes the group."""
        if self._drop_lost(hold, now):
            return
        group = hold.entity.gang_group
        ready = [m for m in hold.members.values() if m.uid not in self._desk.waiting]
        if not group.is_short(group.tally(member.uid for member in ready)):
            self._go(ready, hold, now)

    def _release_all(self, hold: Hold, now: float) -> list[Member]:
        self._end(hold)
        members, hold.members = hold.members, {}
        return [m for m in members.values() if self._desk.release(m, now)]

    def _release_strangers(self, hold: Hold, now: float) -> list[Member]:
        """Give back what is held for members that say by now that they are in another gang."""
        ours = hold.entity.gang_group.gangs
        strangers = [m for m in hold.members.values() if self._registry.gang_of(m.uid) not in ours]
        for member in strangers:
            del hold.members[member.uid]
        released = [m for m in strangers if self._desk.release(m, now)]
        if strangers:
            self._review(hold, now)
        return released

    def _drop_lost(self, hold: Hold, now: float) -> bool:
        """Queue held members whose node is gone again; whether there were any."""
        nodes = self._desk.cluster.table.index
        lost = [m for m in hold.members.values() if m.node not in nodes]
        if not lost:
            return False
        for member in lost:
            del hold.members[member.uid]
        released = [m for m in lost if self._desk.release(m, now)]
        self._review(hold, now)
        self._put_back(hold, released, now)
        return True

    def _put_back(self, hold: Hold, released: Iterable[Member], now: float) -> None:
        entities = {id(e): e for e in (self.home(m, now) for m in released)}
        if hold.entity.members:
            entities.setdefault(id(hold.entity), hold.entity)
        for entity in entities.values():
            entity.attempts = max(entity.attempts, 1)
            entity.last_attempt = now
            self.enqueue(entity, now)

    def _expire(self, hold: Hold, now: float) -> None:
        """WaitTime is over: give everything back (seeds 000 and 002, Permit and Unreserve)."""
        group = hold.entity.gang_group
        released = self._release_all(hold, now)
        partial = group.partial
        if not partial and not released:
            return  # it was held for members that were bound then, and are gone
        if partial:
            self._given_up.add(group.name)
            if self._policy.on_partial_bind == "Delete":
                self._delete_bound(group)
        elif self._policy.on_timeout == "Block":
            for gang in group.gangs:
                gang.blocked = True
            for member in (*hold.entity.members.values(), *released):
                mark = self._registry.claim_of(member.uid).mark
                self._desk.outbox.append(
                    AnnotatePod(pod_events.pod_ref(member.pod.pod), {mark: "true"})
                )
        text = (
            f"{messages.title(group)} gave its nodes back: it did not become complete within "
            f"{hold.deadline - hold.since:g}s"
        )
        for member in [*hold.entity.members.values(), *released]:
            self._desk.outbox.append(pod_events.out_of_time(member, text))
        self._put_back(hold, released, now)
        if hold.entity.members:
            self._notice(hold.entity, now)

    def _delete_bound(self, group: GangGroup) -> None:
        for gang in group.gangs:
            for uid in gang.claims:
                pod = self._desk.cluster.pod(uid)
                if pod is not None and uid not in self._desk.members and not gang.leaves(uid):
                    self._desk.outbox.append(DeletePod(pod_events.pod_ref(pod.pod)))
