"""The order between quota queues: by priority, then by share, then by who came first.

Of queues that are parts of others, those compete whose siblings they are; so that a team does not
get more by having more queues (as Volcano's capacity plugin).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from arranger.cluster.pod_info import PodInfo
from arranger.quota.decayed_usage import DecayedUsage
from arranger.quota.ledger import QuotaLedger


@dataclass(slots=True, eq=False)
class FairShareOrder:
    """Gives each quota queue its turns; without queues all pods are of one."""

    _ledger: QuotaLedger
    _usage: DecayedUsage | None = None

    def queue_of(self, pod: PodInfo) -> str:
        """The quota queue of a pod."""
        return self._ledger.queue_name(pod) if self._ledger.active else ""

    def queue_rank(self, queue: str) -> tuple[Any, ...]:
        """The more important queue first, then the one that has less of its due, by weight.

        What the largest queue that it is part of has counts before what a smaller one has. Where
        use over time counts, what it has had lately counts as well.
        """
        ancestors = list(self._ledger.path_self_to_root(queue))
        if not ancestors:
            return 0, ()
        total, usage = self._ledger.card_column.resource_totals(), self._usage
        if usage is None:
            shares = (q.dominant_share(total) / q.weight for q in reversed(ancestors))
        else:
            had = usage.beside_present
            shares = (q.dominant_share(total, had(q.name)) / q.weight for q in reversed(ancestors))
        return -ancestors[0].priority, tuple(shares)
