"""Who may be evicted for whom, and what PostFilter plugins may ask about a pod that fits nowhere.

Both are Protocols: the engine implements them, plugins and tests only need these.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence, Set
from typing import Final, Protocol

from arranger.api.types.core import Pod
from arranger.cluster import BoolArray, Cluster, PodInfo
from arranger.cluster.attempt_work import AttemptWork

#: A limit on what pods use together: (the name of the queue, the resource).
Limit = tuple[str, str]

#: In place of a time, for pods that no time protects.
UNPROTECTED: Final = float("-inf")


class QuotaLimits(Protocol):
    """Limits on what pods use together, wherever they are."""

    def remaining(self, pod: PodInfo, node: str) -> dict[Limit, int]:
        """What would be left of each limit with the pod on that node; less than 0 is too little."""

    def released_by(self, pod: PodInfo) -> Iterable[tuple[Limit, int]]:
        """What a placed pod would give back to each limit."""

    def room_for(self, pod: PodInfo, node: str) -> int:
        """How many pods like this one all limits have room for, on such a node."""

    def most_for(self, pods: Sequence[PodInfo]) -> int:
        """How many such pods, of whatever kinds, all limits have room for, wherever; no less."""

    def limits_of(self, pod: PodInfo) -> Set[Limit]:
        """The limits that might keep the pod from any node."""

    def queues_of(self, pod: PodInfo) -> Set[str]:
        """The pod's queue and those above it."""

    def relieved_by(self, pod: PodInfo, node: str) -> Set[Limit]:
        """The limits of which more is left since a pod has left a node."""

    def relieved_by_nodes(self) -> Set[Limit]:
        """The limits of which there may be more when nodes have more."""


class LimitsAfterEvictions(Protocol):
    """The same limits, as they are once those have gone that are being evicted."""

    def exceeded_rows(self, pod: PodInfo) -> tuple[Hashable, BoolArray]:
        """(version, row → whether a limit would be exceeded with the pod there).

        While the version is the same, :meth:`remaining` says the same about the pod's class there.
        """

    def remaining(self, pod: PodInfo, node: str) -> dict[Limit, int]:
        """What would be left of each limit with the pod on that node; less than 0 is too little."""

    def released_by(self, pod: PodInfo) -> Iterable[tuple[Limit, int]]:
        """What a placed pod would give back; nothing where that has been counted already."""


class Losses(Protocol):
    """Victims that may leave together, to which others are added; good for one moment.

    As it stands all may. Who may not leave with some may not with more of them either.
    """

    def add(self, victims: Sequence[PodInfo]) -> bool:
        """Add these, if they may leave with those that were added before; returns whether."""
        return True

    def may_add(self, victims: Sequence[PodInfo]) -> bool:
        """Whether :meth:`add` would add these."""
        return True

    @property
    def state(self) -> Hashable:
        """While it is the same, so are all answers."""
        return None

    def kind_of(self, victim: PodInfo) -> Hashable:
        """Of victims of one kind and :meth:`EvictionPolicy.victim_class` one may be added where
        another may."""
        return None

    def copy(self) -> Losses:
        """The same, to which others can be added."""
        return self


class _NoLosses(Losses):
    """Nobody loses anything that counts."""


NO_LOSSES: Final[Losses] = _NoLosses()


class Departures(Protocol):
    """Pods that leave one after the other; good for one moment."""

    def breaks_gang(self, pod: PodInfo) -> bool:
        """Whether the pod's gang is below its minimum without it and those that were added."""

    def add(self, pod: PodInfo) -> None:
        """The pod leaves, too."""


class _NoDepartures:
    """There are no gangs."""

    def breaks_gang(self, pod: PodInfo) -> bool:
        return False

    def add(self, pod: PodInfo) -> None:
        pass


NO_DEPARTURES: Final[Departures] = _NoDepartures()


class EvictionPolicy(Protocol):
    """Decides who may be evicted for whom, what leaves together, and who goes first.

    As it stands it goes by the pods' priorities alone: no gangs, no queues, no protection. Moments
    are in seconds since 1970.
    """

    @property
    def by_priority_alone(self) -> bool:
        """Whether :meth:`can_preempt` looks at nothing but the priorities."""
        return True

    @property
    def quota(self) -> QuotaLimits | None:
        """The limits that count beside the resources of nodes; None where there are none."""
        return None

    @property
    def quota_after_evictions(self) -> LimitsAfterEvictions | None:
        """The same, as they are once those have gone that are being evicted."""
        return None

    @property
    def time_protects(self) -> bool:
        """Whether time alone protects any pod, so that :meth:`protected_until` matters."""
        return False

    @property
    def now(self) -> float:
        """The present moment."""
        return 0.0

    def can_preempt(self, preemptor: PodInfo, victim: PodInfo) -> bool:
        """Whether a pod may take the place of another now."""
        return victim.priority < preemptor.priority

    def can_preempt_any(self, preemptor: PodInfo, victims: Iterable[PodInfo]) -> bool:
        """Whether a pod may take the place of any of these now."""
        return any(self.can_preempt(preemptor, victim) for victim in victims)

    def evictable_rows(
        self, preemptors: Sequence[PodInfo], work: AttemptWork | None = None
    ) -> Collection[int] | None:
        """The rows with pods whose place each of some pods may take; None where every placed pod
        has to be asked about.

        Raises:
            UnfinishedError: there is more to look at than ``work`` has left; ask again.
        """
        return None

    def victim_class(self, pod: PodInfo) -> Hashable:
        """Of placed pods of one class all may be evicted for a preemptor or none, but for those
        that time protects."""
        return pod.priority

    def preemptor_class(self, pod: PodInfo) -> Hashable:
        """Of preemptors of one class, the one of the lowest priority may evict the fewest."""
        return None

    def preemptor_state(self, pod: PodInfo) -> Hashable:
        """While it is the same, :meth:`can_preempt` says the same of a pod, if time protects nobody
        and the victims stay what they are."""
        return None

    def lasting_preemptor_class(self, pod: PodInfo) -> Hashable:
        """Preemptors of one class may evict the same, also once others of the class have been
        placed; None for who has to be asked about again."""
        return None

    def for_group(self, members: Sequence[PodInfo], needed: int) -> EvictionPolicy:
        """The policy for members of a gang, so many of which want nodes at once."""
        return self

    def protected_until(self, preemptor: PodInfo, victim: PodInfo) -> float:
        """Until when nothing but time keeps the preemptor from taking the victim's place.

        A moment that is past, or ``UNPROTECTED``, where it may now or where time changes nothing.
        """
        return UNPROTECTED

    def in_gang(self, pod: PodInfo) -> bool:
        """Whether a pod is in a gang, so that others may have to leave with it."""
        return False

    def group_of(self, pod: PodInfo) -> str | None:
        """The gang group of a pod, whose others may have to leave with it; None for none."""
        return None

    def expand_to_gang(self, victims: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """The victims, and all that must leave with them."""
        return victims

    def departures(self) -> Departures:
        """Who leaves one after the other: nobody yet."""
        return NO_DEPARTURES

    def groups_broken(self, victims: Sequence[PodInfo]) -> int:
        """How many gang groups would be left with less than their minimum."""
        return 0

    def importance(self, pod: PodInfo) -> int:
        """How important a pod is among victims; the least important go first."""
        return pod.priority

    def losses(self, takers: Sequence[PodInfo]) -> Losses:
        """Which victims may leave together for some pods, as things are now."""
        return NO_LOSSES


class PriorityPolicy(EvictionPolicy):
    """Goes by the pods' priorities alone."""

    def lasting_preemptor_class(self, pod: PodInfo) -> Hashable:
        """Pods of one priority may evict the same."""
        return pod.priority


class PreemptionContext(Protocol):
    """Questions about one pod that fits nowhere; the cluster may be changed in memory meanwhile.

    Attributes:
        cluster: as it is; take pods away in memory with :meth:`Cluster.simulate_without`.
        pod: the pod.
        policy: who may be evicted for it.
        nominated_node: the node it has been promised, "" for none.
        terminating_victims: uids of pods that are being evicted already.
        extenders_choose: whether the answer is to name its candidates, for extenders to choose.
        resource_only: whether only resources and quotas decide which of the pods on a node have to
            leave, so that victims can be found by counting.
        fits_when_empty: row → whether the node itself would do, whatever runs on it now.
        rejecters: the plugins that have given any of the :meth:`reasons`.
    """

    cluster: Cluster
    pod: PodInfo
    policy: EvictionPolicy
    nominated_node: str
    terminating_victims: Collection[str]
    extenders_choose: bool
    resource_only: bool
    fits_when_empty: BoolArray
    rejecters: set[str]

    def count_waiting_alike(self, most: int) -> int:
        """How many pods of its class and priority wait for room, itself included; ``most`` at most.

        Those that have been promised a node do not count.
        """
        ...

    def fits(self, row: int) -> bool:
        """Whether the pod passes all filters on a node, as the cluster is in memory now."""
        ...

    def reasons(self, row: int) -> tuple[str, ...]:
        """The reasons of the first filter that rejects it, as the cluster is in memory now."""
        ...

    def is_leaving(self, pod: Pod) -> bool:
        """Whether a pod is being deleted, and ends as soon as if it was evicted now."""
        ...
