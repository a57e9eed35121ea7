"""PrioritySort: the order of the queue."""

from __future__ import annotations

from arranger.framework.plugin import Queued
from arranger.framework.profile import SpecPlugin


class PrioritySort(SpecPlugin):
    """Higher priority first, then who was created first, then by name (seed 000).

    Creation has a resolution of a second, so the order of arrival decides before the name.
    """

    wake_on = ()

    def sort_key(self, queued: Queued) -> tuple[int, float, float, str]:
        """Smallest first."""
        return -queued.pod.priority, queued.created, queued.queued_at, queued.name
