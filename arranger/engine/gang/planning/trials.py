"""Whether a gang group would fit at another time, found out in steps.

Between two steps nothing of it is in the books, as with plans whom to evict
(:mod:`arranger.engine.gang.preemption.plans`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Final, TypeVar

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.gang.attempt.basis import AttemptBasis
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle, NominatedMembers
from arranger.engine.gang.attempt.suspended_members import MemberSuspension
from arranger.engine.gang.placement.boards import SearchEffort
from arranger.engine.gang.preemption.planner import GangPreemptionPlanner
from arranger.engine.gang.preemption.trial import Between
from arranger.engine.pod.planned_room import PlannedRoom
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.queue.nominator import Nominator

T = TypeVar("T")

#: Units of one step: some 30 milliseconds.
STEP_UNITS: Final = 30_000
#: Members from which on a trial begins with a step of its own.
MANY_MEMBERS: Final = 1000
#: After so many repetitions steps are twice as long, for things may change as fast.
_MANY_REPETITIONS: Final = 6

#: Work that yields where it is to be left until the next step.
PlanningSteps = Generator[None, None, T]
#: As what a moment it is tried.
Moment = Callable[[], AbstractContextManager[None]]


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
    _suspension: MemberSuspension
    _basis: AttemptBasis
    _room: PlannedRoom

    def fits_without(
        self,
        entity: QueuedEntity,
        row_mask: RowMask | None,
        pods: Iterable[PodInfo],
        moment: Moment,
    ) -> PlanningSteps[bool]:
        """Whether the group would be complete if these pods were gone, its own apart.

        Raises:
            OutdatedError: it has to be asked anew.
        """
        own = {uid for gang in entity.gang_group.gangs for uid in gang.memberships}
        others = [pod for pod in pods if pod.uid not in own and pod.uid not in self._nominator]
        between, work, effort = Between(), self._cluster.work, SearchEffort()
        nominated, lost = self._cycle.nominated_members(entity), list[str]()
        if len(entity.members) >= MANY_MEMBERS:  # what has come before was enough for a step
            yield from self._rest(entity, nominated, between)
        placement = self._planner.dry_placement(entity, row_mask, effort, between)
        with closing(placement.fits_without(others)) as steps:
            while True:
                with moment(), self._room.nothing_kept(), self._cycle.dry_run(entity, nominated):
                    for uid in lost:
                        self._nominator.clear(uid)
                    units = STEP_UNITS << min(between.repeated // _MANY_REPETITIONS, 10)
                    work.limit(units - min(between.resuming, units // 2))
                    try:
                        next(steps)
                    except StopIteration as end:
                        fits: bool = end.value
                        if not fits and between.moved:
                            raise OutdatedError from None  # it may be for who has come
                        return fits
                    finally:
                        work.lift()
                    lost = [m.uid for m, _ in nominated if m.uid not in self._nominator]
                yield from self._rest(entity, nominated, between)

    def _rest(
        self, entity: QueuedEntity, nominated: NominatedMembers, between: Between
    ) -> PlanningSteps[None]:
        version, basis = self._cluster.table.version, self._basis.of(entity)
        yield
        now = self._basis.of(entity), self._cycle.nominated_members(entity)
        if now != (basis, nominated):
            raise OutdatedError
        between.on_step(self._suspension.changed_rows(version), disturbed=False)
