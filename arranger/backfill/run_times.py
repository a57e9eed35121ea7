"""When a pod that runs will have ended: known from its limit, or estimated from others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from arranger.api.run_time import run_time_limit
from arranger.api.types.core import Pod
from arranger.backfill.history import HistoryKey, RunTimeHistory
from arranger.cluster.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class RunTime:
    """The time of a pod on its node, in seconds since 1970.

    Attributes:
        end: infinite where nothing tells of it.
        known: whether ``end`` follows from a limit that is enforced, and not from other pods.
        kind: by which its end is estimated once the history tells of it, None otherwise.
    """

    start: float
    end: float
    known: bool
    kind: HistoryKey | None = None


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Says when pods end.

    Args:
        history: run times of those that have ended.
        limit_of: for how many seconds a pod may run once it has started.
    """

    history: RunTimeHistory
    limit_of: Callable[[Pod], float | None] = run_time_limit

    def of(self, pod: PodInfo, seen: float) -> RunTime:
        """The time of a pod that was first seen on its node at ``seen``.

        A limit counts from ``status.startTime``. Until a kubelet has written that, the end is an
        estimate.
        """
        started = pod.pod.status.start_time
        start = seen if started is None else started.timestamp()
        limit = self.limit_of(pod.pod)
        if limit is not None:
            return RunTime(start, start + limit, known=started is not None)
        kind = self.history.key_of(pod)
        lasts = self.history.estimate(kind)
        if lasts is None:
            return RunTime(start, math.inf, known=False, kind=kind)
        return RunTime(start, start + lasts, known=False)

    def end_if_started(self, pod: PodInfo, now: float) -> float:
        """When a pod will have ended that starts now; infinite without a limit."""
        limit = self.limit_of(pod.pod)
        return math.inf if limit is None else now + limit
