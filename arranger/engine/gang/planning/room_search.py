"""Where and when a gang that does not fit now could start."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from arranger.backfill.planner import Claim, Demand, Planner
from arranger.backfill.timeline import Timeline
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import GANG, QueuedEntity, QueuedPod
from arranger.engine.gang.holds import GangHolds
from arranger.engine.gang.placement.boards import SearchEffort
from arranger.engine.gang.placement.topology import placement_order
from arranger.engine.gang.scheduling_cycle import GangSchedulingCycle
from arranger.engine.pod.planned_room import select_nodes
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.status import Code

#: Domains of a gang's topology in which a start is looked for.
MAX_DOMAINS: Final = 32

#: Evaluation, one pod, and how many pods of a class are needed.
NeededClass = tuple[Evaluation, QueuedPod, int]


@dataclass(frozen=True, slots=True)
class RoomSearch:
    """Looks for room that a group would have if others were gone."""

    _cluster: Cluster
    _cycle: SchedulingCycle
    _gang_cycle: GangSchedulingCycle
    _nominator: Nominator
    _holds: GangHolds
    #: How long a pod may run, in seconds.
    _limit_of: Callable[[PodInfo], float | None]

    def earliest_start(
        self, entity: QueuedEntity, planner: Planner, *, now_too: bool
    ) -> Claim | None:
        """The room that the group's minimum gets first, by what its members request.

        Of a topology the first domains are looked at.
        """
        classes = self._needed(entity)
        demands = [_demand(self._cluster, *each) for each in classes]
        limits = [self._limit_of(member.pod) for _, member, _ in classes]
        lasts = max((math.inf if limit is None else limit for limit in limits), default=math.inf)
        best: Claim | None = None
        for row_mask in islice(self._gang_cycle.row_masks(entity), MAX_DOMAINS):
            rows = None if row_mask is None else row_mask.rows
            claim = planner.earliest(demands, lasts, rows, now_too=now_too)
            if claim is not None and (best is None or claim.start < best.start):
                best = claim
        return best

    def fits_at(self, entity: QueuedEntity, claim: Claim, timeline: Timeline, now: float) -> bool:
        """Whether the group would be complete there once those have ended that end before."""
        ended = [pod for _, pod in timeline.pods_ending(claim.rows, claim.start, now)]
        rows = np.zeros(self._cluster.table.size, dtype=np.bool_)
        rows[claim.rows] = True
        nowhere = PluginRejection(GANG, Rejection(("node(s) not planned",), Code.UNRESOLVABLE))
        return self._fits_without(entity, RowMask(rows, nowhere), ended)

    def nodes_needed(self, entity: QueuedEntity) -> frozenset[str]:
        """The nodes that would hold what the group needs if they were empty.

        No nodes if the group would not fit even then, because of its queue's quota or the size of
        the cluster: keeping nodes would only keep them from others.
        """
        classes, table = self._needed(entity), self._cluster.table
        for row_mask in self._gang_cycle.row_masks(entity):
            rows = None if row_mask is None else row_mask.rows
            nodes = select_nodes(self._cluster, classes, rows)
            there = [pod for row in table.rows(nodes) for pod in table.pods[row].values()]
            if nodes and self._fits_without(entity, row_mask, there):
                return nodes
        return frozenset()

    # --- inside ----------------------------------------------------------------------------

    def _needed(self, entity: QueuedEntity) -> list[NeededClass]:
        group = entity.gang_group
        gang_of = group.gangs_by_uid()
        placed = group.count_by_bundle(m.uid for m in self._holds.members_of(entity))
        classes: dict[Hashable, list[QueuedPod]] = {}
        for member in placement_order(entity.ready(), group):
            gang = gang_of[member.uid]
            bundle = gang.memberships[member.uid].bundle
            if gang.advances_minimum(bundle, placed[gang.name]):
                placed[gang.name][bundle] += 1
                classes.setdefault(member.equivalence_key, []).append(member)
        return [
            (self._cycle.evaluate(m[0].profile, m[0].pod, m[0].signature), m[0], len(m))
            for m in classes.values()
        ]

    def _fits_without(
        self, entity: QueuedEntity, row_mask: RowMask | None, pods: Iterable[PodInfo]
    ) -> bool:
        """Whether the group would be complete if these pods were gone, its own apart."""
        own = {uid for gang in entity.gang_group.gangs for uid in gang.memberships}
        others = [pod for pod in pods if pod.uid not in own and pod.uid not in self._nominator]
        gang_cycle = self._gang_cycle
        with gang_cycle.dry_run(entity), self._cluster.simulate_without(others):
            result = gang_cycle.place_group(entity, row_mask, surplus=False, effort=SearchEffort())
            gang_cycle.unreserve_all(result)
        return result.complete


def _demand(cluster: Cluster, evaluation: Evaluation, member: QueuedPod, count: int) -> Demand:
    vector = member.pod.request_vector(cluster.table.resource_column)
    return Demand(*vector, count, evaluation.fits_when_empty)
