"""Charges placed pods anew of which something else is said, some in each run of the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.queue.cluster_events import quota_change
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.quota.ledger import QuotaLedger

#: Pods that are charged anew in one run, some 13 ms: one edit may doubt all pods of a large job.
CHARGED_AT_ONCE: Final = 256
#: Runs after which pods that wait are tried again, if there is more to charge anew all the time.
MOST_RUNS: Final = 16


@dataclass(slots=True, eq=False)
class Recharging:
    """Keeps what the ledger says current, and wakes who may fit by that."""

    _context: EngineContext
    _ledger: QuotaLedger
    _queue: SchedulingQueue
    #: Runs since charges have changed of which nobody was woken.
    _runs: int = field(default=0, init=False)

    @property
    def ready(self) -> bool:
        """Whether there is more to charge anew."""
        return self._ledger.placed.has_doubted

    def advance(self, now: float) -> None:
        """Charge some pods anew."""
        changed = self._ledger.refresh(self._context.cluster, most=CHARGED_AT_ONCE)
        for uid, queue, why in self._ledger.kept.take_untold():
            if (pod := self._context.cluster.pod(uid)) is not None:
                self._context.outbox.append(pod_events.stays_in_queue(pod.pod, queue, why))
        if changed or self._runs:
            self._runs += 1
        if self._runs and (not self.ready or self._runs >= MOST_RUNS):
            # Who may evict those on nodes, and which queue they count towards, is another now.
            self._queue.wake(quota_change("Owner"), now)
            self._runs = 0
