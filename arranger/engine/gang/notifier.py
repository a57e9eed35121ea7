"""Gang groups as units of the queue: who is placed with whom, and what members are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from arranger.api.annotations import BUNDLE_TIMEOUT, GANG_TIMEOUT
from arranger.api.effects import AnnotatePod
from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import Desk
from arranger.engine.deadlines import Notices
from arranger.engine.entity import GANG, Entity, Part, refusal
from arranger.engine.gang.attempt_status import GangRounds
from arranger.engine.gang.holds import GangPolicy, Hold
from arranger.engine.gang.preemption import GangEviction, GangPreemption
from arranger.engine.gang.scheduling_cycle import GangCycle
from arranger.engine.gang.starvation import RoomKeeper
from arranger.engine.pod.preemption_executor import Preempting
from arranger.engine.queued_pod import Member
from arranger.framework.status import Code, Status
from arranger.gangs import messages
from arranger.gangs.group import GangGroup, Tally
from arranger.gangs.registry import GangRegistry

#: Seconds without an arrival after which the members of an incomplete gang are told: telling each
#: of a large gang costs the server as much as binding it.
QUIET: Final = 2.0
#: The plugin whose events help a group that its queue does not let in.
CARDS: Final = "CapacityCard"
#: Seconds between two rounds of telling, for each member: a round costs the server about 3 ms each.
TELLING_COSTS: Final = 0.01


class GangUnits:
    """Keeps the entities of gang groups, and in ``rounds`` how often they have been tried.

    Args:
        desk: the engine's state.
        registry: what is known about gangs.
        bind: starts binding a placed member.
        preempting: evicts pods for members, and takes back what they are promised.
    """

    def __init__(
        self,
        desk: Desk,
        registry: GangRegistry,
        policy: GangPolicy,
        bind: Callable[[Member, float], None],
        preempting: Preempting,
    ) -> None:
        self._desk = desk
        self._registry = registry
        self._policy = policy
        self._bind = bind
        self._preempting = preempting
        self._cycle = GangCycle(desk.cluster, desk.cycle)
        self.rounds = GangRounds(desk, registry)
        self._keeper = RoomKeeper(desk, policy.starvation_after)
        plans = GangPreemption(desk, self._cycle, self.company, self._partners)
        self._eviction = GangEviction(desk, plans, preempting)
        #: Group name → its entity, whether or not it is in the queue.
        self._entities: dict[str, Entity] = {}
        #: Gang → the names under which its groups are in there.
        self._names: dict[str, set[str]] = {}
        self._holds: dict[str, Hold] = {}
        #: Entities whose members are to be told.
        self._notices = Notices()
        #: Groups that could not be completed in time after part of them was bound.
        self._given_up: set[str] = set()
        #: Gangs of pods that are evicted, or could not be, of which nothing has followed yet.
        self._stirred: set[str] = set()

    # --- who is placed with whom -----------------------------------------------------------

    def home(self, member: Member, now: float) -> Entity:
        """The entity that a pod without a node belongs to; it joins it, and is not queued yet."""
        gang = self._registry.gang_of(member.uid)
        group = None if gang is None else self._registry.group_of(gang)
        mine = member.entity
        if group is None or group.free:
            if mine is not None and mine.group is None:
                return mine
            self._leave(member, now)
            return Entity.lone(member)
        entity = self._entities.get(group.name)
        if entity is None:
            key = f"gang:{group.name}"
            entity = self._entities[group.name] = Entity(key, now, group, self._registry.role_of)
            for partner in group.gangs:
                self._names.setdefault(partner.name, set()).add(group.name)
        entity.group = group
        if mine is not entity:
            self._leave(member, now)
            entity.join(member)
        return entity

    def _leave(self, member: Member, now: float) -> None:
        entity = member.entity
        if entity is None:
            return
        queued = entity.key in self._desk.queue
        self._desk.queue.remove(entity)
        entity.leave(member)
        if queued and entity.members:
            self.enqueue(entity, now)

    def enqueue(self, entity: Entity, now: float) -> None:
        """Queue an entity, and tell its members in a while if it is not complete."""
        if entity.group is not None:
            entity.urgent = self._is_urgent(entity.group)
        self._desk.queue.add(entity, now)
        if entity.group is not None and entity.part is Part.GATED:
            entity.quiet_from = now + QUIET
            self._notice(entity, entity.quiet_from)

    def gate(self, entity: Entity) -> Status | None:
        """What the group still lacks to be tried: the seed's first two checks of PreFilter."""
        group = entity.gang_group
        if reason := messages.why_not(group):
            return refusal(reason)
        if self._is_short(entity, group):
            return refusal(f"{messages.title(group)} waits for members")
        if reason := self._desk.let_in(group):
            text = f"{messages.title(group)} waits: {reason}"
            return Status(Code.UNSCHEDULABLE, (text,), CARDS)  # which says what may help
        if not entity.count_ready():
            return refusal(f"{messages.title(group)}: its members are held back")
        return None

    def _is_short(self, entity: Entity, group: GangGroup) -> bool:
        """Whether too few members have arrived."""
        return group.is_short(self._arrived(entity))

    def company(self, victims: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """The victims, and the whole of each gang that would be left short of its minimum."""
        leaving = {pod.uid: pod for pod in victims}
        groups = {
            self._registry.group_of(gang).name: self._registry.group_of(gang)
            for pod in victims
            if (gang := self._registry.gang_of(pod.uid)) is not None
        }
        for _, group in sorted(groups.items()):
            pods = [self._desk.cluster.pod(uid) for gang in group.gangs for uid in gang.claims]
            placed = {pod.uid: pod for pod in pods if pod is not None}
            if any(
                gang.breaks_without(sum(u in leaving and not gang.leaves(u) for u in gang.claims))
                for gang in group.gangs
            ):
                leaving |= placed
        return list(leaving.values())

    def evicted(self, victim: PodInfo) -> None:
        """A pod is being evicted; what follows for its gang waits for :meth:`GangWork.catch_up`.

        Others are being placed now, perhaps of the same gang.
        """
        self._stirred |= self._registry.evicted(victim.uid)

    def spared(self, uid: str) -> None:
        """A pod could not be evicted; what follows waits as with :meth:`evicted`."""
        self._stirred |= self._registry.spared(uid)

    def _partners(self, pod: PodInfo) -> frozenset[str]:
        gang = self._registry.gang_of(pod.uid)
        gangs = () if gang is None else self._registry.group_of(gang).gangs
        return frozenset(uid for each in gangs for uid in each.claims)

    # --- telling ---------------------------------------------------------------------------

    def _notice(self, entity: Entity, due: float) -> None:
        """Have the members told, not before ``due`` and not more often than it is worth."""
        count = len(entity.members) + len(self._held(entity))
        self._notices.schedule(entity.key, max(due, entity.told_at + TELLING_COSTS * count))

    def _tell_due(self, now: float) -> None:
        for key in self._notices.take(now):
            entity = self._entities.get(key.removeprefix("gang:"))
            if entity is None:
                continue
            held = self._held(entity)
            left_alone = not entity.members and bool(held)
            left_alone = left_alone and self._is_short(entity, entity.gang_group)
            if not left_alone and entity.key not in self._desk.queue:
                continue
            if left_alone or entity.part is Part.GATED:
                if now < entity.quiet_from and self._is_short(entity, entity.gang_group):
                    self._notice(entity, entity.quiet_from)  # members are still arriving
                    continue
                entity.reason = self._why_gated(entity)
                for member in entity.members.values():
                    # Who knows when it is complete again; others can use what it was promised.
                    self._preempting.withdraw(member, now)
            if entity.reason and entity.part is not Part.ACTIVE:
                entity.told_at = now
                for member in (*entity.ready(), *held):
                    self._desk.outbox += pod_events.failed(
                        member, pod_events.UNSCHEDULABLE, entity.reason
                    )

    def _held(self, entity: Entity) -> list[Member]:
        """Members that have a node and wait for the others: what these lack, they lack, too."""
        hold = self._holds.get(entity.gang_group.name)
        return [m for m in hold.members.values() if m.held_by == GANG] if hold is not None else []

    def _why_gated(self, entity: Entity) -> str:
        """The reason with the members counted, which is too much work for every arrival."""
        group, refused = entity.gang_group, self.gate(entity)
        if refused is not None and not group.unanswered and self._is_short(entity, group):
            return f"{refused.message()}: {messages.census(group, self._arrived(entity))}"
        return entity.reason

    def _unmark(self, members: Iterable[Member]) -> None:
        """Take the timeout mark off the pods of gangs whose owner has reacted."""
        for member in members:
            gang = self._registry.gang_of(member.uid)
            if gang is not None and not gang.blocked and gang.claims[member.uid].timed_out:
                mark = {GANG_TIMEOUT: None, BUNDLE_TIMEOUT: None}
                self._desk.outbox.append(AnnotatePod(pod_events.pod_ref(member.pod.pod), mark))

    # --- counting --------------------------------------------------------------------------

    def _members_of(self, names: Iterable[str]) -> list[Member]:
        gangs = [self._registry.gangs.get(name) for name in sorted(names)]
        uids = [uid for gang in gangs if gang is not None for uid in gang.claims]
        return [self._desk.members[uid] for uid in uids if uid in self._desk.members]

    def _arrived(self, entity: Entity) -> Tally:
        """Members that are there to be placed, and those already held."""
        group = entity.gang_group
        hold = self._holds.get(group.name)
        if hold is None or not hold.members:
            return entity.arrived
        held = group.tally(hold.members)
        return {gang: held[gang] + entity.arrived.get(gang, Counter()) for gang in held}

    def _is_urgent(self, group: GangGroup) -> bool:
        """Whether the group is to be completed before all others."""
        if self._policy.on_partial_bind == "Hold" or group.name in self._given_up:
            return False
        return group.partial

    def _is_stale(self, entity: Entity) -> bool:
        group = entity.gang_group
        return any(
            self._registry.gangs.get(gang.name) is not gang
            or self._registry.group_of(gang) is not group
            for gang in group.gangs
        )
