"""Which victims a PodDisruptionBudget protects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from arranger.api.selectors import Selector
from arranger.api.types.core import LabelSelector
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.cluster.pod_info import PodInfo

_encode = msgspec.json.Encoder().encode


class Allowance:
    """How many more pods each budget lets go, counted down as victims are chosen."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._of_namespace: dict[str, list[PodDisruptionBudget]] = {}
        self._left: dict[str, int] = {}
        for budget in budgets:
            self._of_namespace.setdefault(budget.metadata.namespace, []).append(budget)
            self._left[budget.key] = budget.status.disruptions_allowed

    def take(self, pod: PodInfo) -> bool:
        """The pod would go; whether that breaks a budget.

        A budget without a selector covers nothing, and a pod it has counted already costs nothing.
        """
        broken = False
        meta = pod.pod.metadata
        for budget in self._of_namespace.get(meta.namespace, ()) if meta.labels else ():
            if meta.name in budget.status.disrupted_pods or not _covers(budget, meta.labels):
                continue
            self._left[budget.key] -= 1
            broken |= self._left[budget.key] < 0
        return broken


def split(
    pods: Sequence[PodInfo], budgets: Iterable[PodDisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """(protected, free) of the pods, in their order (``filterPodsWithPDBViolation``)."""
    allowance = Allowance(budgets)
    protected: list[PodInfo] = []
    free: list[PodInfo] = []
    for pod in pods:
        (protected if allowance.take(pod) else free).append(pod)
    return protected, free


def _covers(budget: PodDisruptionBudget, labels: dict[str, str]) -> bool:
    selector = budget.spec.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return False
    return _compiled(_encode(selector)).matches(labels)


@lru_cache(maxsize=1024)
def _compiled(encoded: bytes) -> Selector:
    return Selector(msgspec.json.decode(encoded, type=LabelSelector))
