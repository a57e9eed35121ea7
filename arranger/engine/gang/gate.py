"""What a gang group still lacks to be tried: its members, and its queue's admission."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from arranger.engine.entity import QueuedEntity, gang_rejection
from arranger.engine.gang.holds import GangHold
from arranger.framework.status import Code, Status
from arranger.gangs import messages
from arranger.gangs.group import BundleCounts, GangGroup


class QuotaAdmission(Protocol):
    """Admits complete gang groups to their queues."""

    def admit(self, group: GangGroup) -> str:
        """Why a group is not admitted yet; "" if it is."""
        ...


class GangGate:
    """Holds entities back, before any node is looked at, that cannot be placed yet.

    Args:
        holds: what incomplete groups hold, by the group's name.
    """

    def __init__(self, holds: Mapping[str, GangHold], quota: QuotaAdmission) -> None:
        self._holds = holds
        self._quota = quota

    def missing_requirement(self, entity: QueuedEntity) -> Status | None:
        """What the entity's gang group still lacks to be tried; None if it may be."""
        group = entity.gang_group
        if reason := messages.blocking_reason(group):
            return gang_rejection(reason)
        if self.lacks_members(entity):
            return gang_rejection(f"{messages.display_name(group)} waits for members")
        if reason := self._quota.admit(group):
            text = f"{messages.display_name(group)} waits: {reason}"
            # The plugin's queueing hints say what may help.
            return Status(Code.UNSCHEDULABLE, (text,), entity.profile.quota_plugin)
        if not entity.ready_count():
            return gang_rejection(f"{messages.display_name(group)}: its members are held back")
        return None

    def lacks_members(self, entity: QueuedEntity) -> bool:
        """Whether too few members have arrived."""
        return entity.gang_group.lacks_members(self.arrived_counts(entity))

    def arrived_counts(self, entity: QueuedEntity) -> BundleCounts:
        """Members that are there to be placed, and those already held."""
        group = entity.gang_group
        hold = self._holds.get(group.name)
        if hold is None or not hold.members:
            return entity.arrived
        held = group.count_by_bundle(hold.members)
        return {gang: held[gang] + entity.arrived.get(gang, Counter()) for gang in held}
