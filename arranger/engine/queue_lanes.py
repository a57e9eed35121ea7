"""Turns between queues: by priority, then by share, then by who came first (seed 004)."""

from __future__ import annotations

from typing import Any

from arranger.cluster.pod_info import PodInfo
from arranger.engine.queue_heap import Lanes
from arranger.queues.ledger import QueueLedger


class QueueLanes(Lanes):
    """A lane for each queue; one for all where there are no queues."""

    def __init__(self, ledger: QueueLedger) -> None:
        self._ledger = ledger

    def of(self, pod: PodInfo) -> str:
        """The pod's queue."""
        return self._ledger.queue_name(pod) if self._ledger.active else ""

    def rank(self, lane: str) -> tuple[Any, ...]:
        """The more important queue first, then the one that has less of its due, by weight."""
        state = self._ledger.queues.get(lane)
        if state is None:
            return 0, 0.0
        return -state.priority, state.share() / state.weight
