"""How often gangs have been tried, as their Gang objects tell (seed 002's ``schedulingCycle``).

The controllers write the rest of these objects; but nobody but the scheduler knows its attempts. An
attempt is seldom worth a write: the number is brought up to date when the object appears, and then
once in :data:`MIN_WRITE_INTERVAL` at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from arranger.api.effects import PatchObject
from arranger.api.types.pod_groups import GangObject
from arranger.engine.context import EngineContext
from arranger.engine.deadlines import DeadlineSet
from arranger.gangs.group import GangGroup
from arranger.gangs.registry import GangRegistry

#: Seconds between two writes about one gang.
MIN_WRITE_INTERVAL: Final = 60.0


@dataclass(slots=True)
class _ObservedGang:
    """A Gang object: the number that it shows or will show, and when we last wrote it."""

    uid: str
    scheduling_cycle: int
    written_at: float = float("-inf")


class GangAttemptStatus:
    """Counts attempts, and tells of them."""

    def __init__(self, context: EngineContext, registry: GangRegistry) -> None:
        self._context = context
        self._registry = registry
        #: Gang → its object, where there is one.
        self._observed: dict[str, _ObservedGang] = {}
        self._notices = DeadlineSet()

    def __len__(self) -> int:
        return len(self._observed) + len(self._notices)

    def on_updated(self, saved: GangObject, now: float) -> None:
        """A Gang object appeared or was edited."""
        shown = self._observed.get(saved.name)
        cycle = saved.status.scheduling_cycle
        if shown is None or shown.uid != saved.metadata.uid:
            self._observed[saved.name] = _ObservedGang(saved.metadata.uid, cycle)
            self._schedule(saved.name, now)
        else:
            shown.scheduling_cycle = max(
                shown.scheduling_cycle, cycle
            )  # it may be older than what we have written

    def on_deleted(self, name: str) -> None:
        """A Gang object was deleted."""
        self._observed.pop(name, None)

    def record_attempt(self, group: GangGroup, now: float) -> None:
        """An attempt to place the group begins."""
        for gang in group.gangs:
            shown = self._observed.get(gang.name)
            # After a restart the count goes on.
            gang.scheduling_cycle = (
                max(gang.scheduling_cycle, shown.scheduling_cycle if shown else 0) + 1
            )
            self._schedule(gang.name, now)

    def write_due(self, now: float) -> None:
        """Write what there is to write now."""
        for name in self._notices.pop_due(now):
            gang, shown = self._registry.gangs.get(name), self._observed.get(name)
            if gang is None or shown is None or gang.scheduling_cycle <= shown.scheduling_cycle:
                continue
            shown.scheduling_cycle, shown.written_at = gang.scheduling_cycle, now
            namespace, _, own = name.partition("/")
            path = f"/apis/arranger.io/v1alpha1/namespaces/{namespace}/gangs/{own}/status"
            status = {"schedulingCycle": gang.scheduling_cycle}
            change = {"metadata": {"uid": shown.uid}, "status": status}
            self._context.outbox.append(PatchObject(path, change))

    def next_timer(self) -> float | None:
        """When :meth:`tell_due` will have something to do."""
        return self._notices.next_deadline()

    def _schedule(self, name: str, now: float) -> None:
        shown = self._observed.get(name)
        if shown is not None:
            self._notices.schedule(name, max(now, shown.written_at + MIN_WRITE_INTERVAL))
