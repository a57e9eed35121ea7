"""The nodes that incomplete gang groups hold for their placed members, and until when.

Held are the placed members of a NonStrict gang, and those that a Permit plugin makes wait. The wait
time runs while there is a hold, and also while part of the minimum is bound and nothing is held. A
Strict gang that fits nowhere holds nothing, and may wait for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from arranger.api.settings.gang_settings import Topology
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.rejecters import GANG
from arranger.engine.gang.state.policy import GangPolicy
from arranger.gangs import messages
from arranger.gangs.group import BundleCounts, GangGroup
from arranger.gangs.registry import GangRegistry

#: Seconds after the start before which no wait time ends that began before it.
RESTART_GRACE: Final = 10.0


@dataclass(slots=True)
class GangHold:
    """What one group holds.

    Attributes:
        since: when the wait time began, in the engine's clock.
        unix_since: the same in whole seconds since 1970, for its owner to read.
        deadline: when it ends.
        topology: the constraint by which the nodes were chosen.
        members: the members that have a node, by uid.
    """

    entity: QueuedEntity
    since: float
    unix_since: int
    deadline: float
    topology: Topology | None = None
    members: dict[str, QueuedPod] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class GangHolds:
    """The holds of all groups; releases nothing itself."""

    _registry: GangRegistry
    _policy: GangPolicy
    #: Group name → what it holds.
    _holds: dict[str, GangHold] = field(default_factory=dict)
    #: Names of groups that timed out after part of them was bound.
    _timed_out: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self._holds) + len(self._timed_out)

    def __iter__(self) -> Iterator[GangHold]:
        return iter(list(self._holds.values()))

    def get(self, name: str) -> GangHold | None:
        """The hold of the group of that name."""
        return self._holds.get(name)

    def of_member(self, member: QueuedPod) -> GangHold | None:
        """The hold that keeps a member's node."""
        gang = self._registry.gang_of(member.uid)
        if gang is None:
            return None
        hold = self._holds.get(self._registry.group_of(gang).name)
        return hold if hold is not None and member.uid in hold.members else None

    def members_of(self, entity: QueuedEntity) -> list[QueuedPod]:
        """The held members of an entity's group."""
        hold = self._holds.get(entity.gang_group.name)
        return [] if hold is None else list(hold.members.values())

    def waiting_members(self, entity: QueuedEntity) -> list[QueuedPod]:
        """The held members of an entity's group that wait for the others, not for a plugin."""
        return [m for m in self.members_of(entity) if m.permit_plugin == GANG]

    def arrived_counts(self, entity: QueuedEntity) -> BundleCounts:
        """Members that can be placed, and those that are held."""
        members = self.members_of(entity)
        if not members:
            return entity.arrived
        held = entity.gang_group.count_by_bundle(member.uid for member in members)
        return {gang: held[gang] + entity.arrived.get(gang, Counter()) for gang in held}

    def lacks_members(self, entity: QueuedEntity) -> bool:
        """Whether fewer members have arrived than the minimum."""
        group = entity.gang_group
        return group.lacks_pods or group.lacks_members(self.arrived_counts(entity))

    def is_urgent(self, group: GangGroup) -> bool:
        """Whether the group is to be completed before all others are tried."""
        if self._policy.on_partial_bind == "Hold" or group.name in self._timed_out:
            return False
        return group.partially_bound

    # --- changes ---------------------------------------------------------------------------

    def get_or_create(self, entity: QueuedEntity, now: float, unix_now: float) -> GangHold:
        """The hold of an entity's group; a new one starts the wait time."""
        group = entity.gang_group
        hold = self._holds.get(group.name)
        if hold is None:
            deadline = now + self._wait_time(group)
            hold = GangHold(entity, now, int(unix_now), deadline, group.topology)
            self._holds[group.name] = hold
        return hold

    def restore(self, entity: QueuedEntity, unix_since: int, since: float, now: float) -> None:
        """The wait time that began under a scheduler before us goes on.

        One that ended while none ran is over :data:`RESTART_GRACE` seconds from now, so that the
        group is tried before.
        """
        hold = self.get_or_create(entity, now, unix_since)
        wait = hold.deadline - now
        hold.since = min(now, max(since, now - wait + min(wait, RESTART_GRACE)))
        hold.deadline = hold.since + wait

    def end(self, hold: GangHold) -> None:
        """The group holds nothing any more, and its wait time ends."""
        self._holds.pop(hold.entity.gang_group.name, None)

    def update(self, hold: GangHold) -> bool:
        """Adapt a hold to the present settings of its group; False if it is void by them.

        The wait time still counts from its beginning, so that an edit does not prolong it.
        """
        before = hold.entity.gang_group
        if any(self._registry.gangs.get(gang.name) is not gang for gang in before.gangs):
            return False
        group = self._registry.group_of(before.gangs[0])
        unchanged = group == before and group.topology == hold.topology
        if not unchanged or messages.blocking_reason(group):
            return False
        hold.entity.group = group
        hold.deadline = hold.since + self._wait_time(group)
        return True

    def mark_timed_out(self, group: GangGroup) -> None:
        """The group, which is bound in part, is not urgent any more."""
        self._timed_out.add(group.name)

    def forget(self, name: str) -> None:
        """There is no such group any more."""
        self._timed_out.discard(name)

    def overdue(self, now: float) -> list[GangHold]:
        """The holds whose wait time is over."""
        return [hold for hold in self._holds.values() if hold.deadline <= now]

    def next_deadline(self) -> float | None:
        """When the first wait time will be over."""
        return min((hold.deadline for hold in self._holds.values()), default=None)

    def _wait_time(self, group: GangGroup) -> float:
        return min(gang.settings.wait_time or self._policy.wait_time for gang in group.gangs)
