"""Attempts to place gang groups that go on in steps.

Between two steps nothing of an attempt is in the books: the members that have got nodes so far are
taken off, and others are decided as if it had not begun. In the next step they are put back, and
the attempt goes on where it was left. That comes to the same as all at once. Where something that
matters has changed meanwhile it begins anew, with longer steps after several times: other members
or settings, a changed node, room or quota that others have taken, or any change around members that
look at the pods of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from arranger.cluster.cluster import Cluster
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.gang.attempt.basis import AttemptBasis
from arranger.engine.gang.attempt.group_attempt import GangScheduleResult
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle, NominatedMembers
from arranger.engine.gang.attempt.suspended_members import MemberSuspension, SuspendedMembers
from arranger.engine.gang.steps import Steps

#: Units of one step: some 40 milliseconds.
STEP_UNITS: Final = 40_000
#: After so many beginnings steps are twice as long, for things may change as fast.
_MANY_BEGINNINGS: Final = 6
#: Members from which on what follows from their having got nodes is a step of its own.
MANY_PLACED: Final = 2000


@dataclass(slots=True, eq=False)
class SuspendedAttempt:
    """An attempt between two steps.

    Attributes:
        basis: what it is about; it is void when that is another one.
        placed: the members that have got nodes in it.
        nominated: those that were nominated when it began.
        version: the node table's, when they had left.
        beginnings: how often it has begun.
        taken: how many steps it has taken, since it began first.
        ended: whether nothing is left to be tried.
    """

    steps: Steps[GangScheduleResult]
    basis: tuple[object, ...]
    placed: SuspendedMembers
    nominated: NominatedMembers
    version: int
    beginnings: int
    taken: int
    ended: bool


@dataclass(frozen=True, slots=True)
class GangAttempts:
    """Takes the steps of attempts to place gang groups."""

    _cluster: Cluster
    _cycle: GangSchedulingCycle
    _suspension: MemberSuspension
    _basis: AttemptBasis

    def go_on(self, entity: QueuedEntity, *, in_steps: bool) -> GangScheduleResult | None:
        """The next step of an attempt, or all of it; None if it is to go on in another."""
        suspended, entity.suspended = entity.suspended, None
        assert suspended is None or isinstance(suspended, SuspendedAttempt)
        beginnings, taken = (1, 0) if suspended is None else (suspended.beginnings, suspended.taken)
        longer = beginnings // _MANY_BEGINNINGS
        if suspended is not None and suspended.placed.must_be_placed_again():
            longer = taken  # each step has to place them all again
        if suspended is not None and not self._resume(entity, suspended):
            beginnings, suspended = beginnings + 1, None
        if suspended is None:
            steps, nominated = self._cycle.steps(entity), self._cycle.nominated_members(entity)
        else:
            steps, nominated = suspended.steps, suspended.nominated
        work = self._cluster.work
        if in_steps:
            resumed = 0 if suspended is None else suspended.placed.resuming()
            units = STEP_UNITS - min(resumed, STEP_UNITS // 2)
            work.limit(units << min(longer, 10))
        ended = False
        try:
            placed = next(steps)
        except StopIteration as end:
            result: GangScheduleResult = end.value
            ended = in_steps and len(result.placed) >= MANY_PLACED
            if not ended or (suspended is not None and suspended.ended):
                return result
            steps, placed = _ended(result), result.placed
        finally:
            work.lift()
        earlier = None if suspended is None else suspended.placed
        left = self._suspension.take_off(placed, earlier)
        self._cycle.renominate(nominated)
        version, basis = self._cluster.table.version, self._basis.of(entity)
        entity.suspended = SuspendedAttempt(
            steps, basis, left, nominated, version, beginnings, taken + 1, ended
        )
        return None

    # --- inside ----------------------------------------------------------------------------

    def _resume(self, entity: QueuedEntity, suspended: SuspendedAttempt) -> bool:
        """Put the members back; False if the attempt is void, and nobody is on a node for it."""
        if suspended.basis != self._basis.of(entity):
            return False
        placed = suspended.placed
        there = entity.members
        if any(there.get(pod.uid) is not member for member, pod, _, _ in placed.members):
            return False
        if suspended.nominated != self._cycle.nominated_members(entity):
            return False
        changed = self._suspension.changed_rows(suspended.version)
        if self._suspension.put_back(placed, changed):
            return True
        self._cycle.renominate(suspended.nominated)
        return False


def _ended(result: GangScheduleResult) -> Steps[GangScheduleResult]:
    """Steps of which none is left."""
    yield from ()
    return result
