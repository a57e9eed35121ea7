"""Taints that keep pods away, as opposed to PreferNoSchedule, which only costs points.

Upstream: ``helper.DoNotScheduleTaintsFilterFunc``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from arranger.api.selectors import untolerated_taints
from arranger.api.types.core import Taint, Toleration

_HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")


def tolerates_hard_taints(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Whether no taint keeps a pod with these tolerations away."""
    return not untolerated_taints(taints, tolerations, _HARD_EFFECTS)
