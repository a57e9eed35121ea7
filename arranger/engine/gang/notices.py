"""When the members of a gang group are told why it waits."""

from __future__ import annotations

from typing import Final

from arranger.engine.deadlines import DeadlineSet
from arranger.engine.entity import QueuedEntity
from arranger.engine.gang.holds import GangHolds

#: Seconds without an arrival after which the members of an incomplete group are told: telling the
#: members of a large gang costs the API server as much as binding them.
ARRIVAL_QUIET_PERIOD: Final = 2.0
#: Seconds between two notices to the members of a group, for each member: a notice costs the API
#: server about 3 ms a member.
NOTIFY_INTERVAL_PER_MEMBER: Final = 0.01


class GangNotices:
    """The entities whose members are to be told why they wait, each at most once at a time."""

    def __init__(self, holds: GangHolds) -> None:
        self._holds = holds
        self._deadlines = DeadlineSet()

    def __len__(self) -> int:
        return len(self._deadlines)

    def schedule(self, entity: QueuedEntity, due: float) -> None:
        """Tell the members at ``due``, or later if they were told not long ago."""
        count = len(entity.members) + len(self._holds.waiting_members(entity))
        earliest = entity.notified_at + NOTIFY_INTERVAL_PER_MEMBER * count
        self._deadlines.schedule(entity.key, max(due, earliest))

    def schedule_after_arrivals(self, entity: QueuedEntity, now: float) -> None:
        """Tell the members of an incomplete group once no more of them arrive."""
        entity.notify_after = now + ARRIVAL_QUIET_PERIOD
        self.schedule(entity, entity.notify_after)

    def pop_due(self, now: float) -> list[str]:
        """The keys of the entities whose members are to be told now."""
        return self._deadlines.pop_due(now)

    def next_deadline(self) -> float | None:
        """When :meth:`pop_due` will have something to return."""
        return self._deadlines.next_deadline()
