"""What pods are charged, and which limits that concerns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from arranger.api.resource_requests import Amounts
from arranger.api.types.pod_groups import AnyPodGroup, WorkloadGroup
from arranger.framework.preemption import Limit


class ChargedLimit(NamedTuple):
    """A limit, and what a pod would be charged that counts towards it.

    Attributes:
        key: names the limit.
        queue: the queue that would exceed it.
        resource: what of, or which card.
        n: what the pod would be charged.
        used, limit: what the queue uses without the pod, and what it may.
        slack: so much it may be charged in any case, as it is guaranteed.
        beside_guarantees: whether the limit is what guarantees of others leave.
    """

    key: Limit
    queue: str
    resource: str
    n: int
    used: int
    limit: int
    slack: int = 0
    beside_guarantees: bool = False

    @property
    def left(self) -> int:
        """What would be left of the limit with the pod; less than 0 is too little."""
        return self.limit - self.used - self.n

    @property
    def binds(self) -> bool:
        """Whether the pod must fit into the limit."""
        return not self.beside_guarantees or self.n > self.slack

    @property
    def room(self) -> int:
        """What may be charged in all."""
        return max(0, self.limit - self.used, self.slack)


@dataclass(frozen=True, slots=True)
class QuotaShortage:
    """A limit that a pod would exceed, in the units of the texts: milli of cpu and of scalars.

    Attributes:
        beside_guarantees: whether the limit is what guarantees of others leave.
    """

    queue: str
    resource: str
    requested: int
    total: int
    limit: int
    beside_guarantees: bool = False


class Charge(NamedTuple):
    """What a placed pod is charged, and what decides whether it can be evicted for another queue.

    Attributes:
        queue: the queue charged.
        service: ``inference``, ``training`` or "" for a pod that is neither.
        preemptable: whether it may be evicted at all.
        says_service: whether somebody says the service; else it follows from the kind of its owner.
    """

    queue: str
    amounts: Amounts
    service: str
    preemptable: bool
    says_service: bool


class PodGroups(Protocol):
    """Knows the PodGroups of pods."""

    def pod_group_of(self, uid: str) -> AnyPodGroup | None:
        """The PodGroup of a pod, if it has one."""
        ...


class LonePods(Protocol):
    """Knows what the owners of gangs say of their pods that are in none."""

    def settings_of(self, uid: str) -> WorkloadGroup | None:
        """Queue and annotations for a pod, by the same object for all like it."""
        ...
