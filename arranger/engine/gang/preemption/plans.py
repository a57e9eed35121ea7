"""Plans of preemption that go on in steps.

Between two steps nothing of a plan is in the books. What has changed meanwhile voids it only where
members, settings, nodes or objects that plugins look at are others. Pods may come and go: the
search goes on, and what comes of it is asked once more of the cluster as it is at the end.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from arranger.cluster.cluster import Cluster
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.gang.attempt.basis import AttemptBasis
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle, NominatedMembers
from arranger.engine.gang.attempt.suspended_members import MemberSuspension
from arranger.engine.gang.preemption.dry_steps import DrySteps, Ended
from arranger.engine.gang.preemption.planner import GangPreemptionPlanner, PreemptionPlan
from arranger.engine.gang.preemption.trial import Between, PlanSteps
from arranger.framework.preemption import EvictionPolicy

#: Units of one step: some 40 milliseconds.
STEP_UNITS: Final = 40_000
#: Units of all steps of a plan, after which it is given up: some minute.
MAX_PLAN_UNITS: Final = 40_000_000


class PlanState(Enum):
    """What else may come of a step."""

    UNFINISHED = "it is to go on in another step"
    VOID = "the group is to be tried anew"


@dataclass(slots=True, eq=False)
class SuspendedPlan:
    """A plan between two steps.

    Attributes:
        basis: what it is about; it is void when that is another one.
        nominated: the members that are nominated.
        lost: uids of those whose nomination ended in it.
        version: the node table's after the last step.
        budgets: the version of the disruption budgets then.
    """

    steps: PlanSteps[PreemptionPlan | None]
    between: Between
    basis: tuple[Hashable, ...]
    nominated: NominatedMembers
    lost: list[str]
    version: int
    budgets: int


@dataclass(frozen=True, slots=True)
class GangPlans:
    """Takes the steps of plans."""

    _cluster: Cluster
    _cycle: GangSchedulingCycle
    planner: GangPreemptionPlanner
    _steps: DrySteps
    _policy: EvictionPolicy
    _suspension: MemberSuspension
    _basis: AttemptBasis

    def go_on(
        self,
        entity: QueuedEntity,
        *,
        in_steps: bool,
        begin_later: bool,
    ) -> PreemptionPlan | PlanState:
        """The next step of a plan, or all of it.

        Args:
            begin_later: whether the first step is to be another one.
        """
        suspended, entity.suspended = entity.suspended, None
        nominated = self._cycle.nominated_members(entity)
        if suspended is None:
            between, lost = Between(), list[str]()
            steps = self.planner.steps(entity, between)
        else:
            assert isinstance(suspended, SuspendedPlan)
            if (suspended.basis, suspended.nominated) != (self._basis.of(entity), nominated):
                entity.void_plans += 1
                return PlanState.VOID
            self._note_changes(suspended)
            steps, between, lost = suspended.steps, suspended.between, suspended.lost
        if not begin_later:
            plan, lost = self._step(entity, steps, between, nominated, lost, in_steps=in_steps)
            if plan is not PlanState.UNFINISHED:
                return plan
        entity.suspended = SuspendedPlan(
            steps,
            between,
            self._basis.of(entity),
            nominated,
            lost,
            self._cluster.table.version,
            self._cluster.budgets.version,
        )
        return PlanState.UNFINISHED

    # --- inside ----------------------------------------------------------------------------

    def _step(
        self,
        entity: QueuedEntity,
        steps: PlanSteps[PreemptionPlan | None],
        between: Between,
        nominated: NominatedMembers,
        lost: list[str],
        *,
        in_steps: bool,
    ) -> tuple[PreemptionPlan | PlanState, list[str]]:
        """What comes of a step, and whose nominations have ended in it."""
        units = STEP_UNITS if in_steps else None
        voided = entity.void_plans
        step = self._steps.take(entity, steps, between, nominated, lost, units=units, voided=voided)
        if isinstance(step, Ended):
            plan = step.value
            entity.void_plans = 0 if plan is not None else voided + 1
            return PlanState.VOID if plan is None else plan, []
        if between.spent > MAX_PLAN_UNITS:
            steps.close()
            return PreemptionPlan(proven=False, given_up=True), []
        return PlanState.UNFINISHED, step

    def _note_changes(self, suspended: SuspendedPlan) -> None:
        """Say what has changed since the last step; quotas and time are taken for changed."""
        policy, budgets = self._policy, suspended.budgets
        disturbed = policy.quota is not None or policy.time_protects
        disturbed |= budgets != self._cluster.budgets.version
        changed = self._suspension.changed_rows(suspended.version)
        suspended.between.on_step(changed, disturbed=disturbed)
