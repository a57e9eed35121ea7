"""The second of kube-scheduler's two filter passes: where a pod fits even without nominees.

Pods that were promised a node count as if they ran there. That keeps their room for them, but a pod
with an affinity must not be placed beside one that may never come.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray
from arranger.engine.queue.nominator import Nominations
from arranger.engine.queued_pod import Member
from arranger.framework.diagnosis import Rejected
from arranger.framework.filter_result import Rejection
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.status import Code, Status

#: The plugins for which a pod more on a node is never in another's favour.
MORE_IS_LESS: Final = frozenset(
    {"NodeResourcesFit", "CapacityCard", "NodePorts", "NodeVolumeLimits", "VolumeRestrictions"}
)


def second_pass(
    cluster: Cluster, nominations: Nominations, member: Member, evaluation: Evaluation
) -> tuple[BoolArray, Rejected] | None:
    """(row → whether it would do without the promised pods, why the others would not).

    None where all rows that are feasible with them would do. Upstream adds on each node the
    nominees of that node only; here all of them count, so that what is promised anywhere is kept.
    """
    if not nominations or evaluation.reads_pods <= MORE_IS_LESS or not evaluation.feasible.any():
        return None
    with cluster.without(nominations.counted()):
        alone = Evaluation(member.profile, cluster, member.pod, scoring=False)
        lost = np.flatnonzero(evaluation.feasible & ~alone.feasible)
        if not len(lost):
            return None
        why = alone.diagnosis()
    rejected = why.of_row(int(lost[0])) if why.refusal is None else None
    if rejected is None:
        refusal = why.refusal or Status(Code.UNSCHEDULABLE)
        rejected = Rejected(refusal.plugin, Rejection(refusal.reasons, refusal.code))
    return alone.feasible, rejected
