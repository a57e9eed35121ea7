"""The steps of what is tried of a group in memory: plans whom to evict, and when to start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from arranger.cluster.cluster import Cluster
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle, NominatedMembers
from arranger.engine.gang.preemption.trial import Between, PlanSteps
from arranger.engine.pod.reserve_and_permit import must_be_placed_again
from arranger.engine.queue.nominator import Nominator

T = TypeVar("T")

#: After so many repetitions steps are twice as long, for things may change as fast.
MANY_REPETITIONS: Final = 6


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """What has come of all steps."""

    value: T


@dataclass(frozen=True, slots=True)
class DrySteps:
    """Takes one step after the other; the nominations of members outlive each."""

    _cluster: Cluster
    _cycle: GangSchedulingCycle
    _nominator: Nominator

    def take(
        self,
        entity: QueuedEntity,
        steps: PlanSteps[T],
        between: Between,
        nominated: NominatedMembers,
        lost: list[str],
        *,
        units: int | None,
        voided: int = 0,
    ) -> Ended[T] | list[str]:
        """The next step: what comes of it, or whose nominations have ended so far.

        Args:
            nominated: the members that are nominated between two steps.
            lost: uids of those whose nominations had ended after the step before.
            units: of a step as long as nothing is repeated; None for no limit.
            voided: how often others like this were begun before.
        """
        for uid in lost:
            self._nominator.clear(uid)
        work = self._cluster.work
        before = work.spent
        with self._cycle.dry_run(entity, nominated):
            if units is not None:
                units <<= _doublings(entity, between, voided)
                work.limit(units - min(between.resuming, units // 2))
            try:
                next(steps)
            except StopIteration as end:
                return Ended(end.value)
            finally:
                work.lift()
                between.spent += work.spent - before
            return [member.uid for member, _ in nominated if member.uid not in self._nominator]


def _doublings(entity: QueuedEntity, between: Between, voided: int) -> int:
    """How often the step is to be doubled."""
    longer = (voided + between.repeated) // MANY_REPETITIONS
    if must_be_placed_again(entity.one_of_each_class()):
        longer += between.rests  # each step has to place them all again
    return min(longer, 10)
