"""What gangs are told about their starts, and whether that is kept.

A start that follows from known ends is a promise, as long as room is kept until then. Whatever
becomes of a promise that is not kept is counted with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from arranger.backfill.planner import Claim
from arranger.backfill.run_times import Basis
from arranger.backfill.timeline import Timeline
from arranger.cluster.columns import IntArray
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.pod.planned_room import PlannedGang
from arranger.gangs.group import GangGroup
from arranger.gangs.planned_start import PlannedStart

#: A start so many seconds late is in time: kubelets need a moment to end pods and to start them.
TOLERANCE: Final = 60.0
#: Starts later than that, in seconds, are not told: limits may be longer than calendars.
_FAR: Final = 10 * 365 * 86_400.0
#: How many pods are named that have to end before.
_NAMED: Final = 3


class OpenRows(Protocol):
    """Knows whether members of a group are kept off their nodes."""

    def keeps_off(self, entity: QueuedEntity, claim: Claim, at: float, free: IntArray) -> bool:
        """Whether Reservations keep a group off what is planned for it, and nobody else does."""


@dataclass(slots=True, eq=False)
class Promises:
    """Tells of planned starts, and counts those that were promised and did not come."""

    _context: EngineContext
    _timeline: Timeline
    _gang_objects: GangObjects
    _open: OpenRows
    #: Entity → the start that was promised, in seconds since 1970.
    promised: dict[str, float] = field(default_factory=dict, init=False)
    #: Entity → uids of the pods that were to end before that.
    _counted_on: dict[str, frozenset[str]] = field(default_factory=dict, init=False)

    def broken_by(self, plans: Mapping[str, PlannedGang]) -> tuple[int, float]:
        """(promises that would not be kept by these plans, seconds by which others would be late).

        The less the better; a moment is no break.
        """
        broken, late = 0, 0.0
        for key, at in self.promised.items():
            plan = plans.get(key)
            if plan is None or plan.claim is None or plan.claim.start > at + TOLERANCE:
                broken += 1
            else:
                late += max(0.0, plan.claim.start - max(at, self._context.unix_now))
        return broken, late

    def was_planned(self, group: GangGroup) -> bool:
        """Whether a start was planned for the group by its objects: before our own start."""
        return any(self._gang_objects.is_planned(name) for name in group.gang_names)

    def on_planned(
        self,
        entity: QueuedEntity,
        plan: PlannedGang | None,
        before: PlannedGang | None,
        until: float,
    ) -> None:
        """A group is planned anew, or not any more; room is kept up to ``until``."""
        at, claim = self.promised.get(entity.key), None if plan is None else plan.claim
        start = None if claim is None else claim.start
        if at is not None and (start is None or start > at + TOLERANCE):
            self._count(before or plan, at, entity)
            self._forget(entity.key)
            at = None
        if claim is not None and claim.known and claim.start <= until:
            self.promised[entity.key] = at = min(claim.start, at or claim.start)
            ending = self._timeline.pods_ending(claim.rows, at, self._context.unix_now)
            self._counted_on[entity.key] = frozenset(pod.uid for _, pod in ending)
        if claim is None or claim.start > self._context.unix_now + _FAR:
            self._tell(entity, None)
            return
        known = at is not None
        self._tell(
            entity,
            PlannedStart(at if at is not None else claim.start, known, self._waits_for(plan)),
        )

    def on_started(self, entity: QueuedEntity, plan: PlannedGang | None) -> None:
        """A group has got its place."""
        at = self.promised.get(entity.key)
        if at is not None and self._context.unix_now > at + TOLERANCE:
            self._count(plan, at, entity)
        self._forget(entity.key)
        self._tell(entity, None)

    def withdraw(self, plan: PlannedGang, entity: QueuedEntity | None) -> None:
        """Room is not kept for a group any more, which has not started."""
        at = self.promised.get(plan.key)
        if at is not None and entity is not None and self._context.unix_now >= at:
            self._count(plan, at, entity)
        self._forget(plan.key)
        if entity is not None:
            self._tell(entity, None)

    # --- inside ----------------------------------------------------------------------------

    def _tell(self, entity: QueuedEntity, start: PlannedStart | None) -> None:
        for gang in () if entity.group is None else entity.group.gangs:
            if gang.planned_start != start:
                gang.planned_start = start
                self._gang_objects.mark((gang.name,))

    def _forget(self, key: str) -> None:
        self.promised.pop(key, None)
        self._counted_on.pop(key, None)

    def _count(self, plan: PlannedGang | None, at: float, entity: QueuedEntity) -> None:
        self._context.stats.broken_promises[self._reason(plan, at, entity)] += 1

    def _reason(self, plan: PlannedGang | None, at: float, entity: QueuedEntity) -> str:
        if plan is None or plan.claim is None:
            return "Other"
        table = self._timeline.table
        rows = table.rows(plan.nodes)
        if len(rows) < len(plan.nodes) or any(table.unschedulable[row] for row in rows):
            return "NodeLost"
        free = self._timeline.free_at(at, self._context.unix_now, plan.claim.rows)
        if self._open.keeps_off(entity, plan.claim, at, free):
            return "Reservation"  # an administrator acts
        there = [pod for row in rows for pod in table.pods[row].values()]
        if any(pod.priority > plan.priority for pod in there):
            return "HigherPriority"
        ends = [(pod.uid, self._timeline.run_times.of(pod, at)) for pod in there]
        if any(time.end <= at and time.basis is Basis.KNOWN for _, time in ends):
            return "PodOverran"
        counted_on = self._counted_on.get(entity.key, frozenset())
        if any(uid in counted_on and time.end > at + TOLERANCE for uid, time in ends):
            return "LimitRaised"  # somebody lets it run longer
        return "Other"

    def _waits_for(self, plan: PlannedGang | None) -> str:
        """The pods that end last on the nodes of a plan, by name in its own namespaces."""
        if plan is None or plan.claim is None:
            return ""
        claim, now = plan.claim, self._context.unix_now
        ending = self._timeline.pods_ending(claim.rows, claim.start, now)
        if not ending:
            return ""
        own = [pod for _, pod in ending if pod.namespace in plan.namespaces]
        names = ", ".join(pod.key for pod in own[:_NAMED])
        others = len(ending) - len(own)
        more = len(own) - _NAMED
        parts = [names] if names else []
        parts += [f"{more} more"] if more > 0 else []
        parts += [f"{others} pods of other namespaces"] if others else []
        return " and ".join(parts)
