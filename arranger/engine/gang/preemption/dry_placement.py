"""Whether a gang group would fit if certain pods had left: placed in memory, and taken back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, TypeVar

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.attempt.group_attempt import GangScheduleResult
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle
from arranger.engine.gang.attempt.suspended_members import MemberSuspension
from arranger.engine.gang.placement.boards import SearchEffort
from arranger.engine.gang.preemption.room_by_numbers import RoomByNumbers
from arranger.engine.gang.preemption.trial import Between, PlanSteps, Trial, VoidTrialError
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy
from arranger.framework.runtime.dry_run import DryRun

T = TypeVar("T")

#: Units of :mod:`~arranger.cluster.attempt_work` to find out whether a victim may stay, and beside
#: that for each member on its node.
SPARING: Final = 10
LOOKING: Final = 3

#: Where each member would go.
Destinations = tuple[tuple[QueuedPod, str], ...]


@dataclass(slots=True, eq=False)
class DryPlacement:
    """Places what one group needs, on some rows or anywhere; nobody leaves for members beyond."""

    _cluster: Cluster
    _nominator: Nominator
    _pod_cycle: SchedulingCycle
    _cycle: GangSchedulingCycle
    _policy: EvictionPolicy
    _entity: QueuedEntity
    _row_mask: RowMask | None
    _effort: SearchEffort
    _suspension: MemberSuspension
    _between: Between
    _numbers: RoomByNumbers | None = field(default=None, init=False)

    def fits_without(self, victims: Iterable[PodInfo]) -> PlanSteps[bool]:
        """Whether the group would fit if these left."""
        return (yield from self.without(victims)) is not None

    def without(self, victims: Iterable[PodInfo]) -> PlanSteps[Destinations | None]:
        """Where the members would go if these left; None if the group would not fit."""
        return (yield from self._try(list(victims), self._destinations))

    @property
    def numbers(self) -> RoomByNumbers:
        """What the requests alone allow."""
        if self._numbers is None:
            self._numbers = RoomByNumbers(
                self._cluster,
                self._pod_cycle,
                self._row_mask,
                self._entity.gang_group,
                list(self._entity.ready()),
                self._cycle.held_counts(self._entity),
            )
        return self._numbers

    def fewest_victims(self, candidates: Sequence[PodInfo]) -> int:
        """How many of the candidates have to leave at least, by the sum of what is free."""
        table, size = self._cluster.table, self._cluster.table.size
        rows = table.alive[:size] if self._row_mask is None else self._row_mask.rows
        away = *self._nominator.visible_pods(), *self._nominator.terminating_pods()
        with self._cluster.simulate_without(away):
            free = np.maximum(table.allocatable[:, :size] - table.requested[:, :size], 0)
        left = free[:, rows].sum(axis=1).tolist()
        members = [member.pod for member in self._entity.ready()]
        needed, fewest = self._cycle.shortfall(self._entity), 0
        for column, amount in enumerate(left):
            lacking = sum(sorted(_requested(members, column, table))[:needed]) - amount
            offered = sorted(_requested(candidates, column, table), reverse=True)
            given = accumulate(offered)
            enough = (count for count, n in enumerate(given, start=1) if n >= lacking)
            fewest = max(fewest, next(enough, 0) if lacking > 0 else 0)
        return fewest

    def needed(self, victims: Sequence[PodInfo]) -> PlanSteps[list[PodInfo] | None]:
        """Those of the victims who must leave where the members would go if all left.

        The first are spared first. The members stay where they are, so that each victim costs a
        look at its node only. None if the group would not fit.
        """
        return (yield from self._try(victims, self._needed))

    # --- inside ----------------------------------------------------------------------------

    def _try(
        self, victims: Sequence[PodInfo], question: Callable[[Trial], PlanSteps[T]]
    ) -> PlanSteps[T]:
        """Ask until nothing comes between that voids the answer."""
        while True:
            trial = Trial(self._cluster, self._nominator, self._suspension, self._between, victims)
            try:
                yield from trial.begin()
                return (yield from question(trial))
            except VoidTrialError:
                self._between.on_void()
            finally:
                trial.end()

    def _destinations(self, trial: Trial) -> PlanSteps[Destinations | None]:
        result = yield from self._place(trial)
        destinations = tuple((member, member.node) for member, _ in result.placed)
        self._cycle.unreserve_all(result)
        return destinations if result.complete else None

    def _needed(self, trial: Trial) -> PlanSteps[list[PodInfo] | None]:
        work, victims = self._cluster.work, list(trial.gone.values())
        result = yield from self._place(trial)
        if not result.complete:
            self._cycle.unreserve_all(result)
            return None
        placed_on: dict[str, list[QueuedPod]] = {}
        for member, _ in result.placed:
            placed_on.setdefault(member.node, []).append(member)
        classes = _one_per_class(member for member, _ in result.placed)
        needed: list[PodInfo] = []
        for victim in victims:
            if work.is_spent:
                yield from trial.rest(result.placed)
            if (pod := trial.gone.get(victim.uid)) is None:
                continue  # it has left meanwhile
            node = trial.nodes[pod.uid]
            members = placed_on.get(node, ())
            work.count(SPARING + LOOKING * len(members))
            with work.unlimited():
                self._cluster.simulate_add_pod(pod, node)
                if self._still_fit(node, members) and self._within_quotas(classes):
                    trial.spare(pod)
                    continue
                self._cluster.simulate_remove_pod(pod)
            needed.append(victim)
        self._cycle.unreserve_all(result)
        return needed

    def _place(self, trial: Trial) -> PlanSteps[GangScheduleResult]:
        steps = self._cycle.place_steps(
            self._entity, self._row_mask, surplus=False, effort=self._effort
        )
        while True:
            try:
                placed = next(steps)
            except StopIteration as end:
                result: GangScheduleResult = end.value
                return result
            yield from trial.rest(placed)

    def _within_quotas(self, members: Iterable[QueuedPod]) -> bool:
        """Whether the placed members exceed no quota, to which pods on all nodes count."""
        quota = self._policy.quota
        if quota is None:
            return True
        for member in members:
            own = dict(quota.released_by(member.pod))
            remaining = quota.remaining(member.pod, member.node)
            if any(left + own.get(limit, 0) < 0 for limit, left in remaining.items()):
                return False
        return True

    def _still_fit(self, node: str, members: Collection[QueuedPod]) -> bool:
        """Whether members that were placed on a node still fit with the pods there now."""
        table = self._cluster.table
        row = table.index[node]
        if not members:
            return True
        if (table.requested[:, row] > table.allocatable[:, row]).any():
            return False
        return all(self._member_fits(member, row) for member in _one_per_class(members))

    def _member_fits(self, member: QueuedPod, row: int) -> bool:
        evaluation = self._pod_cycle.evaluate(member.profile, member.pod, member.signature)
        if evaluation.pod_dependent_filters <= member.profile.node_resource_filters:
            return True  # the sum of the requests has been compared already
        with self._cluster.simulate_without([member.pod]):
            return DryRun(member.profile, self._cluster, member.pod, evaluation).fits(row)


def _requested(pods: Iterable[PodInfo], column: int, table: NodeTable) -> list[int]:
    """What each of the pods requests of a resource."""
    vectors = (pod.request_vector(table.resource_column) for pod in pods)
    return [dict(zip(*vector, strict=True)).get(column, 0) for vector in vectors]


def _one_per_class(members: Iterable[QueuedPod]) -> list[QueuedPod]:
    """One member of each equivalence class: what holds for it holds for the others."""
    first: dict[object, QueuedPod] = {}
    for member in members:
        first.setdefault(member.equivalence_key, member)
    return list(first.values())
