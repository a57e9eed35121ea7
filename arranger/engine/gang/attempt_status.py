"""Writes ``status.schedulingCycle`` of Gang objects: how often the scheduler has tried a gang.

The controllers write the rest of these objects, but only the scheduler knows its attempts. The
number is written when the object appears, and then once in :data:`MIN_WRITE_INTERVAL` at most. See
``docs/design/bundles.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    """A Gang object.

    Attributes:
        scheduling_cycle: the number that it shows, or will show after our last write.
        written_at: when we last wrote it, in the engine's clock.
    """

    uid: str
    scheduling_cycle: int
    written_at: float = float("-inf")


@dataclass(slots=True, eq=False)
class GangAttemptStatus:
    """Counts the attempts to place gangs, and writes them to their Gang objects."""

    _context: EngineContext
    _registry: GangRegistry
    #: Gang → its Gang object, where there is one.
    _observed: dict[str, _ObservedGang] = field(default_factory=dict)
    _writes: DeadlineSet = field(default_factory=DeadlineSet)

    def __len__(self) -> int:
        return len(self._observed) + len(self._writes)

    def on_updated(self, saved: GangObject, now: float) -> None:
        """A Gang object appeared or was edited."""
        observed = self._observed.get(saved.key)
        cycle = saved.status.scheduling_cycle
        if observed is None or observed.uid != saved.metadata.uid:
            self._observed[saved.key] = _ObservedGang(saved.metadata.uid, cycle)
            self._schedule(saved.key, now)
        else:
            # The object may be older than our last write.
            observed.scheduling_cycle = max(observed.scheduling_cycle, cycle)

    def on_deleted(self, name: str) -> None:
        """A Gang object was deleted."""
        self._observed.pop(name, None)

    def record_attempt(self, group: GangGroup, now: float) -> None:
        """An attempt to place the group begins; after a restart the counts of its gangs go on."""
        for gang in group.gangs:
            observed = self._observed.get(gang.name)
            written = observed.scheduling_cycle if observed else 0
            gang.scheduling_cycle = max(gang.scheduling_cycle, written) + 1
            self._schedule(gang.name, now)

    def write_due(self, now: float) -> None:
        """Write the counts whose time has come."""
        for name in self._writes.pop_due(now):
            gang, observed = self._registry.gangs.get(name), self._observed.get(name)
            if gang is None or observed is None:
                continue
            if gang.scheduling_cycle <= observed.scheduling_cycle:
                continue
            observed.scheduling_cycle, observed.written_at = gang.scheduling_cycle, now
            namespace, _, own = name.partition("/")
            path = f"/apis/arranger.io/v1alpha1/namespaces/{namespace}/gangs/{own}/status"
            status = {"schedulingCycle": gang.scheduling_cycle}
            change = {"metadata": {"uid": observed.uid}, "status": status}
            self._context.outbox.append(PatchObject(path, change))

    def next_timer(self) -> float | None:
        """When :meth:`write_due` will have something to do."""
        return self._writes.next_deadline()

    def _schedule(self, name: str, now: float) -> None:
        observed = self._observed.get(name)
        if observed is not None:
            self._writes.schedule(name, max(now, observed.written_at + MIN_WRITE_INTERVAL))
