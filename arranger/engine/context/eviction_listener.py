"""What those who evict pods tell the rest of the engine."""

from __future__ import annotations

from typing import Protocol

from arranger.cluster.pod_info import PodInfo


class EvictionListener(Protocol):
    """Follows evictions."""

    def on_evicted(self, victim: PodInfo) -> None:
        """A pod has to leave."""

    def on_eviction_failed(self, uid: str) -> None:
        """A pod could not be made to leave."""
