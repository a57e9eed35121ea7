"""Where and when a gang that does not fit now could start."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, Protocol

import numpy as np

from arranger.backfill.planner import Claim, ClosedRows, Demand, Planner
from arranger.backfill.timeline import Timeline
from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import IntArray
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.rejecters import GANG
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle
from arranger.engine.gang.placement.topology import placement_order
from arranger.engine.gang.planning.trials import GroupTrials
from arranger.engine.gang.preemption.trial import PlanSteps
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.pod.planned_room import select_nodes
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.status import Code

#: Domains of a gang's topology in which a start is looked for.
MAX_DOMAINS: Final = 32

#: Evaluation, one pod, and how many pods of a class are needed.
NeededClass = tuple[Evaluation, QueuedPod, int]


class ReservedRows(Protocol):
    """Knows which nodes are kept for others at other times than now."""

    @property
    def version(self) -> int:
        """Another number whenever other nodes may be kept, or at other times."""

    def kind_of(self, member: QueuedPod) -> Hashable:
        """The same is kept from members of one group that are of one kind."""

    def closed_rows(self, member: QueuedPod) -> ClosedRows | None:
        """The rows that a pod may not use, and when; None if there never are any."""

    def starting_at(self, at: float) -> AbstractContextManager[None]:
        """Meanwhile pods are placed as they would be at a time, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class RoomSearch:
    """Looks for room that a group would have if others were gone."""

    _cluster: Cluster
    _cycle: SchedulingCycle
    _gang_cycle: GangSchedulingCycle
    _holds: GangHolds
    #: How long a pod may run, in seconds.
    _limit_of: Callable[[PodInfo], float | None]
    _reserved: ReservedRows
    _trials: GroupTrials

    @property
    def version(self) -> int:
        """Another number whenever starts may be others, though no pod and no node has changed."""
        return self._reserved.version

    def earliest_start(
        self,
        entity: QueuedEntity,
        classes: Sequence[NeededClass],
        planner: Planner,
        *,
        now_too: bool,
    ) -> Claim | None:
        """The room that the group's minimum gets first, by what its members request.

        Of a topology the first domains are looked at. ``classes``: see :meth:`needed`.
        """
        demands = [self._demand(*each) for each in classes]
        limits = [self._limit_of(member.pod) for _, member, _ in classes]
        lasts = max((math.inf if limit is None else limit for limit in limits), default=math.inf)
        best: Claim | None = None
        for row_mask in islice(self._gang_cycle.row_masks(entity), MAX_DOMAINS):
            rows = None if row_mask is None else row_mask.rows
            claim = planner.earliest(demands, lasts, rows, now_too=now_too)
            if claim is not None and (best is None or claim.start < best.start):
                best = claim
        return best

    def fits_at(
        self, entity: QueuedEntity, claim: Claim, timeline: Timeline, now: float
    ) -> PlanSteps[bool]:
        """Whether the group would be complete there once those have ended that end before.

        Raises:
            OutdatedError: it has to be asked anew.
        """
        ended = [pod for _, pod in timeline.pods_ending(claim.rows, claim.start, now)]
        rows = np.zeros(self._cluster.table.size, dtype=np.bool_)
        rows[claim.rows] = True
        nowhere = PluginRejection(GANG, Rejection(("node(s) not planned",), Code.UNRESOLVABLE))
        starting = partial(self._reserved.starting_at, max(claim.start, now))
        return self._trials.fits_without(entity, RowMask(rows, nowhere), ended, starting)

    def is_open(self, entity: QueuedEntity, rows: IntArray, at: float) -> bool:
        """Whether no Reservation keeps any member off any of these rows at its start."""
        kinds = {self._reserved.kind_of(member): member for member in entity.members.values()}
        for member in kinds.values():
            closed = self._reserved.closed_rows(member)
            shut = None if closed is None else closed.at(at)
            if shut is not None and shut[rows[rows < shut.size]].any():
                return False
            kept = None if closed is None or closed.kept is None else closed.kept(at)
            if kept is not None and kept[:, rows[rows < kept.shape[1]]].any():
                return False
        return True

    def keeps_off(self, entity: QueuedEntity, claim: Claim, at: float, free: IntArray) -> bool:
        """Whether Reservations keep a group off what is planned for it, and nobody else does.

        ``free``: ``[column, n]`` of each of its rows at that time.
        """
        columns, fits = len(claim.amounts), claim.amounts <= free[: len(claim.amounts)]
        for member in {self._reserved.kind_of(m): m for m in entity.members.values()}.values():
            closed = self._reserved.closed_rows(member)
            shut = None if closed is None else closed.at(at)
            if shut is not None and shut[claim.rows].any():
                return True
            kept = None if closed is None or closed.kept is None else closed.kept(at)
            if kept is not None:
                left = free[:columns] - kept[:columns, claim.rows]
                if ((left < claim.amounts) & (claim.amounts > 0) & fits).any():
                    return True
        return False

    def nodes_needed(
        self, entity: QueuedEntity, now: float, *, tried: bool
    ) -> PlanSteps[frozenset[str]]:
        """The nodes that would hold what the group needs if they were empty.

        No nodes if the group would not fit even then, because of its queue's quota or the size of
        the cluster: keeping nodes would only keep them from others. Where that is not ``tried``,
        what it requests decides alone.

        Raises:
            OutdatedError: it has to be asked anew.
        """
        classes, table = self.needed(entity), self._cluster.table
        closed = [self._reserved.closed_rows(member) for _, member, _ in classes]
        shut = [rows for each in closed if each is not None and (rows := each.at(now)) is not None]
        for row_mask in self._gang_cycle.row_masks(entity):
            rows = None if row_mask is None else row_mask.rows
            for each in shut:
                rows = ~each if rows is None else rows & ~each
            nodes = select_nodes(self._cluster, classes, rows)
            there = [pod for row in table.rows(nodes) for pod in table.pods[row].values()]
            if not nodes:
                continue
            fits = self._trials.fits_without(entity, row_mask, there, nullcontext)
            if not tried or (yield from fits):
                return nodes
        return frozenset()

    def needed(self, entity: QueuedEntity) -> list[NeededClass]:
        """What the group's minimum needs."""
        group = entity.gang_group
        gang_of = group.gangs_by_uid()
        placed = group.count_by_bundle(m.uid for m in self._holds.members_of(entity))
        classes: dict[Hashable, list[QueuedPod]] = {}
        for member in placement_order(entity.ready(), group):
            gang = gang_of[member.uid]
            bundle = gang.memberships[member.uid].bundle
            if gang.advances_minimum(bundle, placed[gang.name]):
                placed[gang.name][bundle] += 1
                kind = member.equivalence_key, self._reserved.kind_of(member)
                classes.setdefault(kind, []).append(member)
        return [
            (self._cycle.evaluate(m[0].profile, m[0].pod, m[0].signature), m[0], len(m))
            for m in classes.values()
        ]

    # --- inside ----------------------------------------------------------------------------

    def _demand(self, evaluation: Evaluation, member: QueuedPod, count: int) -> Demand:
        vector = member.pod.request_vector(self._cluster.table.resource_column)
        closed = self._reserved.closed_rows(member)
        return Demand(*vector, count, evaluation.fits_when_empty, closed)
