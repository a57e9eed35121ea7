"""When a pod that runs will have ended: known from its limit, or estimated from others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from arranger.backfill.history import HistoryKey, RunTimeHistory
from arranger.cluster.pod_info import PodInfo


class Basis(IntEnum):
    """What tells when a pod ends, the surest last."""

    ESTIMATE = 0  # how long others have run, or nothing
    LIMIT = (
        1  # a limit, and when we saw it on its node: its status does not say yet when it started
    )
    KNOWN = 2  # a limit, and its start


@dataclass(frozen=True, slots=True)
class RunTime:
    """The time of a pod on its node, in seconds since 1970.

    Attributes:
        end: infinite where nothing tells of it.
        basis: what tells of the end.
        kind: by which its end is estimated once the history tells of it, None otherwise.
    """

    start: float
    end: float
    basis: Basis
    kind: HistoryKey | None = None


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Says when pods end.

    Args:
        history: run times of those that have ended.
        limit_of: for how many seconds a pod may run once it has started.
        limit_changes: how often the limits of pods have changed that were not edited.
    """

    history: RunTimeHistory
    limit_of: Callable[[PodInfo], float | None]
    limit_changes: Callable[[], int] = lambda: 0

    def of(self, pod: PodInfo, seen: float) -> RunTime:
        """The time of a pod that was first seen on its node at ``seen``.

        A limit counts from ``status.startTime``.
        """
        started = pod.pod.status.start_time
        start = seen if started is None else started.timestamp()
        limit = self.limit_of(pod)
        if limit is not None:
            basis = Basis.LIMIT if started is None else Basis.KNOWN
            return RunTime(start, start + limit, basis)
        kind = self.history.key_of(pod)
        lasts = self.history.estimate(kind)
        if lasts is None:
            return RunTime(start, math.inf, Basis.ESTIMATE, kind)
        return RunTime(start, start + lasts, Basis.ESTIMATE)

    def end_if_started(self, pod: PodInfo, now: float) -> float:
        """When a pod will have ended that starts now; infinite without a limit."""
        limit = self.limit_of(pod)
        return math.inf if limit is None else now + limit
