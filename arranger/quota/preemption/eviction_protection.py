"""Protection from eviction by time: after a pod's start, and after an eviction of its workload.

As KAI's ``reclaimMinRuntime`` and ``preemptMinRuntime``; the cool-down keeps what was evicted, and
started again, from being evicted again and again.
"""

from __future__ import annotations

import heapq
from typing import Protocol

from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import UNPROTECTED


class PodsInFlight(Protocol):
    """What the scheduler knows of pods before their objects say it."""

    @property
    def unix_now(self) -> float:
        """The present moment, in seconds since 1970."""
        ...

    def is_being_bound(self, uid: str) -> bool:
        """Whether the Binding of a pod is on its way."""
        ...


class EvictionProtection:
    """Says until when pods are protected, and when a protection ends that kept a pod from eviction.

    All times are in seconds, and all moments in seconds since 1970.

    Args:
        pods: knows which pods are being bound, and the time.
        reclaim_min_runtime: for a pod of another queue no pod is evicted before it ran so long.
        preempt_min_runtime: the same for a pod of its own queue.
        cool_down: what comes back after an eviction is not evicted again within so long of it.
    """

    def __init__(
        self,
        pods: PodsInFlight,
        *,
        reclaim_min_runtime: float,
        preempt_min_runtime: float,
        cool_down: float,
    ) -> None:
        self._reclaim_min_runtime = reclaim_min_runtime
        self._preempt_min_runtime = preempt_min_runtime
        self._cool_down = cool_down
        self._pods = pods
        #: Whether any pod is ever protected.
        self.active = max(reclaim_min_runtime, preempt_min_runtime, cool_down) > 0
        #: Workload → when a pod of it was evicted last, in that order.
        self._last_eviction: dict[str, float] = {}
        #: (when, uid) of protected pods that would have been evicted otherwise.
        self._expiries: list[tuple[float, str]] = []
        self._watched: set[tuple[float, str]] = set()

    @property
    def now(self) -> float:
        """The present moment."""
        return self._pods.unix_now

    def protected_until(self, victim: PodInfo, *, same_queue: bool) -> float:
        """Until when a pod is protected; a moment that is past, or ``UNPROTECTED``, if it is not.

        ``same_queue`` says that the preemptor is of the pod's own queue. A pod without a node loses
        nothing by an eviction and is not protected.
        """
        binding = not victim.pod.spec.node_name
        if binding and not self._pods.is_being_bound(victim.uid):
            return UNPROTECTED
        meta, ends = victim.pod.metadata, UNPROTECTED
        min_runtime = self._preempt_min_runtime if same_queue else self._reclaim_min_runtime
        started = self.now if binding else _start_time(victim)
        if min_runtime and started is not None:
            ends = started + min_runtime
        if self._cool_down and meta.creation_timestamp is not None:
            evicted = self._last_eviction.get(_workload(victim), UNPROTECTED)
            # Moments of the API are whole seconds.
            if meta.creation_timestamp.timestamp() >= evicted // 1:
                ends = max(ends, evicted + self._cool_down)
        return ends

    def is_protected(self, victim: PodInfo, *, same_queue: bool) -> bool:
        """Whether a pod is protected now; if so, :meth:`take_expired` will report the end."""
        ends = self.protected_until(victim, same_queue=same_queue)
        if ends <= self.now:
            return False
        if (end := (ends, victim.uid)) not in self._watched:
            self._watched.add(end)
            heapq.heappush(self._expiries, end)
        return True

    def record_eviction(self, victim: PodInfo) -> None:
        """A pod is being evicted."""
        if not self._cool_down:
            return
        now, workload = self.now, _workload(victim)
        self._last_eviction.pop(workload, None)
        self._last_eviction[workload] = now
        while (oldest := next(iter(self._last_eviction))) and self._last_eviction[
            oldest
        ] + self._cool_down < now:
            del self._last_eviction[oldest]

    def take_expired(self) -> list[str]:
        """The uids of pods that are protected no more, and that somebody wanted to evict."""
        found = []
        while self._expiries and self._expiries[0][0] <= self.now:
            end = heapq.heappop(self._expiries)
            self._watched.remove(end)
            found.append(end[1])
        return found

    def next_expiry(self) -> float | None:
        """When :meth:`take_expired` will have something to give."""
        return self._expiries[0][0] if self._expiries else None


def _workload(pod: PodInfo) -> str:
    """What a pod and those that come in its place have in common."""
    return pod.workload or pod.key


def _start_time(pod: PodInfo) -> float | None:
    """When a pod started, or else when it was bound, or at least made."""
    status, at = pod.pod.status, pod.pod.metadata.creation_timestamp
    bound = (c.last_transition_time for c in status.conditions if c.type == "PodScheduled")
    at = status.start_time or next(bound, None) or at
    return None if at is None else at.timestamp()
