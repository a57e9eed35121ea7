"""Whether a gang group would fit if certain pods had left: placed in memory, and taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.attempt.group_attempt import GangScheduleResult
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle
from arranger.engine.gang.attempt.suspended_members import MemberSuspension
from arranger.engine.gang.attempt.within_quotas import exceed_no_quota, one_of_each_charge
from arranger.engine.gang.placement.boards import SearchEffort
from arranger.engine.gang.preemption.room_by_numbers import RoomByNumbers
from arranger.engine.gang.preemption.trial import Between, PlanSteps, Trial, VoidTrialError
from arranger.engine.gang.preemption.victim_looks import VictimLooks, looks_of
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy
from arranger.framework.runtime.evaluation import Evaluation

T = TypeVar("T")

#: Units of :mod:`~arranger.cluster.attempt_work` to find out whether a victim may stay, and beside
#: that for each member on its node.
SPARING: Final = 10
LOOKING: Final = 3
#: The same for members that are charged alike.
CHARGING: Final = 5
#: Victims from which on what follows a trial has a step of its own.
MANY_GONE: Final = 2000
#: Units to look at a class of members, and to look at a node for one of them that compares more
#: than sums, beside what that counts itself.
EVALUATING: Final = 100
LOOKING_AGAIN: Final = 100
#: Classes of which is kept how they were seen last.
MAX_SEEN: Final = 64

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
    _looks: VictimLooks | None = field(default=None, init=False)
    _looked: bool = field(default=False, init=False)
    #: Classes of members as they were seen last, without the member that was asked about.
    _seen: dict[Hashable, Evaluation] = field(default_factory=dict, init=False)

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
        wanted = _amounts((member.pod for member in self._entity.ready()), table)
        offered = _amounts(candidates, table)
        needed, fewest = self._cycle.shortfall(self._entity), 0
        members = len(list(self._entity.ready()))
        for column, amounts in wanted.items():
            spare = members - amounts.total()  # those that want nothing of it come first
            lacking = _sum_of_first(sorted(amounts.items()), needed - spare) - left[column]
            given = sorted(offered.get(column, Counter()).items(), reverse=True)
            fewest = max(fewest, _fewest_to_give(given, lacking))
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
        looks = yield from self._look()
        while True:
            trial = Trial(
                self._cluster,
                self._nominator,
                self._suspension,
                self._between,
                victims,
                looks,
            )
            try:
                yield from trial.begin()
                return (yield from question(trial))
            except VoidTrialError:
                self._between.on_void()
            finally:
                trial.end()

    def _look(self) -> PlanSteps[VictimLooks | None]:
        """What members look at of others beside what these request."""
        if not self._looked:
            members, work = _one_per_class(self._entity.ready()), self._cluster.work
            self._looks = yield from looks_of(members, self._evaluate, work, EVALUATING)
            self._looked = True
        return self._looks

    def _evaluate(self, member: QueuedPod) -> Evaluation:
        return self._pod_cycle.evaluate(member.profile, member.pod, member.signature)

    def _destinations(self, trial: Trial) -> PlanSteps[Destinations | None]:
        result = yield from self._place(trial)
        if result.complete and len(trial.gone) > MANY_GONE:
            yield from trial.rest(result.placed)
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
        charged = one_of_each_charge(self._policy, (member for member, _ in result.placed))
        needed: list[PodInfo] = []
        for victim in victims:
            if work.is_spent:
                yield from trial.rest(result.placed)
            if (pod := trial.gone.get(victim.uid)) is None:
                continue  # it has left meanwhile
            node = trial.node_of(pod)
            members = placed_on.get(node, ())
            work.count(SPARING + LOOKING * len(members) + CHARGING * len(charged))
            with work.uninterrupted():
                trial.put_back(pod)
                fit = self._still_fit(node, members, sums=trial.is_sums(pod))
                if fit and exceed_no_quota(self._policy, charged):
                    trial.spare(pod)
                    continue
                trial.take_again(pod)
            needed.append(victim)
        self._cycle.unreserve_all(result)
        return needed

    def _place(self, trial: Trial) -> PlanSteps[GangScheduleResult]:
        steps = self._cycle.place_steps(
            self._entity, self._row_mask, surplus=False, hopeful=True, effort=self._effort
        )
        while True:
            try:
                placed = next(steps)
            except StopIteration as end:
                result: GangScheduleResult = end.value
                self._between.on_rejected(result.rejected_by)
                return result
            yield from trial.rest(placed)

    def _still_fit(self, node: str, members: Collection[QueuedPod], *, sums: bool) -> bool:
        """Whether members that were placed on a node still fit with the pods there now.

        ``sums``: of the pod that has come back nothing counts but what it requests.
        """
        table = self._cluster.table
        row = table.index[node]
        if not members:
            return True
        if (table.requested[:, row] > table.allocatable[:, row]).any():
            return False
        classes = _one_per_class(members)
        if sums and self._looks is not None:
            only_sums = self._looks.only_sums
            classes = [member for member in classes if member.equivalence_key not in only_sums]
        return all(self._member_fits(member, row) for member in classes)

    def _member_fits(self, member: QueuedPod, row: int) -> bool:
        key, cluster, pod = member.equivalence_key, self._cluster, member.pod
        cluster.work.count(LOOKING_AGAIN)
        with cluster.simulate_without([pod]):
            if (seen := self._seen.get(key)) is None:
                if len(self._seen) >= MAX_SEEN:
                    self._seen.clear()
                seen = self._seen[key] = Evaluation(member.profile, cluster, pod, scoring=False)
            else:
                seen.refresh()
            return seen.pre_filter_status is None and bool(seen.feasible[row])


def _amounts(pods: Iterable[PodInfo], table: NodeTable) -> dict[int, Counter[int]]:
    """Resource column → how many of the pods request how much of it."""
    vectors = (pod.request_vector(table.resource_column) for pod in pods)
    counts = Counter((tuple(columns), tuple(amounts)) for columns, amounts in vectors)
    found: dict[int, Counter[int]] = {}
    for (columns, amounts), count in counts.items():
        for column, amount in zip(columns, amounts, strict=True):
            found.setdefault(column, Counter())[amount] += count
    return found


def _sum_of_first(amounts: Iterable[tuple[int, int]], count: int) -> int:
    """The sum of so many of these (amount, how often it is there)."""
    total = 0
    for amount, there in amounts:
        taken = max(0, min(count, there))
        total, count = total + taken * amount, count - taken
    return total


def _fewest_to_give(amounts: Iterable[tuple[int, int]], lacking: int) -> int:
    """How many of these (amount, how often it is there) make up for what is lacking; 0 where
    nothing is, or all are too few."""
    count = 0
    for amount, there in amounts:
        if lacking <= 0:
            return count
        taken = min(there, -(-lacking // amount)) if amount else there
        lacking, count = lacking - taken * amount, count + taken
    return count if lacking <= 0 else 0


def _one_per_class(members: Iterable[QueuedPod]) -> list[QueuedPod]:
    """One member of each equivalence class: what holds for it holds for the others."""
    first: dict[object, QueuedPod] = {}
    for member in members:
        first.setdefault(member.equivalence_key, member)
    return list(first.values())
