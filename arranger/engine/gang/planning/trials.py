"""Whether a gang group would fit at another time, found out in steps.

Between two steps nothing of it is in the books, as with plans whom to evict
(:mod:`arranger.engine.gang.preemption.plans`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Final, TypeVar

from arranger.backfill.planner import Parts
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.gang.attempt.basis import AttemptBasis
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle, NominatedMembers
from arranger.engine.gang.attempt.suspended_members import MemberSuspension
from arranger.engine.gang.placement.boards import SearchEffort
from arranger.engine.gang.preemption.dry_steps import MANY_REPETITIONS, DrySteps, Ended
from arranger.engine.gang.preemption.planner import GangPreemptionPlanner
from arranger.engine.gang.preemption.trial import Between, PlanSteps
from arranger.engine.pod.planned_room import PlannedRoom
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator

T = TypeVar("T")

#: Units of one step: some 30 milliseconds.
STEP_UNITS: Final = 30_000
#: Members from which on a trial begins with a step of its own.
MANY_MEMBERS: Final = 1000
#: Units of all steps of a trial, after which it is begun anew: some 20 seconds.
MAX_TRIAL_UNITS: Final = 20_000_000

#: As what a moment it is tried.
Moment = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Repetitions:
    """How often the same plans were begun before, as what they were made of had changed.

    That they come to an end at all, less is asked and more is done at once.
    """

    count: int = 0

    @property
    def tried(self) -> bool:
        """Whether it is tried in memory who would fit, and not only what groups request."""
        return self.count < MANY_REPETITIONS

    @property
    def units(self) -> int:
        """Units of one step of what is not tried."""
        return STEP_UNITS << min(self.count // MANY_REPETITIONS, 10)


class OutdatedError(Exception):
    """The group, nodes or objects that plugins look at are others than at the beginning, or pods
    have come for which a group may not fit."""


@dataclass(frozen=True, slots=True)
class GroupTrials:
    """Tries groups in memory, as if no room were kept for anybody's start."""

    _cluster: Cluster
    _cycle: GangSchedulingCycle
    _nominator: Nominator
    _planner: GangPreemptionPlanner
    _steps: DrySteps
    _suspension: MemberSuspension
    _basis: AttemptBasis
    _room: PlannedRoom
    _pods: SchedulingCycle

    def fits_without(
        self,
        entity: QueuedEntity,
        row_mask: RowMask | None,
        pods: Iterable[PodInfo],
        moment: Moment,
    ) -> PlanSteps[bool]:
        """Whether the group would be complete if these pods were gone, its own apart.

        Raises:
            OutdatedError: it has to be asked anew.
        """
        own = {uid for gang in entity.gang_group.gangs for uid in gang.memberships}
        others = [pod for pod in pods if pod.uid not in own and pod.uid not in self._nominator]
        between, effort = Between(), SearchEffort()
        nominated, lost = self._cycle.nominated_members(entity), list[str]()
        if len(entity.members) >= MANY_MEMBERS:  # what has come before was enough for a step
            yield from self._rest(entity, nominated, between)
        placement = self._planner.dry_placement(entity, row_mask, effort, between)
        moved = False
        with closing(placement.fits_without(others)) as steps:
            while between.spent < MAX_TRIAL_UNITS:
                with moment(), self._room.nothing_kept():
                    try:
                        step = self._steps.take(
                            entity, steps, between, nominated, lost, units=STEP_UNITS
                        )
                    except Exception:
                        self._take_off(entity, nominated)
                        raise
                if isinstance(step, Ended):
                    if not step.value and moved:
                        raise OutdatedError  # it may be for who has come
                    if len(entity.members) >= MANY_MEMBERS:  # what follows is, too
                        yield from self._rest(entity, nominated, between)
                    return step.value
                lost = step
                yield from self._rest(entity, nominated, between)
                moved |= _concerns(between.changed, row_mask)
        raise OutdatedError

    def in_steps(
        self, entity: QueuedEntity, parts: Parts[T], units: int, more: Callable[[], Hashable]
    ) -> PlanSteps[T]:
        """Work on a group that touches nothing, in steps of so many units.

        Raises:
            OutdatedError: what an attempt for the group is made of has changed, or ``more``.
        """
        work = self._cluster.work
        known, before = (self._basis.of(entity), more()), work.spent
        while True:
            try:
                spent = next(parts)
            except StopIteration as end:
                result: T = end.value
                return result
            work.count(spent)
            if work.spent - before >= units:
                yield
                before = work.spent
                if (self._basis.of(entity), more()) != known:
                    raise OutdatedError

    def _take_off(self, entity: QueuedEntity, nominated: NominatedMembers) -> None:
        """Something has raised: no member is on a node for it."""
        left = [m for m in entity.members.values() if m.uid in self._cluster]
        self._pods.unreserve_all([m for m in left if m.uid not in self._nominator])
        self._cycle.renominate(nominated)

    def _rest(
        self, entity: QueuedEntity, nominated: NominatedMembers, between: Between
    ) -> PlanSteps[None]:
        version, basis = self._cluster.table.version, self._basis.of(entity)
        yield
        now = self._basis.of(entity), self._cycle.nominated_members(entity)
        if now != (basis, nominated):
            raise OutdatedError
        between.on_step(self._suspension.changed_rows(version), disturbed=False)


def _concerns(changed: Collection[int] | None, row_mask: RowMask | None) -> bool:
    """Whether any of the rows that have changed (None for too many) are among those of a mask."""
    if changed is None or row_mask is None:
        return changed is None or bool(changed)
    size = len(row_mask.rows)
    return any(row >= size or row_mask.rows[row] for row in changed)
