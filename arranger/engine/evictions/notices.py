"""Who has been given time to save its state, until when, and for whom.

The notice is a condition of the pod, its deadline an annotation: both are read again after a
restart, so that the clock goes on. A pod that is in a gang leaves with those of its gang that have
been given notice, and gets the longest time that any of them asks for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from arranger.api.annotations import CHECKPOINT_BEFORE_EVICTION
from arranger.api.settings.checkpoints import (
    checkpoint_time,
    checkpointed_at,
    eviction_deadline,
)
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.evictions import texts
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy
from arranger.gangs.gang import Gang


class Gangs(Protocol):
    """Knows which pods belong together."""

    def gang_of(self, uid: str) -> Gang | None:
        """The gang of a pod."""


class KnownEnds(Protocol):
    """Knows when pods end anyway."""

    def end_of(self, pod: PodInfo) -> float | None:
        """When a pod will have to end, in seconds since 1970; None if it may run for ever."""


@dataclass(slots=True)
class Notice:
    """One pod that was given time.

    Attributes:
        node: which it has to leave.
        group: the gang group that takes its place, "" for a lone pod.
        takers: uid → node, of the pods that were nominated when it was given; empty where that was
            before our start.
        began, deadline: seconds since 1970.
        seconds: how long that is.
        gang: its own gang, with whose members it leaves; "" for none.
        patient: whether it has asked for time itself.
        told: whether the server has the notice; before that the clock does not count.
        ready: whether it has saved its state.
    """

    victim: PodInfo
    node: str
    group: str
    takers: Mapping[str, str]
    began: float
    seconds: float
    deadline: float
    gang: str = ""
    patient: bool = True
    told: bool = False
    ready: bool = False


@dataclass(slots=True, eq=False)
class EvictionNotices:
    """The notices that stand.

    Args:
        schedulers: whose pods' notices of earlier runs are ours.
        maximum: the most time that a pod is given, in seconds; 0: nobody is given any.
    """

    _context: EngineContext
    _nominator: Nominator
    _policy: EvictionPolicy
    _gangs: Gangs
    _ends: KnownEnds
    _schedulers: Collection[str]
    maximum: float
    _notices: dict[str, Notice] = field(default_factory=dict, init=False)
    #: The nominations that were looked at last; -1: look again.
    _seen: int = field(default=-1, init=False)
    #: The plan for which notice was given last (its gang group, the nominations and how many
    #: members there were then), and its takers.
    _plan: tuple[tuple[QueuedEntity, int, int], Mapping[str, str]] | None = field(
        default=None, init=False
    )

    def time_for(self, victims: Sequence[PodInfo]) -> Mapping[str, float]:
        """Uid → the seconds that a victim is given, of those that are given any."""
        asks = [v for v in victims if CHECKPOINT_BEFORE_EVICTION in v.pod.metadata.annotations]
        if not asks or not self.maximum:
            return {}
        of_gang: dict[str, float] = {}
        for victim in asks:
            gang = self._gang_of(victim) or victim.uid
            of_gang[gang] = max(of_gang.get(gang, 0.0), checkpoint_time(victim.pod))
        found = ((v, of_gang.get(self._gang_of(v) or v.uid, 0.0)) for v in victims)
        # A pod that has not started has nothing to save.
        return {
            victim.uid: min(seconds, self.maximum)
            for victim, seconds in found
            if seconds and victim.pod.status.start_time is not None
        }

    def give(
        self, victim: PodInfo, seconds: float, member: QueuedPod, node: str, group: str
    ) -> Notice:
        """Give a victim so long; the condition is the caller's to send."""
        now = self._context.unix_now
        notice = Notice(
            victim,
            node,
            group,
            self._takers(member, group),
            began=now,
            seconds=seconds,
            deadline=self._not_after_its_end(victim, math.ceil(now + seconds)),
            gang=self._gang_of(victim),
            patient=bool(checkpoint_time(victim.pod)),
        )
        self._notices[victim.uid] = notice
        self._seen = -1
        return notice

    def _takers(self, member: QueuedPod, group: str) -> Mapping[str, str]:
        """Uid → node of those for whom notice is given: the same object for all of one plan."""
        node_of = self._nominator.node_of
        if not group or member.entity is None:
            return {member.uid: node_of(member.uid)}
        plan = member.entity, self._nominator.changes, len(member.entity.members)
        if self._plan is None or self._plan[0] != plan:
            self._plan = plan, {uid: node_of(uid) for uid in member.entity.members}
        return self._plan[1]

    def restore(self, victim: PodInfo) -> bool:
        """A pod that is seen at the start was given notice by an earlier run of ours, if it was.

        Its clock goes on; what the annotation says is believed only within what it can have been
        given.
        """
        condition, now = texts.notice_of(victim.pod), self._context.unix_now
        if condition is None or victim.pod.spec.scheduler_name not in self._schedulers:
            return False
        since = condition.last_transition_time
        began = min(since.timestamp(), now) if since is not None else now
        asked = min(checkpoint_time(victim.pod), self.maximum)
        deadline, stated = began + asked, eviction_deadline(victim.pod)
        # Moments of the API are whole seconds.
        if began <= stated <= began + self.maximum + 2.0:
            deadline = stated
        self._notices[victim.uid] = Notice(
            victim,
            victim.pod.spec.node_name,
            "",
            {},
            began=began,
            seconds=asked,
            deadline=self._not_after_its_end(victim, deadline),
            gang=self._gang_of(victim),
            patient=bool(asked),
            told=True,
            ready=checkpointed_at(victim.pod) >= math.floor(began),
        )
        self._seen = -1
        return True

    def on_told(self, uid: str, unix_now: float) -> Notice | None:
        """The server has the notice: the time that was asked for begins now at the latest."""
        notice = self._notices.get(uid)
        if notice is not None and not notice.told:
            notice.told = True
            later = max(notice.deadline, unix_now + notice.seconds)
            notice.deadline = self._not_after_its_end(notice.victim, later)
            self._seen = -1
        return notice

    def observe(self, pod: PodInfo) -> None:
        """A placed pod was edited: it may say that it has saved its state."""
        notice = self._notices.get(pod.uid)
        if notice is None:
            return
        notice.victim = pod
        notice.ready = checkpointed_at(pod.pod) >= math.floor(notice.began)
        self._seen = -1

    def __contains__(self, uid: str) -> bool:
        """Whether a pod has been given time, and nobody has had it deleted yet."""
        return uid in self._notices

    def forget(self, uid: str) -> Notice | None:
        """The pod is being deleted, gone, or stays."""
        notice = self._notices.pop(uid, None)
        if notice is not None and notice.gang:
            self._seen = -1  # the others of its gang may have waited for it
        return notice

    def take_settled(self, most: int) -> Iterator[tuple[Notice, QueuedPod | None]]:
        """Those that are over, with who takes the place; None for nobody, so that the pod stays.

        So many at most: what is left, or is not asked for, comes again.
        """
        if not self._notices:
            return
        now, looked_at = self._context.unix_now, self._nominator.changes
        changed = self._seen != looked_at
        waited_for = self._waited_for(now) if changed else set()
        takers = _Takers(self._nominator, self._policy)
        for notice in list(self._notices.values()):
            due = notice.told and notice.deadline <= now
            if not changed and not due:
                continue
            taker = takers.taker_of(notice)
            saved = notice.ready or not notice.patient
            early = notice.told and saved and notice.gang not in waited_for
            if taker is None or due or early:
                if not most:
                    return  # the nominations count as not looked at
                most -= 1
                del self._notices[notice.victim.uid]
                yield notice, taker
        self._seen = looked_at

    def next_timer(self) -> float | None:
        """When something will be due, in the engine's clock."""
        if not self._notices:
            return None
        clock = self._context.clock
        if self._seen != self._nominator.changes:
            return clock.now
        ends = min((n.deadline for n in self._notices.values() if n.told), default=None)
        return None if ends is None else clock.from_unix_time(ends, clock.now)

    def _waited_for(self, now: float) -> set[str]:
        """Gangs of which members still save their state."""
        return {
            notice.gang
            for notice in self._notices.values()
            if notice.gang
            and not (notice.told and notice.deadline <= now)
            and notice.patient
            and not notice.ready
        }

    def _gang_of(self, pod: PodInfo) -> str:
        gang = self._gangs.gang_of(pod.uid)
        return "" if gang is None else gang.name

    def _not_after_its_end(self, pod: PodInfo, deadline: float) -> float:
        end = self._ends.end_of(pod)
        return deadline if end is None else min(deadline, math.ceil(end))

    def check_consistent(self) -> None:
        """Check that everybody who was given notice counts as leaving.

        Raises:
            AssertionError: somebody does not.
        """
        for uid in self._notices:
            assert uid in self._nominator.terminating_victims, f"{uid} has notice and stays"


@dataclass(slots=True, eq=False)
class _Takers:
    """Who still needs the places of those that were given notice, as of now.

    Thousands may be given notice for one gang: who takes its places is found out once.
    """

    _nominator: Nominator
    _policy: EvictionPolicy
    #: Takers of a plan, by their identity → one of them that is still nominated as then.
    _of_plan: dict[int, QueuedPod | None] = field(default_factory=dict, init=False)
    _in_groups: list[QueuedPod] | None = field(default=None, init=False)

    def taker_of(self, notice: Notice) -> QueuedPod | None:
        """A pod that still needs the place."""
        nominator, victim = self._nominator, notice.victim
        if (planned := self._still_nominated(notice.takers)) is not None:
            return planned
        nearby: Iterable[QueuedPod] = nominator.nominated_pods_on(notice.node)
        if not notice.takers:  # a gang's members may be nominated for other nodes
            if self._in_groups is None:
                self._in_groups = [p for p in nominator.nominated_pods() if _in_group(p)]
            nearby = chain(nearby, self._in_groups)
        return next((p for p in nearby if self._policy.can_preempt(p.pod, victim)), None)

    def _still_nominated(self, takers: Mapping[str, str]) -> QueuedPod | None:
        if id(takers) not in self._of_plan:
            nominator = self._nominator
            still = (u for u, node in takers.items() if node and nominator.node_of(u) == node)
            uid = next(still, None)
            self._of_plan[id(takers)] = None if uid is None else nominator.nominated_pod(uid)
        return self._of_plan[id(takers)]


def _in_group(pod: QueuedPod) -> bool:
    return pod.entity is not None and pod.entity.group is not None
