"""Where and when a gang that does not fit now could start."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeVar

import numpy as np

from arranger.backfill.planner import Claim, ClosedRows, Parts, Planner
from arranger.backfill.timeline import Timeline
from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import IntArray
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.rejecters import GANG
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle
from arranger.engine.gang.placement.topology import placement_order
from arranger.engine.gang.planning.needs import Needs, nearest_to_empty, needs_of
from arranger.engine.gang.planning.trials import GroupTrials, Repetitions
from arranger.engine.gang.preemption.trial import PlanSteps
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code

T = TypeVar("T")

#: Domains of a gang's topology in which a start is looked for.
MAX_DOMAINS: Final = 32


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
        needs: Needs,
        planner: Planner,
        repeated: Repetitions,
        *,
        now_too: bool,
    ) -> PlanSteps[Claim | None]:
        """The room that the group's minimum gets first, by what its members request.

        Of a topology the first domains are looked at. ``needs``: see :meth:`needed`.

        Raises:
            OutdatedError: it has to be asked anew.
        """
        closed = ((need, self._reserved.closed_rows(need.member)) for need in needs.kinds)
        demands = [replace(need.demand, closed=rows) for need, rows in closed]
        best: Claim | None = None
        for row_mask in islice(self._gang_cycle.row_masks(entity), MAX_DOMAINS):
            rows = None if row_mask is None else row_mask.rows
            parts = planner.earliest(demands, needs.lasts, rows, now_too=now_too)
            claim = yield from self._in_steps(entity, parts, repeated)
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
        self, entity: QueuedEntity, needs: Needs, now: float, repeated: Repetitions
    ) -> PlanSteps[frozenset[str]]:
        """The nodes that would hold what the group needs if they were empty.

        No nodes if the group would not fit even then, because of its queue's quota or the size of
        the cluster: keeping nodes would only keep them from others.

        Raises:
            OutdatedError: it has to be asked anew.
        """
        table = self._cluster.table
        closed = [self._reserved.closed_rows(need.member) for need in needs.kinds]
        shut = [rows for each in closed if each is not None and (rows := each.at(now)) is not None]
        for row_mask in self._gang_cycle.row_masks(entity):
            rows = None if row_mask is None else row_mask.rows
            for each in shut:
                rows = ~each if rows is None else rows & ~each
            parts = nearest_to_empty(needs, table, rows)
            nodes = yield from self._in_steps(entity, parts, repeated)
            there = [pod for row in table.rows(nodes) for pod in table.pods[row].values()]
            if not nodes:
                continue
            fits = self._trials.fits_without(entity, row_mask, there, nullcontext)
            if not repeated.tried or (yield from fits):
                return nodes
        return frozenset()

    def needed(self, entity: QueuedEntity, repeated: Repetitions) -> PlanSteps[Needs]:
        """What the group's minimum needs.

        Raises:
            OutdatedError: it has to be asked anew.
        """
        group, reserved = entity.gang_group, self._reserved
        gang_of = group.gangs_by_uid()
        placed = group.count_by_bundle(m.uid for m in self._holds.members_of(entity))
        classes: dict[Hashable, list[QueuedPod]] = {}
        for member in placement_order(entity.ready(), group):
            gang = gang_of[member.uid]
            bundle = gang.memberships[member.uid].bundle
            if gang.advances_minimum(bundle, placed[gang.name]):
                placed[gang.name][bundle] += 1
                kind = member.equivalence_key, reserved.kind_of(member)
                classes.setdefault(kind, []).append(member)
        parts = needs_of(
            list(classes.values()),
            self._cycle,
            self._cluster.table,
            reserved.kind_of,
            self._limit_of,
        )
        return (yield from self._in_steps(entity, parts, repeated))

    # --- inside ----------------------------------------------------------------------------

    def _in_steps(
        self, entity: QueuedEntity, parts: Parts[T], repeated: Repetitions
    ) -> PlanSteps[T]:
        """In between, what the group is, nodes and their resources, and Reservations stay so."""
        table = self._cluster.table
        return self._trials.in_steps(
            entity, parts, repeated.units, lambda: (len(table.requested), self._reserved.version)
        )
