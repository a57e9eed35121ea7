"""Would a pod fit, if others were gone? What PostFilter plugins may ask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Protocol

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray
from arranger.cluster.pod_info import PodInfo
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.profile import Profile

#: Pods → these, and those that must leave with them.
Company = Callable[[Sequence[PodInfo]], Sequence[PodInfo]]

#: Whether the first pod may take the place of the second.
MayTake = Callable[[PodInfo, PodInfo], bool]
Weight = Callable[[PodInfo], int]
#: (whose, of what).
Limit = tuple[str, str]
#: Whether these pods may be evicted together; there is at least one.
Allows = Callable[[Sequence[PodInfo]], bool]


class Quota(Protocol):
    """Limits on what pods use together, wherever they are."""

    @property
    def active(self) -> bool:
        """Whether there are any."""
        ...

    def tight(self, pod: PodInfo) -> tuple[Hashable, BoolArray]:
        """(a stamp, row → whether a limit would be exceeded with the pod there).

        While the stamp is the same, :meth:`room` says the same about the pod's class.
        """
        ...

    def room(self, pod: PodInfo, node: str) -> dict[Limit, int]:
        """What would be left of each limit with the pod on that node; less than 0 is too little."""
        ...

    def frees(self, pod: PodInfo) -> Iterable[tuple[Limit, int]]:
        """What a placed pod would give back to each limit."""
        ...


class Spared(Protocol):
    """Pods that only time protects from eviction; moments are in seconds since 1970."""

    @property
    def now(self) -> float:
        """The present moment."""
        ...

    def until(self, taker: PodInfo, victim: PodInfo) -> float:
        """Until when nothing else keeps the taker from taking the victim's place."""
        ...


def outranks(taker: PodInfo, victim: PodInfo) -> bool:
    """Whether a pod is of higher priority than another."""
    return victim.priority < taker.priority


def alone(pod: PodInfo) -> bool:
    """Whether a pod is in a gang, where there are none."""
    del pod
    return False


def priority(pod: PodInfo) -> int:
    """The pod's priority."""
    return pod.priority


class WhatIf:
    """Questions about one pod that fits nowhere.

    Attributes:
        cluster: as it is; think pods away with :meth:`Cluster.without`.
        pod: the pod.
        evaluation: what is known about its class, as things are.
        nominated: the node it has been promised, "" for none.
        leaving: uids of pods that are being evicted already.
        company: for pods that leave together, these and all that must then leave with them.
        in_gang: whether a pod may have such company at all.
        may_take: whether one pod may take the place of another.
        weight: how important a pod is among victims, the least of which go first.
        allows: whether these victims may all go together.
        quota: the limits that count beside the room on nodes, if there are any.
        spared: whom time protects, if it protects anybody.
        others_choose: whether a nomination is to name its options, for others to choose among.
        promised: pods that only have a promise of a node, without which the pod must fit, too.
    """

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        pod: PodInfo,
        evaluation: Evaluation,
        *,
        nominated: str = "",
        leaving: Collection[str] = (),
        company: Company = tuple,
        in_gang: Callable[[PodInfo], bool] = alone,
        may_take: MayTake = outranks,
        weight: Weight = priority,
        allows: Allows = bool,
        quota: Quota | None = None,
        spared: Spared | None = None,
        others_choose: bool = False,
        promised: Sequence[PodInfo] = (),
    ) -> None:
        self.profile = profile
        self.cluster = cluster
        self.pod = pod
        self.evaluation = evaluation
        self.nominated = nominated
        self.leaving = leaving
        self.company = company
        self.in_gang = in_gang
        self.may_take = may_take
        self.weight = weight
        self.allows = allows
        self.quota = quota
        self.spared = spared
        self.others_choose = others_choose
        self.promised = promised

    @cached_property
    def _thought(self) -> Evaluation:
        return Evaluation(self.profile, self.cluster, self.pod, scoring=False)

    @cached_property
    def _alone(self) -> Evaluation:
        """As :attr:`_thought`, looked at only while the promised pods are thought away."""
        return Evaluation(self.profile, self.cluster, self.pod, scoring=False)

    def fits(self, row: int) -> bool:
        """Whether the pod passes all filters on a node, as the cluster is thought to be."""
        if not _passes(self._thought, row):
            return False
        if not self.promised:
            return True
        with self.cluster.without(self.promised):
            return _passes(self._alone, row)

    def why(self, row: int) -> tuple[str, ...]:
        """The reasons of the first filter that rejects it, as the cluster is thought to be."""
        if not self.promised or not _passes(self._thought, row):
            return _why(self._thought, row)
        with self.cluster.without(self.promised):
            return _why(self._alone, row)


def _passes(thought: Evaluation, row: int) -> bool:
    thought.refresh()
    return thought.refusal is None and bool(thought.feasible[row])


def _why(thought: Evaluation, row: int) -> tuple[str, ...]:
    thought.refresh()
    if thought.refusal is not None:
        return thought.refusal.reasons
    rejected = thought.diagnosis().of_row(row)
    return () if rejected is None else rejected.rejection.reasons
