"""Which taints a pod tolerates. Upstream: ``k8s.io/component-helpers/scheduling/corev1``."""

from __future__ import annotations

from collections.abc import Iterable

from arranger.api.types.core import Toleration

TaintKey = tuple[str, str, str]  # key, value, effect


def tolerates(toleration: Toleration, taint: TaintKey) -> bool:
    """Whether one toleration covers one taint."""
    key, value, effect = taint
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == value


def tolerated(tolerations: Iterable[Toleration], taint: TaintKey) -> bool:
    """Whether any toleration covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)
