"""What pods are charged, and which limits that concerns."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from arranger.api.resource_requests import Amounts
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

    @property
    def shortage(self) -> QuotaShortage:
        """What is told of a limit that the pod would exceed."""
        scale = 1 if self.resource in ("cpu", "memory") else 1000
        wanted, limit = self.n * scale, self.limit * scale
        total = self.used * scale + wanted
        return QuotaShortage(
            self.queue, self.resource, wanted, total, limit, self.beside_guarantees
        )


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


def room_for_any(kinds: Iterable[Iterable[ChargedLimit]]) -> int:
    """How many pods all limits have room for, whatever the kinds of the pods; no less.

    ``kinds``: the limits that count for each kind, on each kind of node. A pod takes at least the
    least that any of them takes.
    """
    least: dict[Limit, tuple[int, int]] = {}
    for place, limits in enumerate(kinds):
        charged = {each.key: (each.n, each.room) for each in limits if each.n}
        if place == 0:
            least = charged
        else:
            both = least.keys() & charged.keys()
            least = {key: min(least[key], charged[key]) for key in both}
    return min((room // n for n, room in least.values()), default=sys.maxsize)
