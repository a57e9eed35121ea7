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
from arranger.cluster.resource_fit import might_fit
from arranger.engine.phases import HOLDING, Phase
from arranger.engine.pod.scheduling_cycle import Cycle, unreserve_plugins
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.queued_pod import Member
from arranger.framework.cluster_event import ClusterEvent, EventKind
from arranger.gangs.group import GangGroup

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Stats:
    """What has happened since they were last taken; the driver turns them into metrics.

    Attributes:
        attempts: (profile, ``scheduled`` | ``unschedulable`` | ``error``) → how often.
        waits: seconds from queued to bound, one per bound pod.
        tries: attempts it took, one per bound pod.
        durations: seconds spent deciding, one per attempt of a pod or of a whole gang.
    """

    attempts: Counter[tuple[str, str]] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    tries: list[int] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)


class Desk:
    """Shared state, and the few moves that every part makes.

    Attributes:
        members: every pod that is ours and not gone or bound, by uid.
        waiting: those that a Permit plugin makes wait.
        outbox: what the driver is to do next.
        ask_waiting: whether something has happened that Permit plugins may care about.
        happenings: how many events there have been.
        extenders: those that have a say in placing and binding.
    """

    def __init__(
        self, cluster: Cluster, queue: SchedulingQueue, extenders: Sequence[Extender] = ()
    ) -> None:
        self.cluster = cluster
        self.queue = queue
        self.cycle = Cycle(cluster)
        self.members: dict[str, Member] = {}
        self.waiting: dict[str, Member] = {}
        self.outbox: list[Effect] = []
        self.stats = Stats()
        self.ask_waiting = False
        #: From the engine's clock to seconds since 1970.
        self.calendar: Callable[[float], float] = float
        self.happenings = 0
        self.extenders = tuple(extenders)
        #: Hears of every pod that is evicted.
        self.evicted: Callable[[PodInfo], None] = lambda pod: None  # noqa: ARG005
        #: Hears of those (by uid) that could not be evicted.
        self.spared: Callable[[str], None] = lambda uid: None  # noqa: ARG005
        #: Whether a pod's gang is bound in part, so that its room may be wanted by another of it.
        self.half_bound: Callable[[str], bool] = lambda uid: False  # noqa: ARG005
        #: Why a complete gang group is not let in yet, "" if it is; the queues say so.
        self.let_in: Callable[[GangGroup], str] = lambda group: ""  # noqa: ARG005

    def happened(self, event: ClusterEvent, now: float, *, urgent: bool = True) -> None:
        """Let everybody know who may be helped by an event; ``urgent`` as for the queue."""
        self.ask_waiting = True
        self.happenings += 1
        self.queue.happened(event, now, urgent=urgent)

    def freed(self, pod: PodInfo, node: str, now: float) -> None:
        """A pod has left a node, or the promise of it: let those know who might fit there now."""

        def room(waiting: PodInfo) -> bool:
            may_take = self.cycle.may_take
            return might_fit(self.cluster, waiting, node, lambda other: may_take(waiting, other))

        event = ClusterEvent(EventKind.POD_REMOVED, pod=pod.pod, room=room)
        self.happened(event, now, urgent=not self.half_bound(pod.uid))

    def count(self, member: Member, result: str) -> None:
        """One attempt for a pod has ended."""
        self.stats.attempts[member.profile.scheduler_name, result] += 1

    def release(self, member: Member, now: float) -> bool:
        """Take a reservation back; False if the pod is being deleted and is gone with it.

        The pod is to be queued again by the caller: its own leaving must not wake it.
        """
        held = member.pod.pod
        self.waiting.pop(member.uid, None)
        self.cycle.unreserve(member)
        event = ClusterEvent(EventKind.POD_REMOVED, pod=held)
        self.happened(event, now, urgent=not self.half_bound(member.uid))
        newest = member.newest
        if newest is not None and newest.pod.metadata.deletion_timestamp is not None:
            member.move(Phase.GONE)
            del self.members[member.uid]
            return False
        member.move(Phase.QUEUED)
        if newest is not None:
            member.update(newest)
        return True

    def forget(self, member: Member) -> None:
        """A pod is not ours to place any more; its reservation stays counted."""
        self.waiting.pop(member.uid, None)
        if member.phase in HOLDING:
            unreserve_plugins(member)
        member.move(Phase.GONE)
        del self.members[member.uid]
