"""PodDisruptionBudgets, with the fields that preemption reads."""

from __future__ import annotations

from typing import Any

import msgspec

from arranger.api.types.core import LabelSelector, NamespacedObject, Struct


class PodDisruptionBudgetSpec(Struct):
    """``spec``: which pods it covers."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct):
    """``status``: how many pods may be evicted, and which are being evicted."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(NamespacedObject):
    """A PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)
