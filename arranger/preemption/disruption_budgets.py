"""Which victims a PodDisruptionBudget protects."""

from __future__ import annotations

from collections.abc import Sequence

from arranger.cluster.disruption_budgets import DisruptionBudgets
from arranger.cluster.pod_info import PodInfo


class DisruptionBudgetCounter:
    """How many more pods each budget lets go, counted down as victims are chosen."""

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self._budgets = budgets
        #: By the key of a budget that has covered a pod.
        self._disruptions_left: dict[str, int] = {}

    def count_eviction(self, pod: PodInfo) -> bool:
        """The pod would go; whether that breaks a budget.

        A pod that a budget has counted already costs nothing there. One that more budgets may cover
        than are asked counts as protected, unlike in kube-scheduler, which asks all.
        """
        meta = pod.pod.metadata
        covering = self._budgets.covering(pod.pod) if meta.labels else ()
        if covering is None:
            return True
        violated = False
        for budget in covering:
            if meta.name in budget.status.disrupted_pods:
                continue
            left = self._disruptions_left.get(budget.key, budget.status.disruptions_allowed) - 1
            self._disruptions_left[budget.key] = left
            violated |= left < 0
        return violated


def split_by_pdb_violation(
    pods: Sequence[PodInfo], budgets: DisruptionBudgets
) -> tuple[list[PodInfo], list[PodInfo]]:
    """(protected, free) of the pods, in their order (``filterPodsWithPDBViolation``)."""
    counter = DisruptionBudgetCounter(budgets)
    violating: list[PodInfo] = []
    non_violating: list[PodInfo] = []
    for pod in pods:
        (violating if counter.count_eviction(pod) else non_violating).append(pod)
    return violating, non_violating
