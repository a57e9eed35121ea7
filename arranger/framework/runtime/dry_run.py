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
ExpandToGang = Callable[[Sequence[PodInfo]], Sequence[PodInfo]]

#: Whether the first pod may take the place of the second.
CanPreempt = Callable[[PodInfo, PodInfo], bool]
Importance = Callable[[PodInfo], int]
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

    def exceeded_rows(self, pod: PodInfo) -> tuple[Hashable, BoolArray]:
        """(a stamp, row → whether a limit would be exceeded with the pod there).

        While the stamp is the same, :meth:`room` says the same about the pod's class.
        """
        ...

    def remaining(self, pod: PodInfo, node: str) -> dict[Limit, int]:
        """What would be left of each limit with the pod on that node; less than 0 is too little."""
        ...

    def released_by(self, pod: PodInfo) -> Iterable[tuple[Limit, int]]:
        """What a placed pod would give back to each limit."""
        ...


class TimeProtection(Protocol):
    """Pods that only time protects from eviction; moments are in seconds since 1970."""

    @property
    def now(self) -> float:
        """The present moment."""
        ...

    def protected_until(self, preemptor: PodInfo, victim: PodInfo) -> float:
        """Until when nothing else keeps the taker from taking the victim's place."""
        ...


def has_higher_priority(preemptor: PodInfo, victim: PodInfo) -> bool:
    """Whether a pod is of higher priority than another."""
    return victim.priority < preemptor.priority


def never_in_gang(pod: PodInfo) -> bool:
    """Whether a pod is in a gang, where there are none."""
    del pod
    return False


def priority(pod: PodInfo) -> int:
    """The pod's priority."""
    return pod.priority


class PreemptionContext:
    """Questions about one pod that fits nowhere.

    Attributes:
        cluster: as it is; think pods away with :meth:`SnapshotGenerator.simulate_without`.
        pod: the pod.
        evaluation: what is known about its class, as things are.
        nominated_node: the node it has been promised, "" for none.
        terminating_victims: uids of pods that are being evicted already.
        expand_to_gang: for pods that leave together, these and all that must then leave with them.
        in_gang: whether a pod may have such company at all.
        can_preempt: whether one pod may take the place of another.
        importance: how important a pod is among victims, the least of which go first.
        allows: whether these victims may all go together.
        quota: the limits that count beside the room on nodes, if there are any.
        time_protection: whom time protects, if it protects anybody.
        extenders_choose: whether a nomination is to name its options, for others to choose among.
        nominated_pods: pods that only have a promise of a node, without which the pod must fit,
            too.
    """

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        pod: PodInfo,
        evaluation: Evaluation,
        *,
        nominated_node: str = "",
        terminating_victims: Collection[str] = (),
        expand_to_gang: ExpandToGang = tuple,
        in_gang: Callable[[PodInfo], bool] = never_in_gang,
        can_preempt: CanPreempt = has_higher_priority,
        importance: Importance = priority,
        allows: Allows = bool,
        quota: Quota | None = None,
        time_protection: TimeProtection | None = None,
        extenders_choose: bool = False,
        nominated_pods: Sequence[PodInfo] = (),
    ) -> None:
        self.profile = profile
        self.cluster = cluster
        self.pod = pod
        self.evaluation = evaluation
        self.nominated_node = nominated_node
        self.terminating_victims = terminating_victims
        self.expand_to_gang = expand_to_gang
        self.in_gang = in_gang
        self.can_preempt = can_preempt
        self.importance = importance
        self.allows = allows
        self.quota = quota
        self.time_protection = time_protection
        self.extenders_choose = extenders_choose
        self.nominated_pods = nominated_pods

    @cached_property
    def _simulated(self) -> Evaluation:
        return Evaluation(self.profile, self.cluster, self.pod, scoring=False)

    @cached_property
    def _without_nominees(self) -> Evaluation:
        """As :attr:`_thought`, looked at only while the promised pods are thought away."""
        return Evaluation(self.profile, self.cluster, self.pod, scoring=False)

    def fits(self, row: int) -> bool:
        """Whether the pod passes all filters on a node, as the cluster is thought to be."""
        if not _passes(self._simulated, row):
            return False
        if not self.nominated_pods:
            return True
        with self.cluster.simulate_without(self.nominated_pods):
            return _passes(self._without_nominees, row)

    def reasons(self, row: int) -> tuple[str, ...]:
        """The reasons of the first filter that rejects it, as the cluster is thought to be."""
        if not self.nominated_pods or not _passes(self._simulated, row):
            return _reasons(self._simulated, row)
        with self.cluster.simulate_without(self.nominated_pods):
            return _reasons(self._without_nominees, row)


def _passes(evaluation: Evaluation, row: int) -> bool:
    evaluation.refresh()
    return evaluation.pre_filter_status is None and bool(evaluation.feasible[row])


def _reasons(evaluation: Evaluation, row: int) -> tuple[str, ...]:
    evaluation.refresh()
    if evaluation.pre_filter_status is not None:
        return evaluation.pre_filter_status.reasons
    rejected = evaluation.diagnosis().first_rejection(row)
    return () if rejected is None else rejected.rejection.reasons
