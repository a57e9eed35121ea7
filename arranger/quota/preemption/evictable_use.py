"""What placed pods use that others might take from them, kept current by the nodes that change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import EvictionPolicy

#: With time in play every pod is asked about: not sooner again than after so many seconds a pod,
#: a hundred times what that takes.
_SECONDS_A_POD: Final = 0.0002
#: Answers that are kept at most.
_MAX_TIMED: Final = 32


@dataclass(slots=True)
class _Kind:
    """Pods of one class of victims: one of them, how many there are, and what all of them use."""

    like: PodInfo
    pods: int = 0
    used: Counter[str] = field(default_factory=Counter)


#: Queue → resource → amount.
UseByQueue = dict[str, Counter[str]]


class EvictableUse:
    """Sums up by queue what those use whose place a pod might take.

    Pods are summed up by kind, so that a policy is asked about each kind once.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: EvictionPolicy,
        queue_of: Callable[[PodInfo], str],
    ) -> None:
        """``queue_of``: pods of one class of victims are in one queue."""
        self._cluster = cluster
        self._policy = policy
        self._queue_of = queue_of
        self._version: tuple[int, Hashable] = -1, None
        self._kinds: dict[Hashable, _Kind] = {}
        #: Row → kind → one of its pods there, how many there are, and what they use.
        self._rows: dict[int, dict[Hashable, _Kind]] = {}
        #: What was asked → until when what was found counts.
        self._timed: dict[Hashable, tuple[float, UseByQueue]] = {}

    def for_taker(self, taker: PodInfo, state: Hashable) -> UseByQueue:
        """What those use whose place a pod might take.

        ``state`` changes when pods may have become of other kinds.
        """
        if self._policy.time_protects:
            return self._for_taker_now(taker, state)
        self._refresh(state)
        found: UseByQueue = {}
        for kind in self._kinds.values():
            if self._policy.can_preempt(taker, kind.like):
                found.setdefault(self._queue_of(kind.like), Counter()).update(kind.used)
        return found

    def _for_taker_now(self, taker: PodInfo, state: Hashable) -> UseByQueue:
        policy = self._policy
        asked = state, taker.priority, policy.preemptor_class(taker), policy.preemptor_state(taker)
        due, found = self._timed.get(asked, (float("-inf"), {}))
        if policy.now < due:
            return found
        found, due = {}, policy.now + _SECONDS_A_POD * len(self._cluster)
        for pod, _ in self._cluster.placed_pods():
            if policy.can_preempt(taker, pod):
                found.setdefault(self._queue_of(pod), Counter()).update(pod.requests)
            elif (ends := policy.protected_until(taker, pod)) > policy.now:
                due = min(due, ends)  # its owner is tried again then
        if len(self._timed) >= _MAX_TIMED:
            self._timed.clear()
        self._timed[asked] = due, found
        return found

    def _refresh(self, state: Hashable) -> None:
        table = self._cluster.table
        if self._version == (table.version, state):
            return
        version, before = self._version
        changes = table.changed_since(version) if before == state and version >= 0 else None
        self._version = table.version, state
        if changes is None or len(changes) > table.size:
            self._kinds.clear()
            self._rows.clear()
            rows = set(range(table.size))
        else:
            rows = {row for _, row in changes}
        for row in rows:
            self._recount(row)

    def _recount(self, row: int) -> None:
        for key, gone in self._rows.pop(row, {}).items():
            kind = self._kinds[key]
            kind.pods -= gone.pods
            kind.used.subtract(gone.used)
            if not kind.pods:
                del self._kinds[key]
        here: dict[Hashable, _Kind] = {}
        for pod in self._cluster.table.pods[row].values():
            kind = here.setdefault(self._policy.victim_class(pod), _Kind(pod))
            kind.pods += 1
            kind.used.update(pod.requests)
        for key, come in here.items():
            kind = self._kinds.setdefault(key, _Kind(come.like))
            kind.like = come.like
            kind.pods += come.pods
            kind.used.update(come.used)
        if here:
            self._rows[row] = here
