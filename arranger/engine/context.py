"""What all parts of the engine work on: the cluster, the queue, the pods of ours, the outbox."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from arranger.api.effects import Effect
from arranger.api.extenders import Extender
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.cluster.resource_fit import could_fit
from arranger.engine.phases import HOLDS_NODE, Phase
from arranger.engine.pod.scheduling_cycle import SchedulingCycle, run_unreserve_plugins
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.queued_pod import QueuedPod
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.gangs.group import GangGroup

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Stats:
    """What has happened since they were last taken; the driver turns them into metrics.

    Attributes:
        attempts: (profile, ``scheduled`` | ``unschedulable`` | ``error``) → how often.
        queue_seconds: seconds from queued to bound, one per bound pod.
        attempts_until_bound: attempts it took, one per bound pod.
        attempt_seconds: seconds spent deciding, one per attempt of a pod or of a whole gang.
    """

    attempts: Counter[tuple[str, str]] = field(default_factory=Counter)
    queue_seconds: list[float] = field(default_factory=list)
    attempts_until_bound: list[int] = field(default_factory=list)
    attempt_seconds: list[float] = field(default_factory=list)


class EngineContext:
    """Shared state, and the few moves that every part makes.

    Attributes:
        pods: every pod that is ours and not gone or bound, by uid.
        waiting_pods: those that a Permit plugin makes wait.
        outbox: what the driver is to do next.
        recheck_permits: whether something has happened that Permit plugins may care about.
        event_count: how many events there have been.
        extenders: those that have a say in placing and binding.
    """

    def __init__(
        self, cluster: Cluster, queue: SchedulingQueue, extenders: Sequence[Extender] = ()
    ) -> None:
        self.cluster = cluster
        self.queue = queue
        self.cycle = SchedulingCycle(cluster)
        self.pods: dict[str, QueuedPod] = {}
        self.waiting_pods: dict[str, QueuedPod] = {}
        self.outbox: list[Effect] = []
        self.stats = Stats()
        self.recheck_permits = False
        #: From the engine's clock to seconds since 1970.
        self.to_unix_time: Callable[[float], float] = float
        self.event_count = 0
        self.extenders = tuple(extenders)
        #: Hears of every pod that is evicted.
        self.on_evicted: Callable[[PodInfo], None] = lambda pod: None  # noqa: ARG005
        #: Hears of those (by uid) that could not be evicted.
        self.on_eviction_failed: Callable[[str], None] = lambda uid: None  # noqa: ARG005
        #: Whether a pod's gang is bound in part, so that its room may be wanted by another of it.
        self.is_partially_bound: Callable[[str], bool] = lambda uid: False  # noqa: ARG005
        #: Why a complete gang group is not let in yet, "" if it is; the queues say so.
        self.quota_admission: Callable[[GangGroup], str] = lambda group: ""  # noqa: ARG005

    def publish_event(self, event: ClusterEvent, now: float, *, skip_backoff: bool = True) -> None:
        """Let everybody know who may be helped by an event; ``skip_backoff`` as for the queue."""
        self.recheck_permits = True
        self.event_count += 1
        self.queue.wake(event, now, skip_backoff=skip_backoff)

    def notify_pod_removed(self, pod: PodInfo, node: str, now: float) -> None:
        """A pod has left a node, or the promise of it: let those know who might fit there now."""

        def could_fit_waiting(waiting: PodInfo) -> bool:
            may_take = self.cycle.can_preempt
            return could_fit(self.cluster, waiting, node, lambda other: may_take(waiting, other))

        event = ClusterEvent(ActionType.POD_REMOVED, pod=pod.pod, could_fit=could_fit_waiting)
        self.publish_event(event, now, skip_backoff=not self.is_partially_bound(pod.uid))

    def record_attempt(self, member: QueuedPod, result: str) -> None:
        """One attempt for a pod has ended."""
        self.stats.attempts[member.profile.scheduler_name, result] += 1

    def release_node(self, member: QueuedPod, now: float) -> bool:
        """Take a reservation back; False if the pod is being deleted and is gone with it.

        The pod is to be queued again by the caller: its own leaving must not wake it.
        """
        held = member.pod.pod
        self.waiting_pods.pop(member.uid, None)
        self.cycle.unreserve(member)
        event = ClusterEvent(ActionType.POD_REMOVED, pod=held)
        self.publish_event(event, now, skip_backoff=not self.is_partially_bound(member.uid))
        update = member.pending_update
        if update is not None and update.pod.metadata.deletion_timestamp is not None:
            member.transition(Phase.GONE)
            del self.pods[member.uid]
            return False
        member.transition(Phase.QUEUED)
        if update is not None:
            member.update(update)
        return True

    def stop_tracking(self, member: QueuedPod) -> None:
        """A pod is not ours to place any more; its reservation stays counted."""
        self.waiting_pods.pop(member.uid, None)
        if member.phase in HOLDS_NODE:
            run_unreserve_plugins(member)
        member.transition(Phase.GONE)
        del self.pods[member.uid]
