"""How often gangs have been tried, as their Gang objects tell (seed 002's ``schedulingCycle``).

The controllers write the rest of these objects; but nobody but the scheduler knows its attempts. An
attempt is seldom worth a write: the number is brought up to date when the object appears, and then
once in :data:`SPACING` at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from arranger.api.effects import PatchObject
from arranger.api.types.pod_groups import SavedGang
from arranger.engine.context import Desk
from arranger.engine.deadlines import Notices
from arranger.gangs.group import GangGroup
from arranger.gangs.registry import GangRegistry

#: Seconds between two writes about one gang.
SPACING: Final = 60.0


@dataclass(slots=True)
class _Shown:
    """A Gang object: the number that it shows or will show, and when we last wrote it."""

    uid: str
    cycle: int
    written_at: float = float("-inf")


class GangRounds:
    """Counts attempts, and tells of them."""

    def __init__(self, desk: Desk, registry: GangRegistry) -> None:
        self._desk = desk
        self._registry = registry
        #: Gang → its object, where there is one.
        self._shown: dict[str, _Shown] = {}
        self._notices = Notices()

    def __len__(self) -> int:
        return len(self._shown) + len(self._notices)

    def saw(self, saved: SavedGang, now: float) -> None:
        """A Gang object appeared or was edited."""
        shown = self._shown.get(saved.name)
        cycle = saved.status.scheduling_cycle
        if shown is None or shown.uid != saved.metadata.uid:
            self._shown[saved.name] = _Shown(saved.metadata.uid, cycle)
            self._schedule(saved.name, now)
        else:
            shown.cycle = max(shown.cycle, cycle)  # it may be older than what we have written

    def gone(self, name: str) -> None:
        """A Gang object was deleted."""
        self._shown.pop(name, None)

    def tried(self, group: GangGroup, now: float) -> None:
        """An attempt to place the group begins."""
        for gang in group.gangs:
            shown = self._shown.get(gang.name)
            # After a restart the count goes on.
            gang.cycle = max(gang.cycle, shown.cycle if shown else 0) + 1
            self._schedule(gang.name, now)

    def tell_due(self, now: float) -> None:
        """Write what there is to write now."""
        for name in self._notices.take(now):
            gang, shown = self._registry.gangs.get(name), self._shown.get(name)
            if gang is None or shown is None or gang.cycle <= shown.cycle:
                continue
            shown.cycle, shown.written_at = gang.cycle, now
            namespace, _, own = name.partition("/")
            path = f"/apis/arranger.io/v1alpha1/namespaces/{namespace}/gangs/{own}/status"
            status = {"schedulingCycle": gang.cycle}
            change = {"metadata": {"uid": shown.uid}, "status": status}
            self._desk.outbox.append(PatchObject(path, change))

    def next_timer(self) -> float | None:
        """When :meth:`tell_due` will have something to do."""
        return self._notices.next()

    def _schedule(self, name: str, now: float) -> None:
        shown = self._shown.get(name)
        if shown is not None:
            self._notices.schedule(name, max(now, shown.written_at + SPACING))
