"""What the nodes say about one pod: counted, and the nearest of them, for any number of nodes.

Nodes that are kept for others at that moment, by a Reservation or for a gang, say so, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.excess_amounts import MAX_SUM
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.rejecters import KEPT_ROOM
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.explain.all_nodes import on_all_nodes
from arranger.explain.lack import Lack
from arranger.framework.diagnosis import Diagnosis, PluginRejection
from arranger.framework.status import Code

_FIT: Final = "NodeResourcesFit"
#: Attempts at one pod, each some 30 ms at most.
_MAX_ATTEMPTS: Final = 256


@dataclass(frozen=True, slots=True)
class Judgement:
    """One pod and all nodes, as if it came alone."""

    _cluster: Cluster
    _pod: PodInfo
    _diagnosis: Diagnosis
    _fits: BoolArray

    @classmethod
    def of(cls, cycle: SchedulingCycle, member: QueuedPod) -> Judgement:
        """Judge a pod as the scheduling cycle does, which has decided all else before.

        Raises:
            PluginFailureError: a plugin raised, or has come to no end in many attempts.
        """
        with cycle.hide_lower_nominees(member):
            find = partial(cycle.evaluate, member.profile, member.pod, member.signature)
            evaluation = on_all_nodes(cycle.cluster.work, find, _MAX_ATTEMPTS)
            masks = cycle.row_masks(member, None, evaluation)
            diagnosis = cycle.diagnose(evaluation, masks, None)
            fits = evaluation.feasible.copy()
            if diagnosis.pre_filter_status is None:
                fits &= diagnosis.rejection_index < 0
        return cls(cycle.cluster, member.pod, diagnosis, fits)

    @property
    def feasible(self) -> list[str]:
        """The nodes that it fits."""
        return self._names(np.flatnonzero(self._fits))

    def reasons(self) -> list[tuple[str, int]]:
        """(reason, nodes), most frequent first; the counts add up to the number of nodes."""
        diagnosis = self._diagnosis
        if (refusal := diagnosis.pre_filter_status) is not None:
            return [(f"{', '.join(sorted(refusal.reasons))} ({refusal.plugin})", diagnosis.nodes)]
        index = diagnosis.rejection_index
        times = np.bincount(index[index >= 0], minlength=len(diagnosis.rejections)).tolist()
        counts: Counter[str] = Counter()
        for kind, nodes in zip(diagnosis.rejections, times, strict=True):
            if nodes:
                counts[f"{', '.join(sorted(kind.rejection.reasons))} ({kind.plugin})"] += nodes
        fitting = int(np.count_nonzero(self._fits))
        told = [("fit", fitting)] if fitting else []
        return [*told, *sorted(counts.items(), key=lambda item: (-item[1], item[0]))]

    def rejected_by(self, plugin: str) -> list[str]:
        """The nodes that a plugin rejects, and that are not kept for others besides, by name."""
        return self._names(self._rows(lambda each: each.plugin == plugin))

    def kept_in_part(self) -> list[str]:
        """The nodes of which too little is left beside what is kept for others, by name."""
        diagnosis = self._diagnosis
        numbers = [n for n, each in enumerate(diagnosis.rejections) if each.plugin == KEPT_ROOM]
        return self._names(np.flatnonzero(np.isin(diagnosis.rejection_index, numbers)))

    def resolvable(self) -> list[str]:
        """The nodes where it would help if pods left, by name."""
        if self._diagnosis.pre_filter_status is not None:
            return []
        return self._names(self._rows(lambda each: each.rejection.code is Code.UNSCHEDULABLE))

    def nearest(self, count: int) -> list[Lack]:
        """What nodes lack that were rejected for want of resources: the first, nearest first."""
        rows = self._rows(lambda each: each.plugin == _FIT)
        table, pod = self._cluster.table, self._pod
        share, none = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)
        for name, amount in {**pod.requests, "pods": 1}.items():
            column = table.resource_column(name)
            offered: IntArray = table.allocatable[column][rows]
            free = np.where(offered > 0, offered - table.requested[column][rows], 0)
            short = min(amount, MAX_SUM) - free
            none += (short > 0) & (offered <= 0) & ("/" in name)
            share = np.maximum(share, np.where(short > 0, short / max(amount, 1), 0.0))
        nearest = rows[np.lexsort((share, none))[: 2 * count]]
        lacks = [Lack.of(table, table.name(row), pod) for row in nearest.tolist()]
        return sorted(lacks, key=lambda lack: (*lack.rank(), lack.node))[:count]

    # --- inside ----------------------------------------------------------------------------

    def _rows(self, is_meant: Callable[[PluginRejection], bool]) -> IntArray:
        """The rows with such a rejection, of those that are not kept for others besides."""
        diagnosis = self._diagnosis
        kinds = [n for n, each in enumerate(diagnosis.rejections) if is_meant(each)]
        rows: IntArray = np.flatnonzero(np.isin(diagnosis.rejection_index, kinds))
        return rows if diagnosis.within is None else rows[diagnosis.within[rows]]

    def _names(self, rows: IntArray) -> list[str]:
        return sorted(self._cluster.table.name(row) for row in rows.tolist())
