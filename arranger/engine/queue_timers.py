"""What queues do when some time has passed: protections end, and claims that nobody takes up."""

from __future__ import annotations

from collections.abc import Callable

from arranger.engine import reports
from arranger.engine.desk import Desk
from arranger.framework.wakeup import ClusterEvent, EventKind
from arranger.queues.admission import Admission
from arranger.queues.sparing import Sparing


class QueueTimers:
    """Lets those know who wait for it.

    Args:
        complete: whether the pods of a PodGroup have come that its gang needs.
    """

    def __init__(
        self, desk: Desk, sparing: Sparing, admission: Admission, complete: Callable[[str], bool]
    ) -> None:
        self._desk = desk
        self._sparing = sparing
        self._admission = admission
        self._complete = complete

    def advance(self, now: float) -> None:
        """Do what is due."""
        cluster = self._desk.cluster
        for uid in self._sparing.over():
            pod, node = cluster.pod(uid), cluster.node_of(uid)
            if pod is not None and node is not None:
                self._desk.freed(pod, node, now)  # as good as: others may take its place now
        if self._admission.expire(now, self._complete):
            self.tell()
            self._desk.happened(ClusterEvent(EventKind.OTHER, resource="PodGroup"), now)

    def tell(self) -> None:
        """Have the owners of PodGroups told what there is to tell."""
        for word in self._admission.news():
            self._desk.outbox += reports.pod_group_told(word.group, word.reason, word.text)

    def next_timer(self) -> float | None:
        """When something will be due."""
        times = [self._admission.next_end()]
        if (ends := self._sparing.next_end()) is not None:
            now = self._desk.cycle.now
            times.append(ends - self._desk.calendar(now) + now)
        return min((due for due in times if due is not None), default=None)
