"""Which victims a PodDisruptionBudget protects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from arranger.api.bounded_cache import bounded_cache
from arranger.api.parsing.objects import decode_object
from arranger.api.selectors import Selector
from arranger.api.types.core import LabelSelector
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.cluster.pod_info import PodInfo

_encode = msgspec.json.Encoder().encode


class DisruptionBudgetCounter:
    """How many more pods each budget lets go, counted down as victims are chosen."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        #: Key of a budget → the pods it covers, once somebody asks; None for none.
        self._selectors: dict[str, Selector | None] = {}
        self._disruptions_left: dict[str, int] = {}
        for budget in budgets:
            self._by_namespace.setdefault(budget.metadata.namespace, []).append(budget)
            self._disruptions_left[budget.key] = budget.status.disruptions_allowed

    def count_eviction(self, pod: PodInfo) -> bool:
        """The pod would go; whether that breaks a budget.

        A budget without a selector covers nothing, and a pod it has counted already costs nothing.
        """
        violated = False
        meta = pod.pod.metadata
        for budget in self._by_namespace.get(meta.namespace, ()) if meta.labels else ():
            selector = self._selector_of(budget)
            disrupted = meta.name in budget.status.disrupted_pods
            if disrupted or selector is None or not selector.matches(meta.labels):
                continue
            self._disruptions_left[budget.key] -= 1
            violated |= self._disruptions_left[budget.key] < 0
        return violated

    def _selector_of(self, budget: PodDisruptionBudget) -> Selector | None:
        if budget.key not in self._selectors:
            self._selectors[budget.key] = _selector_of(budget)
        return self._selectors[budget.key]


def split_by_pdb_violation(
    pods: Sequence[PodInfo], budgets: Iterable[PodDisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """(protected, free) of the pods, in their order (``filterPodsWithPDBViolation``)."""
    counter = DisruptionBudgetCounter(budgets)
    violating: list[PodInfo] = []
    non_violating: list[PodInfo] = []
    for pod in pods:
        (violating if counter.count_eviction(pod) else non_violating).append(pod)
    return violating, non_violating


def _selector_of(budget: PodDisruptionBudget) -> Selector | None:
    selector = budget.spec.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return None
    return _compiled(_encode(selector))


@bounded_cache(1024)
def _compiled(encoded: bytes) -> Selector:
    return Selector(decode_object(encoded, LabelSelector))
