"""What the pods of each queue use, and how many of its gangs wait, run or have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from arranger.controllers.queue.entries import BOUND, ENDED, WAITING, PodEntry, Usage


class QueueSums:
    """Sums over the pods of queues, those of their children not counted."""

    def __init__(self) -> None:
        self._usage: dict[str, Usage] = {}
        #: Queue → workload → state → pods.
        self._workloads: dict[str, dict[str, Counter[str]]] = {}

    def add(self, entry: PodEntry) -> None:
        """Count a pod in its queue."""
        self._usage.setdefault(entry.queue, Usage()).add(entry.usage)
        if entry.ours:
            workloads = self._workloads.setdefault(entry.queue, {})
            workloads.setdefault(entry.workload, Counter())[entry.state] += 1

    def remove(self, entry: PodEntry) -> None:
        """Count a pod in its queue no more."""
        self._usage[entry.queue].add(entry.usage, -1)
        if entry.ours:
            workloads = self._workloads[entry.queue]
            workloads[entry.workload][entry.state] -= 1
            if not workloads[entry.workload].total():
                del workloads[entry.workload]

    def usage_of(self, queue: str) -> Usage:
        """What the pods of a queue use."""
        return self._usage.get(queue, Usage())

    def phase_counts(self, queue: str, leave_out: Container[str]) -> Counter[str]:
        """Phase → workloads of a queue in it, by what their pods do."""
        phases = ((BOUND, "Running"), (WAITING, "Pending"), (ENDED, "Completed"))
        return Counter(
            next(phase for state, phase in phases if pods[state])
            for workload, pods in self._workloads.get(queue, {}).items()
            if workload not in leave_out
        )
