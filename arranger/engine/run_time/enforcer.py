"""Ends pods that have run for their maximum run time, where no kubelet does.

A pod's ``activeDeadlineSeconds`` is its kubelet's affair; the annotation and the limits of queues
are ours. Everything is worked out from objects, so nothing is lost with the process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from arranger.api.effects import Ambiguous, Applied, DeletePod, Effect, Eviction, Outcome
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context import pod_events
from arranger.engine.context.deadlines import DeadlineSet
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.eviction_listener import EvictionListener
from arranger.engine.context.pending_effects import PendingEffects
from arranger.engine.context.spared_pods import SparedPods
from arranger.engine.run_time.limits import RunTimeLimit, RunTimeLimits

#: Seconds until a pod is ended again that could not be ended.
RETRY_AFTER: Final = 10.0
#: The reason of these evictions, for the log.
RAN_TOO_LONG: Final = "maximum run time"
#: Pods whose end is worked out anew in one step, when queues have changed.
_PODS_IN_A_STEP: Final = 2000
#: Pods that are ended in one step; others whose time is over follow in the next.
_ENDED_IN_A_STEP: Final = 1000


@dataclass(slots=True, eq=False)
class RunTimeEnforcer:
    """Knows when the pods that run must end, and sends the deletes.

    Args:
        leaving: uids of pods that are being evicted, until they are gone.
        gangs: follows the evictions of members.
        spared: whose queue may not be known, and with it the limit.
    """

    _context: EngineContext
    _limits: RunTimeLimits
    _effects: PendingEffects
    _leaving: set[str]
    _gangs: EvictionListener
    _spared: SparedPods
    #: Pods by uid, with the time at which they are looked at, in seconds since 1970.
    _ends: DeadlineSet = field(default_factory=DeadlineSet, init=False)
    #: Pods that we are ending.
    _ending: set[str] = field(default_factory=set, init=False)
    #: Pods whose end is to be worked out anew.
    _unseen: dict[str, None] = field(default_factory=dict, init=False)
    _version: int = field(default=-1, init=False)
    _by_queue: bool = field(default=False, init=False)

    def observe(self, pod: PodInfo) -> None:
        """A pod is on a node, or was edited there."""
        self._schedule(pod)

    def forget(self, uid: str) -> None:
        """A pod has ended, or is gone."""
        self._ends.cancel(uid)
        self._ending.discard(uid)

    def advance(self, now: float) -> None:
        """End what has run so long."""
        self._follow_queues()
        cluster, unix_now = self._context.cluster, self._context.unix_now
        for uid in list(islice(self._unseen, _PODS_IN_A_STEP)):
            del self._unseen[uid]
            if (pod := cluster.pod(uid)) is not None:
                self._schedule(pod)
        for uid in self._ends.pop_due(unix_now, _ENDED_IN_A_STEP):
            if (pod := cluster.pod(uid)) is not None:
                self._end_if_over(pod, unix_now)

    def next_timer(self) -> float | None:
        """When something will be due, in the engine's clock."""
        clock, ends = self._context.clock, self._ends.next_deadline()
        if self._unseen:
            return clock.now
        return None if ends is None else clock.from_unix_time(ends, clock.now)

    def on_outcome(self, effect: Effect, outcome: Outcome, subject: PodInfo, now: float) -> None:
        """The outcome of a delete: a pod that stays is ended again after a while."""
        assert isinstance(effect, DeletePod), f"{effect} ends no pod"
        if isinstance(outcome, Ambiguous | Applied):
            return
        uid = subject.uid
        if uid in self._leaving:  # who was set aside meanwhile is not ending for us
            self._ending.discard(uid)
            self._leaving.discard(uid)
            self._gangs.on_eviction_failed(uid)
            self._ends.schedule(uid, self._context.unix_now + RETRY_AFTER)

    def _follow_queues(self) -> None:
        """Queues say otherwise, or pods are of other queues: their ends are worked out anew."""
        limited, version = self._limits.by_queue, self._limits.version
        moved = self._limits.take_moved()
        if limited:
            self._unseen.update(dict.fromkeys(moved))
        if version == self._version:
            return
        if limited or self._by_queue:
            self._unseen = {pod.uid: None for pod, _ in self._context.cluster.placed_pods()}
        self._version, self._by_queue = version, limited

    def _schedule(self, pod: PodInfo) -> None:
        if pod.uid in self._ending or (due := self._due(pod)) is None:
            return
        self._ends.schedule(pod.uid, due[0])

    def _due(self, pod: PodInfo) -> tuple[float, RunTimeLimit] | None:
        """When we have to end a pod, in seconds since 1970, and by whose limit."""
        said = pod.pod
        started = said.status.start_time
        if started is None or self._context.is_leaving(said):
            return None
        limit, deadline = self._limits.enforced(pod), said.spec.active_deadline_seconds
        if limit is None or (deadline is not None and deadline <= limit.seconds):
            return None  # its kubelet is not later
        return started.timestamp() + limit.seconds, limit

    def _end_if_over(self, pod: PodInfo, unix_now: float) -> None:
        due = self._due(pod)
        if due is None or pod.uid in self._ending:
            return
        end, limit = due
        if pod.uid in self._leaving or self._spared.spares(pod):
            end = max(end, unix_now + RETRY_AFTER)  # evicted already, unless that fails
        if end > unix_now:
            self._ends.schedule(pod.uid, end)
            return
        self._ending.add(pod.uid)
        self._leaving.add(pod.uid)
        condition = pod_events.run_time_condition(pod.pod, limit.seconds, limit.queue)
        eviction = Eviction(pod.pod.spec.node_name, RAN_TOO_LONG)
        delete = self._context.deletion(pod.pod, condition, eviction)
        self._context.outbox.append(pod_events.ran_too_long(pod.pod, limit.seconds, limit.queue))
        self._effects.send(delete, self, pod)
        self._gangs.on_evicted(pod)
