"""PrioritySort: the order of the queue."""

from __future__ import annotations

from arranger.cluster.pod_info import PodInfo
from arranger.framework.profile import SpecPlugin


class PrioritySort(SpecPlugin):
    """Higher priority first, then who came first."""

    wake_on = ()

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        """Smallest first."""
        return -pod.priority, queued_at
