"""Whom time protects from eviction: who has run too briefly, and who comes back from one.

As KAI's ``reclaimMinRuntime`` and ``preemptMinRuntime``; the cool-down keeps what was evicted, and
started again, from going round in circles.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

from arranger.cluster.pod_info import PodInfo

#: In place of a time, for who is not protected.
UNPROTECTED: Final = float("-inf")


class Sparing:
    """Says until when pods are protected, and tells when one is no more that somebody wanted.

    All times are in seconds, and all moments in seconds since 1970.

    Args:
        reclaim: a pod is not evicted for one of another queue before it has run so long.
        preempt: nor for one of its own queue before it has run so long.
        cool_down: what comes back after an eviction is not evicted again within so long of it.
        clock: the present moment.
        family: what a pod's successors have in common with it: its gang or its controller.
        bound: whether a pod of which no node is known yet is being bound.
    """

    def __init__(
        self,
        *,
        reclaim: float,
        preempt: float,
        cool_down: float,
        clock: Callable[[], float],
        family: Callable[[PodInfo], str],
        bound: Callable[[PodInfo], bool] = lambda pod: False,  # noqa: ARG005
    ) -> None:
        self._reclaim = reclaim
        self._preempt = preempt
        self._cool_down = cool_down
        self._clock = clock
        self._family = family
        self._bound = bound
        #: Whether anybody is ever protected.
        self.active = max(reclaim, preempt, cool_down) > 0
        #: Family → when one of it was evicted last, in that order.
        self._evicted: dict[str, float] = {}
        #: (when, uid) of protected pods that somebody wanted to evict.
        self._ends: list[tuple[float, str]] = []
        self._wanted: set[tuple[float, str]] = set()

    @property
    def now(self) -> float:
        """The present moment."""
        return self._clock()

    def until(self, victim: PodInfo, *, inside: bool) -> float:
        """Until when a pod is protected; a moment that is past, or ``UNPROTECTED``, if it is not.

        ``inside`` says that the taker is of the pod's own queue. Who has no node yet loses nothing
        by an eviction and is not protected.
        """
        binding = not victim.pod.spec.node_name
        if binding and not self._bound(victim):
            return UNPROTECTED
        meta, ends = victim.pod.metadata, UNPROTECTED
        least = self._preempt if inside else self._reclaim
        started = self.now if binding else _started(victim)
        if least and started is not None:
            ends = started + least
        if self._cool_down and meta.creation_timestamp is not None:
            evicted = self._evicted.get(self._family(victim), UNPROTECTED)
            # Moments of the API are whole seconds.
            if meta.creation_timestamp.timestamp() >= evicted // 1:
                ends = max(ends, evicted + self._cool_down)
        return ends

    def spares(self, victim: PodInfo, *, inside: bool) -> bool:
        """Whether a pod is protected, which whoever asks wants to know the end of."""
        ends = self.until(victim, inside=inside)
        if ends <= self.now:
            return False
        if (end := (ends, victim.uid)) not in self._wanted:
            self._wanted.add(end)
            heapq.heappush(self._ends, end)
        return True

    def evicted(self, victim: PodInfo) -> None:
        """A pod is being evicted."""
        if not self._cool_down:
            return
        now, family = self.now, self._family(victim)
        self._evicted.pop(family, None)
        self._evicted[family] = now
        while (oldest := next(iter(self._evicted))) and self._evicted[
            oldest
        ] + self._cool_down < now:
            del self._evicted[oldest]

    def over(self) -> list[str]:
        """The uids of pods that are protected no more, and that somebody wanted to evict."""
        found = []
        while self._ends and self._ends[0][0] <= self.now:
            end = heapq.heappop(self._ends)
            self._wanted.remove(end)
            found.append(end[1])
        return found

    def next_end(self) -> float | None:
        """When :meth:`over` will have something to tell."""
        return self._ends[0][0] if self._ends else None


def _started(pod: PodInfo) -> float | None:
    """When a pod started, or else when it was bound, or at least made."""
    status, at = pod.pod.status, pod.pod.metadata.creation_timestamp
    bound = (c.last_transition_time for c in status.conditions if c.type == "PodScheduled")
    at = status.start_time or next(bound, None) or at
    return None if at is None else at.timestamp()
