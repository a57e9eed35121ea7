"""Whether a gang group can be tried: its members have arrived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.rejecters import gang_rejection
from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.gang.state.holds import GangHolds
from arranger.framework.status import Status
from arranger.gangs import messages

_OUTDATED: Final = "its Gang object is being corrected, which says that it had its minimum"


@dataclass(frozen=True, slots=True)
class GangGate:
    """Keeps gang groups from being tried before they can be placed."""

    _holds: GangHolds
    _gang_objects: GangObjects

    def missing_requirement(self, entity: QueuedEntity) -> Status | None:
        """Why the entity's gang group is not tried yet; None if it is."""
        group = entity.gang_group
        if reason := messages.blocking_reason(group):
            return gang_rejection(reason)
        if self._gang_objects.blocks(group):
            return gang_rejection(f"{group.display_name} waits: {_OUTDATED}")
        if self._holds.lacks_members(entity):
            return gang_rejection(f"{group.display_name} waits for members")
        if not entity.ready_count():
            return gang_rejection(f"{group.display_name}: its members are held back")
        return None
