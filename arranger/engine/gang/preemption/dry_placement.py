"""Whether a gang group would fit if certain pods had left: placed in memory, and taken back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.group_attempt import GangScheduleResult
from arranger.engine.gang.placement.boards import SearchEffort
from arranger.engine.gang.scheduling_cycle import GangSchedulingCycle
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy
from arranger.framework.runtime.dry_run import DryRun

#: Where each member would go.
Destinations = tuple[tuple[QueuedPod, str], ...]


@dataclass(frozen=True, slots=True)
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

    def fits_without(self, victims: Iterable[PodInfo]) -> bool:
        """Whether the group would fit if these left."""
        return self.without(victims) is not None

    def without(self, victims: Iterable[PodInfo]) -> Destinations | None:
        """Where the members would go if these left; None if the group would not fit."""
        with self._cluster.simulate_without(victims):
            result = self._place()
            destinations = tuple((member, member.node) for member, _ in result.placed)
            self._cycle.unreserve_all(result)
        return destinations if result.complete else None

    def fewest_victims(self, candidates: Sequence[PodInfo]) -> int:
        """How many of the candidates have to leave at least, by the sum of what is free."""
        table, size = self._cluster.table, self._cluster.table.size
        rows = table.alive[:size] if self._row_mask is None else self._row_mask.rows
        with self._cluster.simulate_without(self._nominator.visible_pods()):
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

    def needed(self, victims: Sequence[PodInfo]) -> list[PodInfo] | None:
        """Those of the victims who must leave where the members would go if all left.

        The first are spared first. The members stay where they are, so that each victim costs a
        look at its node only. None if the group would not fit.
        """
        node_of = {pod.uid: str(self._cluster.node_of(pod.uid)) for pod in victims}
        with self._cluster.simulate_without(victims):
            result = self._place()
            placed_on: dict[str, list[QueuedPod]] = {}
            for member, _ in result.placed:
                placed_on.setdefault(member.node, []).append(member)
            classes = _one_per_class(member for member, _ in result.placed)

            def is_needed(pod: PodInfo) -> bool:
                node = node_of[pod.uid]
                self._cluster.simulate_add_pod(pod, node)
                if self._still_fit(node, placed_on.get(node, ())) and self._within_quotas(classes):
                    return False
                self._cluster.simulate_remove_pod(pod)
                return True

            needed = list(filter(is_needed, victims)) if result.complete else None
            self._cycle.unreserve_all(result)
        return needed

    def _place(self) -> GangScheduleResult:
        return self._cycle.place_group(
            self._entity, self._row_mask, surplus=False, effort=self._effort
        )

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
