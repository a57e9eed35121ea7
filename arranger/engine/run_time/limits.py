"""How long a pod may run, by all who have a say: itself, and its queues.

See ``docs/guide/run-time.md``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from arranger.api.settings.run_time import annotated_run_time
from arranger.cluster.pod_info import PodInfo
from arranger.quota.charging.placed_charges import PlacedCharges
from arranger.quota.queue_rights import QueueRights
from arranger.quota.queue_spec import QueueQuota


class Queues(Protocol):
    """The queues that there are."""

    @property
    def queues(self) -> Mapping[str, QueueQuota]:
        """All of them, by name."""

    @property
    def version(self) -> int:
        """Another number whenever queues say otherwise, or all pods may be of others."""

    @property
    def placed(self) -> PlacedCharges:
        """Knows of which pods the queue may be another one."""

    def queue_name(self, pod: PodInfo) -> str:
        """The queue of a pod."""

    def path_self_to_root(self, name: str) -> Iterator[QueueQuota]:
        """A queue and its ancestors."""


class RunTimeLimit(NamedTuple):
    """A maximum run time, and whose it is.

    Attributes:
        seconds: since the pod has started.
        queue: the queue that says so; "" for the pod itself.
    """

    seconds: float
    queue: str = ""


@dataclass(slots=True, eq=False)
class RunTimeLimits:
    """Asks pods and queues.

    Args:
        queues: the ledger.
        schedulers: whose pods are ended by us; of others' only what their kubelets see to counts.
    """

    _queues: Queues
    _schedulers: Container[str]
    #: Queue → the smallest limit of it and those above it, as long as the version is this.
    _by_queue: dict[str, RunTimeLimit | None] = field(default_factory=dict, init=False)
    _version: int = field(default=-1, init=False)
    #: Queue → the one that it is part of, who may use it, and its limit; nothing if none has any.
    _said: dict[str, tuple[str, QueueRights, float | None]] = field(
        default_factory=dict, init=False
    )
    _changes: int = field(default=0, init=False)

    def limit_of(self, pod: PodInfo) -> float | None:
        """How long a pod may run once it has started, in seconds; None if for ever."""
        deadline, limit = pod.pod.spec.active_deadline_seconds, self.enforced(pod)
        if limit is None:
            return deadline
        return limit.seconds if deadline is None else min(limit.seconds, deadline)

    def end_of(self, pod: PodInfo) -> float | None:
        """When a pod that has started will have to end, in seconds since 1970.

        None if it may run for ever, or has not started.
        """
        started, limit = pod.pod.status.start_time, self.limit_of(pod)
        return None if started is None or limit is None else started.timestamp() + limit

    def enforced(self, pod: PodInfo) -> RunTimeLimit | None:
        """The limit that no kubelet sees to, but we: the annotation's or a queue's, the smaller."""
        if pod.pod.spec.scheduler_name not in self._schedulers:
            return None
        seconds = annotated_run_time(pod.pod)
        by_pod = None if seconds is None else RunTimeLimit(seconds)
        by_queue = self._of_queue(self._queues.queue_name(pod)) if self.by_queue else None
        if by_pod is None or by_queue is None:
            return by_pod or by_queue
        return min(by_pod, by_queue)

    @property
    def version(self) -> int:
        """Another number whenever what queues say may be another."""
        return self._queues.version

    def take_moved(self) -> Iterable[str]:
        """The pods that may be of other queues since the last time, by their PodGroup, say."""
        return self._queues.placed.take_to_follow()

    @property
    def by_queue(self) -> bool:
        """Whether any queue limits how long pods run."""
        self._follow()
        return bool(self._said)

    def changes(self) -> int:
        """How often queues have come to limit run times otherwise."""
        self._follow()
        return self._changes

    def _follow(self) -> None:
        if self._version != self._queues.version:
            self._version = self._queues.version
            self._by_queue.clear()
            queues = self._queues.queues.values()
            limited = any(queue.max_run_time is not None for queue in queues)
            said = {q.name: (q.parent, q.rights, q.max_run_time) for q in queues if limited}
            self._changes, self._said = self._changes + (said != self._said), said

    def _of_queue(self, name: str) -> RunTimeLimit | None:
        if name not in self._by_queue:
            path = self._queues.path_self_to_root(name)
            said = (
                RunTimeLimit(q.max_run_time, q.name) for q in path if q.max_run_time is not None
            )
            self._by_queue[name] = min(said, default=None)
        return self._by_queue[name]
