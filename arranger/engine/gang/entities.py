"""Which entity of the queue each pod is placed in: one of its own, or that of its gang group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from arranger.engine.context.deadlines import DeadlineSet
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.gangs.gang import Gang
from arranger.gangs.registry import GangRegistry

#: Seconds without an arrival after which the members of an incomplete group are told: telling the
#: members of a large gang costs the API server as much as binding them.
ARRIVAL_QUIET_PERIOD: Final = 2.0
#: Seconds between two notices to the members of a group, for each member: a notice costs the API
#: server about 3 ms a member.
NOTIFY_INTERVAL_PER_MEMBER: Final = 0.01


@dataclass(slots=True, eq=False)
class GangEntityIndex:
    """The entities of gang groups, in the queue or not, and when to tell members why they wait."""

    _queue: SchedulingQueue
    _registry: GangRegistry
    _holds: GangHolds
    #: Group name → its entity.
    _entities: dict[str, QueuedEntity] = field(default_factory=dict)
    #: Gang → the names of the groups that it is or was in and that have an entity.
    _groups_of_gang: dict[str, set[str]] = field(default_factory=dict)
    #: Keys of the entities whose members are to be told, each at most once at a time.
    _notices: DeadlineSet = field(default_factory=DeadlineSet)

    def __len__(self) -> int:
        return len(self._entities) + len(self._groups_of_gang) + len(self._notices)

    def __getitem__(self, name: str) -> QueuedEntity:
        return self._entities[name]

    def __iter__(self) -> Iterator[QueuedEntity]:
        return iter(self._entities.values())

    def by_key(self, key: str) -> QueuedEntity | None:
        """The entity of that key."""
        return self._entities.get(key.removeprefix("gang:"))

    def of_gang_of(self, uid: str) -> QueuedEntity | None:
        """The entity of the gang group that a pod is in, whether or not it has a node."""
        gang = self._registry.gang_of(uid)
        return None if gang is None else self._entities.get(self._registry.group_of(gang).name)

    def groups_of(self, gangs: Iterable[str]) -> list[str]:
        """The names of all groups with an entity that one of these gangs is or was in."""
        return sorted({name for gang in gangs for name in self._groups_of_gang.get(gang, ())})

    def home_of(self, gang: Gang) -> QueuedEntity | None:
        """The entity of a gang that is placed as a group; None if there is none, or it is not."""
        group = self._registry.group_of(gang)
        entity = None if group.schedules_individually else self._entities.get(group.name)
        if entity is not None:
            entity.group = group
        return entity

    def entity_for(
        self, member: QueuedPod, now: float, left: dict[int, QueuedEntity] | None = None
    ) -> QueuedEntity:
        """The entity that a pod without a node belongs to; it joins it, and is not queued yet.

        One that it leaves stays queued, or gets into ``left``, to be queued by the caller, who has
        many pods leave.
        """
        gang = self._registry.gang_of(member.uid)
        group = None if gang is None else self._registry.group_of(gang)
        current = member.entity
        alone = group is None or group.schedules_individually
        topology = group.topology if group is not None and alone else None
        member.in_domain = topology is not None and topology.required
        if group is None or alone:
            if current is not None and current.group is None:
                return current
            self.leave(member, now, left)
            return QueuedEntity.from_pod(member)
        entity = self._entities.get(group.name)
        if entity is None:
            key = f"gang:{group.name}"
            entity = QueuedEntity(key, now, group, self._registry.gang_and_bundle_of)
            self._entities[group.name] = entity
            for partner in group.gangs:
                self._groups_of_gang.setdefault(partner.name, set()).add(group.name)
        entity.group = group
        if current is not entity:
            self.leave(member, now, left)
            entity.add_member(member)
        return entity

    def leave(
        self, member: QueuedPod, now: float, left: dict[int, QueuedEntity] | None = None
    ) -> None:
        """A pod leaves its entity; the other members stay queued, or see ``left``."""
        entity = member.entity
        if entity is None:
            return
        queued = entity.key in self._queue
        self._queue.remove(entity)
        entity.remove_member(member)
        if queued and left is not None:
            left[id(entity)] = entity
        elif queued and entity.members:
            self.enqueue(entity, now)

    def enqueue(self, entity: QueuedEntity, now: float) -> None:
        """Queue an entity; the members of an incomplete group are told later why they wait."""
        if entity.group is not None:
            entity.urgent = self._holds.is_urgent(entity.group)
        self._queue.add(entity, now)
        if entity.group is not None and entity.state is QueueState.GATED:
            self.notify_after_arrivals(entity, now)

    def requeue(self, entities: Iterable[QueuedEntity], now: float) -> None:
        """Queue entities again after a failed attempt, each once, with a back-off."""
        for entity in {id(entity): entity for entity in entities}.values():
            entity.count_loss()
            entity.last_attempt = now
            self.enqueue(entity, now)

    def notify(self, entity: QueuedEntity, due: float) -> None:
        """Have the members told at ``due``, or later if they were told not long ago."""
        if self._notices.is_scheduled(entity.key, due):
            return
        count = len(entity.members) + len(self._holds.waiting_members(entity))
        earliest = entity.notified_at + NOTIFY_INTERVAL_PER_MEMBER * count
        self._notices.schedule(entity.key, max(due, earliest))

    def notify_after_arrivals(self, entity: QueuedEntity, now: float) -> None:
        """Have the members of an incomplete group told once no more of them arrive."""
        entity.notify_after = now + ARRIVAL_QUIET_PERIOD
        self.notify(entity, entity.notify_after)

    def pop_due_notice(self, now: float) -> QueuedEntity | None:
        """An entity whose members are to be told now, the one that has waited longest."""
        while due := self._notices.pop_due(now, 1):
            if (entity := self.by_key(due[0])) is not None:
                return entity
        return None

    def next_notice(self) -> float | None:
        """When :meth:`pop_due_notice` will have something to return."""
        return self._notices.next_deadline()

    def forget_stale(self, name: str) -> None:
        """Drop the entity of a group that is not formed any more, once nothing waits in it."""
        entity = self._entities[name]
        if entity.members or not self._is_stale(entity):
            return
        self._notices.cancel(entity.key)
        for gang in self._entities.pop(name).gang_group.gangs:
            self._groups_of_gang[gang.name].discard(name)
            if not self._groups_of_gang[gang.name]:
                del self._groups_of_gang[gang.name]
        self._holds.forget(name)

    def _is_stale(self, entity: QueuedEntity) -> bool:
        registry, group = self._registry, entity.gang_group
        return not all(
            registry.gangs.get(gang.name) is gang and registry.group_of(gang) is group
            for gang in group.gangs
        )

    def check_consistent(self) -> None:
        """Check the entities against their members and the holds.

        Raises:
            AssertionError: they disagree.
        """
        for name, entity in self._entities.items():
            assert entity.group is not None, f"{entity} has no group"
            assert entity.group.name == name, f"{entity} is filed under {name}"
            for uid, member in entity.members.items():
                assert member.entity is entity, f"{member} is in two entities"
                assert member.phase is Phase.QUEUED, f"{member} is queued and has a node"
                gang = self._registry.gang_of(uid)
                assert gang in entity.group.gangs, f"{member} is not of {name}"
            counted = entity.gang_group.count_by_bundle(member.uid for member in entity.ready())
            arrived = {gang: +bundles for gang, bundles in entity.arrived.items() if +bundles}
            expected = {gang: bundles for gang, bundles in counted.items() if bundles}
            assert arrived == expected, f"{entity}: arrived members"
        for hold in self._holds:
            name = hold.entity.gang_group.name
            assert self._entities[name] is hold.entity, f"{name}: the hold of another entity"
            for member in hold.members.values():
                assert member.phase is Phase.WAITING, f"{member} is held and {member.phase.value}"
