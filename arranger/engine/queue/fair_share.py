"""Turns between queues: by priority, then by share, then by who came first (seed 004).

Of queues that are parts of others, those compete whose siblings they are; so that a team does not
get more by having more queues (as Volcano's capacity plugin).
"""

from __future__ import annotations

from typing import Any

from arranger.cluster.pod_info import PodInfo
from arranger.engine.queue.heap import Lanes
from arranger.quota.ledger import QueueLedger


class QueueLanes(Lanes):
    """A lane for each queue; one for all where there are no queues."""

    def __init__(self, ledger: QueueLedger) -> None:
        self._ledger = ledger

    def of(self, pod: PodInfo) -> str:
        """The pod's queue."""
        return self._ledger.queue_name(pod) if self._ledger.active else ""

    def rank(self, lane: str) -> tuple[Any, ...]:
        """The more important queue first, then the one that has less of its due, by weight.

        What the largest queue that it is part of has counts before what a smaller one has.
        """
        chained = list(self._ledger.chain(lane))
        if not chained:
            return 0, ()
        total = self._ledger.total
        return -chained[0].priority, tuple(q.share(total) / q.weight for q in reversed(chained))
