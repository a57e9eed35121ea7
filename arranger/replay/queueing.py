"""The second experiment: pods come, run as long as they did in the trace, and end.

Deciding takes no time here, so a pod waits for free resources and for the ends of its back-offs.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arranger.replay.policies import Policy
from arranger.replay.simulator import TraceSimulator
from arranger.replay.trace import TraceNode, TracePod


@dataclass(frozen=True, slots=True)
class QueueingResult:
    """Seconds from arrival to binding, one for each pod that was bound, and how many never were."""

    waits: tuple[float, ...]
    unplaced: int

    @property
    def waited(self) -> int:
        """How many were not bound at once."""
        return sum(wait > 0 for wait in self.waits)

    @property
    def mean(self) -> float:
        """The mean wait; 0 if no pod was bound."""
        return sum(self.waits) / max(len(self.waits), 1)

    def percentile(self, percent: float) -> float:
        """The least wait that so many per cent of the pods did not exceed; 0 if none was bound."""
        if not self.waits:
            return 0.0
        return float(np.percentile(self.waits, percent, method="inverted_cdf"))


def run_queueing(
    nodes: Sequence[TraceNode], pods: Sequence[TracePod], policy: Policy, *, speedup: float
) -> QueueingResult:
    """Let the pods come ``speedup`` times as fast as their arrivals say, and run their time.

    Those that still wait when nothing can happen any more are unplaced.
    """
    simulator = TraceSimulator(nodes, policy)
    #: (when, number of the pod, whether it ends then)
    events = [(pod.arrival / speedup, n, False) for n, pod in enumerate(pods)]
    heapq.heapify(events)
    number = {pod.name: n for n, pod in enumerate(pods)}
    waits: list[float] = []
    while (now := _next_event(events, simulator)) is not None:
        while events and events[0][0] <= now:
            _, n, ends = heapq.heappop(events)
            if ends:
                simulator.delete_pod(pods[n], now)
            else:
                simulator.create_pod(pods[n], now)
        for pod, _ in simulator.run_scheduler(now):
            waits.append(now - pod.arrival / speedup)
            if pod.duration is not None:
                heapq.heappush(events, (now + pod.duration, number[pod.name], True))
    return QueueingResult(tuple(waits), len(pods) - len(waits))


def _next_event(
    events: Sequence[tuple[float, int, bool]], simulator: TraceSimulator
) -> float | None:
    """When something happens next: an event, or the end of a back-off."""
    back_off = simulator.next_timer()
    times = [events[0][0]] if events else []
    return min(times if back_off is None else [*times, back_off], default=None)
