"""What the nodes say about one pod: counted, and the nearest of them, for any number of nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import IntArray
from arranger.cluster.excess_amounts import MAX_SUM
from arranger.cluster.pod_info import PodInfo
from arranger.explain.lack import Lack
from arranger.framework.diagnosis import Diagnosis, PluginRejection
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import Code

_FIT: Final = "NodeResourcesFit"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One pod and all nodes, as if it came alone."""

    _cluster: Cluster
    _pod: PodInfo
    _evaluation: Evaluation
    _diagnosis: Diagnosis

    @classmethod
    def of(cls, cluster: Cluster, pod: PodInfo, profile: Profile) -> Judgement:
        """Judge a pod."""
        evaluation = Evaluation(profile, cluster, pod, scoring=False)
        return cls(cluster, pod, evaluation, evaluation.diagnosis())

    @property
    def feasible(self) -> list[str]:
        """The nodes that it fits."""
        if self._diagnosis.pre_filter_status is not None:
            return []
        return self._names(np.flatnonzero(self._evaluation.feasible))

    def reasons(self) -> list[tuple[str, int]]:
        """(reason, nodes), most frequent first; the counts add up to the number of nodes."""
        diagnosis = self._diagnosis
        if (refusal := diagnosis.pre_filter_status) is not None:
            return [(f"{', '.join(sorted(refusal.reasons))} ({refusal.plugin})", diagnosis.nodes)]
        index = diagnosis.rejection_index
        times = np.bincount(index[index >= 0], minlength=len(diagnosis.rejections)).tolist()
        counts: Counter[str] = Counter()
        for kind, count in zip(diagnosis.rejections, times, strict=True):
            if count:
                counts[f"{', '.join(sorted(kind.rejection.reasons))} ({kind.plugin})"] += count
        fitting = int(np.count_nonzero(self._evaluation.feasible))
        told = [("fit", fitting)] if fitting else []
        return [*told, *sorted(counts.items(), key=lambda item: (-item[1], item[0]))]

    def rejected_by(self, plugin: str) -> list[str]:
        """The nodes that a plugin rejects, by name."""
        kinds = [n for n, kind in enumerate(self._rejections) if kind.plugin == plugin]
        return self._names(self._rows(kinds))

    def resolvable(self) -> list[str]:
        """The nodes where it would help if pods left, by name."""
        if self._diagnosis.pre_filter_status is not None:
            return []
        code = Code.UNSCHEDULABLE
        kinds = [n for n, kind in enumerate(self._rejections) if kind.rejection.code is code]
        return self._names(self._rows(kinds))

    def nearest(self, count: int) -> list[Lack]:
        """What nodes lack that were rejected for want of resources: the first, nearest first."""
        kinds = [n for n, kind in enumerate(self._rejections) if kind.plugin == _FIT]
        rows = self._rows(kinds)
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

    @property
    def _rejections(self) -> list[PluginRejection]:
        return self._diagnosis.rejections

    def _rows(self, kinds: list[int]) -> IntArray:
        rows: IntArray = np.flatnonzero(np.isin(self._diagnosis.rejection_index, kinds))
        return rows

    def _names(self, rows: IntArray) -> list[str]:
        return sorted(self._cluster.table.name(row) for row in rows.tolist())
