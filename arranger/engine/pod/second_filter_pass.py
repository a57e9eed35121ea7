"""The second of kube-scheduler's two filter passes: where a pod fits even without nominees.

Nominated pods count as if they ran on their nodes, which keeps others off. But a pod with an
affinity must not be placed beside one that may never come.
"""

from __future__ import annotations

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray
from arranger.engine.context.entity import QueuedPod
from arranger.engine.queue.nominator import Nominator
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.status import Code, Status


def filter_without_nominees(
    cluster: Cluster, nominator: Nominator, member: QueuedPod, evaluation: Evaluation
) -> tuple[BoolArray, PluginRejection] | None:
    """(row → whether it is feasible without the nominated pods, why the others are not).

    None where all rows that are feasible with them are so without. Upstream adds on each node the
    nominees of that node only; here all of them count.
    """
    if not nominator or not evaluation.filters_about_others or not evaluation.feasible.any():
        return None
    with cluster.simulate_without(nominator.visible_pods()):
        without_nominees = Evaluation(member.profile, cluster, member.pod, scoring=False)
        lost = np.flatnonzero(evaluation.feasible & ~without_nominees.feasible)
        if not len(lost):
            return None
        diagnosis = without_nominees.diagnosis()
    rejected = (
        diagnosis.first_rejection(int(lost[0])) if diagnosis.pre_filter_status is None else None
    )
    if rejected is None:
        refusal = diagnosis.pre_filter_status or Status(Code.UNSCHEDULABLE)
        rejected = PluginRejection(refusal.plugin, Rejection(refusal.reasons, refusal.code))
    return without_nominees.feasible, rejected
