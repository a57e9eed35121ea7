"""Who goes first: the order of victims on a node, and of nodes by their victims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from arranger.api.annotations import CHECKPOINTED_AT
from arranger.api.settings.checkpoints import checkpointed_at
from arranger.cluster.pod_info import PodInfo

#: What upstream adds to every priority so that more victims never count as less.
_OFFSET = 2**31

#: Less important than any pod.
_NOBODY = -(2**100)

#: How important a pod is among victims.
Importance = Callable[[PodInfo], int]


#: See :meth:`Candidate.cost`.
CandidateCost = tuple[int, int, int, int, int, float, float]


def priority(pod: PodInfo) -> int:
    """The pod's priority: its importance where there are no queues."""
    return pod.priority


def start_time(pod: PodInfo) -> float:
    """When a pod started, in seconds since 1970; one that has not counts as the youngest."""
    at = pod.pod.status.start_time
    return at.timestamp() if at is not None else float("inf")


def by_importance(victims: Iterable[PodInfo], importance: Importance = priority) -> list[PodInfo]:
    """The most important first: by importance, then by age, then who has not saved its state for
    longest; of equal ones by uid, in whatever order they came."""
    return sorted(victims, key=lambda pod: place_in_order(pod, importance))


def place_in_order(pod: PodInfo, importance: Importance) -> tuple[int, float, float, str]:
    """The less the more important, as :func:`by_importance` puts pods in order."""
    return -importance(pod), start_time(pod), checkpointed_at(pod.pod), pod.uid


def oldest_checkpoint(victims: Sequence[PodInfo]) -> float:
    """When the one of these (there is one) that has not saved its state for longest last did.

    In seconds since 1970; 0 if one of them never has.
    """
    oldest = float("inf")
    for pod in victims:
        if CHECKPOINTED_AT not in pod.pod.metadata.annotations:
            return 0.0
        oldest = min(oldest, checkpointed_at(pod.pod))
    return oldest


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and who must leave it.

    Attributes:
        row: the node.
        victims: the most important first.
        pdb_violations: how many of them a disruption budget protects.
        importance: how important each is.
        leaving: uids of those that are being evicted already, and cost nothing more.
        generous: whether another pod like the one in question may find room by it as well: there,
            or where members of the victims' gangs leave.
        groups_broken: how many gang groups leave whole, as their surplus is not enough.
        known_cost: what :meth:`cost` says, where it has been worked out.
    """

    row: int
    victims: tuple[PodInfo, ...]
    pdb_violations: int
    importance: Importance = priority
    leaving: frozenset[str] = frozenset()
    generous: bool = False
    groups_broken: int = 0
    known_cost: CandidateCost | None = field(default=None, compare=False, repr=False)

    @property
    def evicted(self) -> tuple[PodInfo, ...]:
        """The victims that are not leaving yet."""
        if not self.leaving:
            return self.victims
        return tuple(pod for pod in self.victims if pod.uid not in self.leaving)

    def cost(self) -> CandidateCost:
        """What it would cost, least first.

        Budget violations, the highest priority among the victims, the sum of priorities, the number
        of victims, and the later the oldest of the most important started, the better
        (``pickOneNodeForPreemption``); gang groups broken count after the highest priority. Of
        equal ones those are cheaper who have all saved their state lately.
        """
        if self.known_cost is not None:
            return self.known_cost
        victims = self.evicted
        if not victims:
            return 0, _NOBODY, 0, 0, 0, 0.0, 0.0
        weights = [self.importance(pod) for pod in victims]
        top = weights[0]
        pairs = zip(victims, weights, strict=True)
        oldest = min(start_time(pod) for pod, weight in pairs if weight == top)
        total = sum(weight + _OFFSET for weight in weights)
        count = len(self.victims)
        saved = oldest_checkpoint(victims)
        return self.pdb_violations, top, self.groups_broken, total, count, -oldest, -saved
